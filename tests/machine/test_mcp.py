"""The official SDK's own client is the student, over both transports; and who should not get in or see, does not."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

pytest.importorskip("mcp", reason="needs the extra karotte-gym[mcp]")
import mcp
from mcp.client.streamable_http import streamable_http_client

from karotte_gym.redteam.pack import solution_of
from karotte_gym.registration import load_task

pytestmark = pytest.mark.machine

TASK = load_task("q3-revenue")
SOLUTION = solution_of(TASK)
COMMAND = [sys.executable, "-m", "karotte_gym.cli.main", "mcp", "q3-revenue"]
START_S = 240.0  # an image may have to be built


def bash(command: str, **more: Any) -> dict[str, Any]:
    return {"name": "bash", "arguments": {"command": command, **more}}


def text_of(result: Any) -> str:
    return "".join(part.text for part in result.content)


def record_in(run_dir: Path) -> dict[str, Any]:
    (path,) = run_dir.glob("*/record.json")
    return json.loads(path.read_text())  # type: ignore[no-any-return]


class Server:
    """The command as a process, with what it said to its operator."""

    def __init__(self, run_dir: Path, *arguments: str, stdin: Any = subprocess.DEVNULL):
        command = [*COMMAND, "--run-dir", str(run_dir), *arguments]
        self.process = subprocess.Popen(command, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def address(self) -> str:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            found = re.search(rb"listening on (http://\S+)", line)
            if found:
                return found[1].decode()
        raise AssertionError("the server ended before it listened")

    def ended(self, timeout_s: float = 30) -> tuple[int, str, str]:
        out, err = self.process.communicate(timeout=timeout_s)
        return self.process.returncode, out.decode(), err.decode()


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Any]:
    with contextlib.ExitStack() as stack:

        def start(*arguments: str) -> Server:
            server = Server(tmp_path, "--transport", "http", *arguments)
            stack.callback(server.process.wait)
            stack.callback(server.process.kill)
            return server

        yield start


@contextlib.asynccontextmanager
async def session_at(url: str) -> AsyncIterator[mcp.ClientSession]:
    async with streamable_http_client(url) as streams, mcp.ClientSession(streams[0], streams[1]) as session:
        await session.initialize()
        yield session


@contextlib.asynccontextmanager
async def session_of_a_child(run_dir: Path, errlog: Any, *arguments: str) -> AsyncIterator[mcp.ClientSession]:
    command = [*COMMAND[1:], "--run-dir", str(run_dir), *arguments]
    settings = {name: value for name, value in os.environ.items() if name.startswith("KAROTTE_GYM_")}  # clients pass few
    parameters = mcp.StdioServerParameters(command=COMMAND[0], args=command, env=settings)
    async with mcp.stdio_client(parameters, errlog=errlog) as (read, write), mcp.ClientSession(read, write) as session:
        await asyncio.wait_for(session.initialize(), START_S)
        yield session


async def solve(session: Any) -> list[str]:
    answers = []
    for call in SOLUTION:
        result = await session.call_tool(call["name"], call["arguments"])
        assert not result.is_error
        answers.append(text_of(result))
    return answers


def test_over_stdio_the_reference_solution_earns_1_and_only_the_operator_hears_of_it(tmp_path: Path) -> None:
    async def play(errlog: Any) -> tuple[Any, list[str]]:
        async with session_of_a_child(tmp_path, errlog) as session:
            offered = await session.list_tools()
            shown = await session.get_prompt("task")
            assert "63148" not in shown.messages[0].content.text
            assert "third quarter" in shown.messages[0].content.text
            return offered, await solve(session)

    with open(tmp_path / "stderr", "w+") as errlog:
        offered, answers = asyncio.run(play(errlog))
        errlog.seek(0)
        said = errlog.read()
    assert [tool.name for tool in offered.tools] == [*TASK.tools, "submit"]
    assert offered.tools[0].input_schema["required"] == ["command"]
    assert answers[-1] == "Submitted."
    assert not any("reward" in answer or "score" in answer for answer in answers)
    assert "q3-revenue: reward 1.0" in said and str(tmp_path) in said
    assert record_in(tmp_path)["score"] == 1.0


def test_over_http_both_kinds_of_client_play_one_episode_to_1(serve: Any, tmp_path: Path) -> None:
    """The older protocol has sessions, the newer has none; a client of each plays a half, as does one that comes back."""
    server = serve("--seed", "3", "--config", '{"generated": true}')

    async def play(url: str) -> None:
        async with session_at(url) as session:
            await session.call_tool("bash", {"command": "export HALF=1"})
        async with mcp.Client(url) as client:
            assert text_of(await client.call_tool("bash", {"command": "echo $HALF"})).strip() == "1"
            await solve(client)

    asyncio.run(play(server.address()))
    code, out, err = server.ended()
    assert (code, out) == (0, "")
    assert "reward 1.0" in err
    record = record_in(tmp_path)
    assert (record["score"], record["seed"], record["task_config"]) == (1.0, 3, '{"generated":true}')


def test_what_is_no_call_is_answered_and_the_episode_goes_on(tmp_path: Path) -> None:
    async def play() -> list[Any]:
        async with session_of_a_child(tmp_path, subprocess.DEVNULL) as session:
            wrong: list[tuple[str, Any]] = [
                ("nosuch", {}),
                ("bash", {}),
                ("bash", {"command": 5}),
                ("bash", {"command": "a\0b"}),
                ("bash", {"command": "x" * 300_000}),
                ("bash", None),
                ("reset", {}),
                ("", {}),
            ]
            results = [await session.call_tool(name, arguments) for name, arguments in wrong]
            results.append(await session.call_tool("bash", {"command": "echo 'error: mine'; false"}))
            await solve(session)
            return results

    *wrong, last = asyncio.run(play())
    assert all(result.is_error and text_of(result).startswith("error: ") for result in wrong)
    assert not last.is_error, "what a command prints or returns is no failure of the tool"
    record = record_in(tmp_path)
    assert (record["score"], record["calls"]) == (1.0, len(wrong) + 1 + len(SOLUTION))


def test_calls_of_two_clients_wait_for_each_other_and_no_answer_is_anothers(serve: Any) -> None:
    server = serve()

    async def play(url: str) -> None:
        async with session_at(url) as one, session_at(url) as two:
            calls = []
            for number in range(6):
                session = (one, two)[number % 2]
                command = f"[ -e busy ] && echo OVERLAP; touch busy; sleep 0.2; rm busy; echo {number}"
                calls.append(session.call_tool("bash", {"command": command}))
            answers = [text_of(result).strip() for result in await asyncio.gather(*calls)]
            assert answers == [str(number) for number in range(6)]
            flood = [one.call_tool("bash", {"command": "sleep 0.1"}) for _ in range(40)]
            refused = [result for result in await asyncio.gather(*flood) if result.is_error]
            assert refused and all("at a time" in text_of(result) for result in refused)
            await one.call_tool("submit", {})

    asyncio.run(play(server.address()))
    assert server.ended()[0] == 0


def ask(url: str, body: Any = None, **headers: str) -> int:
    """The status of a request; a handshake when no body is given."""
    handshake = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    body = body if body is not None else {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": handshake}
    fixed = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(url, json.dumps(body).encode(), {**fixed, **given})
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        return error.code


def status_of_a_large_body(port: str, path: str) -> int:
    """Announced and not sent: a server that reads first would wait for it."""
    connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=30)
    connection.putrequest("POST", path)
    for name, value in {"Content-Type": "application/json", "Content-Length": "2000000"}.items():
        connection.putheader(name, value)
    connection.endheaders()
    status = connection.getresponse().status
    connection.close()
    return status


@pytest.mark.parametrize("version", ["2025-06-18", "2026-07-28"])
def test_a_page_that_rebinds_its_name_to_this_host_is_refused(serve: Any, version: str) -> None:
    server = serve("--secret-path", "--idle-timeout-s", "30")
    url = server.address()
    port, secret = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/mcp/([\w-]{32})", url).groups()  # type: ignore[union-attr]
    assert ask(url) == 200, "it would have worked"
    newer = {"MCP_Protocol_Version": version} if version > "2026" else {}
    assert ask(url, Host=f"evil.example:{port}", **newer) == 421
    assert ask(url, Host="127.0.0.1:1", **newer) == 421
    assert ask(url, Host=f"127.0.0.1:{port}.evil.example", **newer) == 421
    assert ask(url, Origin="http://evil.example", **newer) == 403
    assert ask(url, Origin="null", **newer) == 403
    assert ask(url, Content_Type="text/plain", **newer) in (400, 415), "what a page may send without asking first"
    assert ask(f"http://127.0.0.1:{port}/mcp") == 404, "the path is the secret"
    assert status_of_a_large_body(port, f"/mcp/{secret}") == 413
    listening = [c.laddr.ip for c in psutil.Process(server.process.pid).net_connections() if c.status == "LISTEN"]
    assert listening == ["127.0.0.1"]
    assert secret not in " ".join(psutil.Process(server.process.pid).cmdline())


def test_a_port_that_is_taken_is_one_sentence(serve: Any) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        code, out, err = serve("--port", str(taken.getsockname()[1])).ended(START_S)
    assert (code, out) == (2, "")
    assert "leave --port out" in err and "Traceback" not in err


def given_up(run_dir: Path) -> str:
    record = record_in(run_dir)
    assert (record["score"], record["misbehavior"]) == (None, None)
    return str(record["error"])


def zero_for(run_dir: Path) -> str:
    record = record_in(run_dir)
    assert (record["score"], record["misbehavior"], record["error"]) == (0.0, None, None)
    return str(record["limit"])


def test_a_client_that_leaves_before_the_end_earns_0(tmp_path: Path) -> None:
    async def leave(errlog: Any) -> None:
        async with session_of_a_child(tmp_path, errlog) as session:
            await session.call_tool("bash", {"command": "true"})

    with open(tmp_path / "stderr", "w+") as errlog:
        asyncio.run(leave(errlog))
        errlog.seek(0)
        assert "reward 0.0: the agent left before the end" in errlog.read()
    assert zero_for(tmp_path) == "left"


def test_over_http_silence_earns_0_also_while_a_stream_is_open(serve: Any, tmp_path: Path) -> None:
    server = serve("--idle-timeout-s", "8")

    async def leave(url: str) -> None:
        async with session_at(url) as session:
            result = await session.call_tool("bash", {"command": "sleep 10; echo waited"})
            assert "waited" in text_of(result), "a call that runs is no silence"
            await asyncio.to_thread(server.process.wait, 60)  # the session keeps its stream for news open

    with contextlib.suppress(ExceptionGroup):  # the client's connection broke
        asyncio.run(leave(server.address()))
    code, _, err = server.ended()
    assert (code, "fell silent before the end" in err) == (1, True), err
    assert zero_for(tmp_path) == "silence"


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_in_the_middle_of_a_long_call_ends_it_all_soon(serve: Any, tmp_path: Path, how: signal.Signals) -> None:
    server = serve()
    children: list[psutil.Process] = []

    async def begin(url: str) -> None:
        async with session_at(url) as session:
            await session.call_tool("bash", {"command": "true"})
            children.extend(psutil.Process(server.process.pid).children(recursive=True))
            call = asyncio.create_task(session.call_tool("bash", {"command": "sleep 100"}))
            await asyncio.sleep(0.5)
            server.process.send_signal(how)
            code = await asyncio.to_thread(server.process.wait, 90)
            assert code == 128 + how
            call.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await call

    with contextlib.suppress(ExceptionGroup):  # the client's connection broke
        asyncio.run(begin(server.address()))
    assert children
    _, alive = psutil.wait_procs(children, timeout=30)
    assert not alive
    assert "stopped by its operator" in given_up(tmp_path)


def test_a_killed_machine_ends_the_episode_with_the_reason_and_no_score_for_the_student(serve: Any, tmp_path: Path) -> None:
    server = serve()

    async def play(url: str) -> Any:
        async with session_at(url) as session:
            await session.call_tool("bash", {"command": "true"})
            processes = psutil.Process(server.process.pid).children(recursive=True)
            for machine in [one for one in processes if "qemu" in one.name()]:
                machine.kill()
            return await session.call_tool("bash", {"command": "sleep 5"})

    result = asyncio.run(play(server.address()))
    assert result.is_error and text_of(result).startswith("The episode ended: ")
    code, _, err = server.ended()
    assert (code, "reward 0.0" in err) == (0, True)
    assert record_in(tmp_path)["misbehavior_kind"].startswith("machine_")


def test_nothing_but_the_protocol_is_on_standard_output_whatever_comes_in(tmp_path: Path) -> None:
    server = Server(tmp_path, stdin=subprocess.PIPE)
    assert server.process.stdin is not None
    server.process.stdin.write(b"no json\n\xff\xfe\n[]\n{}\n" + b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
    server.process.stdin.flush()
    code, out, err = server.ended(START_S)
    assert code == 1, err
    assert all(json.loads(line)["jsonrpc"] == "2.0" for line in out.splitlines())
    assert "Traceback" not in err


def test_a_line_without_an_end_is_cut_off(tmp_path: Path) -> None:
    server = Server(tmp_path, stdin=subprocess.PIPE)
    assert server.process.stdin is not None
    peak = 0
    with contextlib.suppress(BrokenPipeError):
        for _ in range(64):
            server.process.stdin.write(b"x" * 1024 * 1024)
            peak = max(peak, psutil.Process(server.process.pid).memory_info().rss)
    with contextlib.suppress(BrokenPipeError):
        server.process.stdin.close()
    assert server.process.wait(START_S) == 1
    assert peak < 512 * 1024 * 1024
    assert zero_for(tmp_path) == "left"
