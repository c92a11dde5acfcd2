"""The command as a process that must end, whatever its client does with the pipes; no machine is real here."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

pytest.importorskip("mcp", reason="needs the extra karotte-gym[mcp]")

COMMAND = [sys.executable, "-m", "karotte_gym.cli.main", "mcp"]
SLOW_START = """
import signal, sys, threading, typing
from karotte_gym import registration
from karotte_gym.cli import mcp
class Slow:
    id = "slow"
    @classmethod
    def prepare(cls, progress):
        print("starting", file=sys.stderr, flush=True)
        threading.Event().wait()
mcp.load_task = lambda name: Slow
mcp.gym.make = lambda *a, **k: None
mcp.register_all = lambda project: None
import typer
typer.run(mcp.mcp)
"""
IN_MEMORY = """
import sys
sys.path.insert(0, sys.argv.pop(1))
from memory_sandbox import World
from karotte_gym.cli.main import main
from karotte_gym.sandbox import machines
world = World()
machines.start, machines.prefetch = world.start, world.prefetch
main()
"""
PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
BREAKING = """
import sys
import anyio
from karotte_gym.mcp_server import stdio
@stdio.contextlib.asynccontextmanager
async def breaking(**streams):
    try:
        if BY_ITSELF:
            raise ExceptionGroup("of the SDK", [anyio.BrokenResourceError()])
        yield None, None
    finally:
        raise ExceptionGroup("of the SDK", [anyio.BrokenResourceError()])
class Server:
    async def run(self, *a):
        print("the episode has begun", file=sys.stderr, flush=True)
        await anyio.sleep_forever()
    def create_initialization_options(self):
        pass
stdio.make_server = lambda episode: Server()
stdio.stdio_server = breaking
"""
# Says that the server knows of its client's leaving, some rounds of its loop after the rest of it was told.
TELLING = """
import sys
from karotte_gym.mcp_server import stdio
leave = stdio._Left.set
def tell(loop, rounds):
    if rounds:
        loop.call_soon(tell, loop, rounds - 1)
    else:
        print("the client has left", file=sys.stderr, flush=True)
def told(left):
    leave(left)
    with stdio.contextlib.suppress(RuntimeError):
        left._loop.call_soon_threadsafe(tell, left._loop, 20)
stdio._Left.set = told
"""
LIMIT_S = 60


@pytest.fixture
def held_open() -> Iterator[int]:
    """A standard input that never ends and on which nothing comes."""
    reader, writer = os.pipe()
    yield reader
    os.close(reader)
    os.close(writer)


@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize(
    ("arguments", "said"), [(["--task-config", '{"generated": 5}'], "generated"), (["--run-dir", "/proc/x"], "/proc/x")]
)
def test_an_episode_that_cant_begin_is_one_sentence_at_once(
    held_open: int, closed: bool, arguments: list[str], said: str
) -> None:
    stdin = subprocess.DEVNULL if closed else held_open
    done = subprocess.run(
        [*COMMAND, "q3-revenue", *arguments], stdin=stdin, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr and len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize(("how", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_ends_it_while_it_starts(
    held_open: int, tmp_path: Path, transport: str, how: signal.Signals, code: int
) -> None:
    script = tmp_path / "slow.py"
    script.write_text(SLOW_START)
    command = [sys.executable, str(script), "slow", "--transport", transport]
    process = subprocess.Popen(command, stdin=held_open, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None and process.stderr.readline() == "starting\n"
        process.send_signal(how)
        out, err = process.communicate(timeout=LIMIT_S)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, out) == (code, "")
    assert "stopped by its operator" in err


class Client:
    """Of a server whose machines are in memory; what it says and reads is the test's."""

    def __init__(self, tmp_path: Path, patch: str = ""):
        script = tmp_path / "served.py"
        script.write_text(patch + IN_MEMORY)
        self.run_dir = tmp_path / "run"
        here = str(Path(__file__).parents[1])
        command = [sys.executable, str(script), here, "mcp", "q3-revenue", "--run-dir", str(self.run_dir)]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe)
        assert self.process.stdin is not None and self.process.stdout is not None and self.process.stderr is not None
        self.said, self.heard, self.news = self.process.stdin, self.process.stdout, self.process.stderr

    def ping(self) -> None:
        self.said.write(PING)
        self.said.flush()

    def ended(self) -> tuple[int, str, dict[str, object]]:
        code = self.process.wait(LIMIT_S)
        (path,) = self.run_dir.glob("*/record.json")
        return code, self.news.read().decode(), json.loads(path.read_text())

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.said, self.heard, self.news):
            with contextlib.suppress(BrokenPipeError):
                stream.close()


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    with closing(Client(tmp_path)) as made:
        yield made


def fill_the_pipes(client: Client) -> None:
    """Ask and never read, until the server takes no more."""
    os.set_blocking(client.said.fileno(), False)
    idle_since = time.monotonic()
    while time.monotonic() < idle_since + 1:
        with contextlib.suppress(BlockingIOError):
            os.write(client.said.fileno(), PING)
            idle_since = time.monotonic()


def test_a_client_that_closes_our_input_has_left_and_earns_0(client: Client) -> None:
    client.ping()
    assert json.loads(client.heard.readline())["jsonrpc"] == "2.0"
    client.said.close()
    code, err, record = client.ended()
    assert code == 1 and "reward 0.0: the agent left before the end" in err and "Traceback" not in err
    assert (record["score"], record["limit"], record["error"]) == (0.0, "left", None)


def test_a_client_that_closes_our_output_has_left_and_earns_0(client: Client) -> None:
    client.ping()
    client.heard.readline()
    client.heard.close()
    client.ping()
    code, err, record = client.ended()
    assert (code, record["limit"], "Traceback" in err) == (1, "left", False)


def test_a_signal_ends_it_while_a_client_does_not_read(client: Client) -> None:
    client.ping()
    client.heard.readline()
    fill_the_pipes(client)
    client.process.terminate()
    code, err, record = client.ended()
    assert code == 143, err
    assert (record["score"], record["limit"], record["error"]) == (None, None, "stopped by its operator")


def test_a_client_that_leaves_and_then_terminates_us_has_left(tmp_path: Path) -> None:
    """As the SDK's own client does when it goes."""
    with closing(Client(tmp_path, TELLING)) as client:
        client.ping()
        client.heard.readline()
        client.said.close()
        assert any(b"the client has left" in line for line in client.news)
        client.process.terminate()
        assert client.ended()[2]["limit"] == "left"


def test_an_sdk_that_breaks_when_told_to_end_is_nobodys_fault(tmp_path: Path) -> None:
    with closing(Client(tmp_path, "BY_ITSELF = False\n" + BREAKING)) as client:
        assert any(b"the episode has begun" in line for line in client.news)
        client.process.terminate()
        code, err, record = client.ended()
    assert (code, record["score"], record["error"]) == (143, None, "stopped by its operator"), err
    assert "Traceback" not in err


def test_a_connection_that_breaks_is_the_agents_leaving(tmp_path: Path) -> None:
    """An SDK that the client's bytes can crash would be a way to have losing episodes dropped."""
    with closing(Client(tmp_path, "BY_ITSELF = True\n" + BREAKING)) as client:
        code, err, record = client.ended()
    assert (code, record["score"], record["limit"], record["error"]) == (1, 0.0, "left", None)
    assert "BrokenResourceError" in err


def asked(client: Client, line: bytes) -> dict[str, object]:
    client.said.write(line)
    client.said.flush()
    answer: dict[str, object] = json.loads(client.heard.readline())
    return answer


INITIALIZE = (
    b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},'
    b'"clientInfo":{"name":"x","version":"1"}}}\n{"jsonrpc":"2.0","method":"notifications/initialized"}\n'
)


def test_what_the_sdk_leaves_without_an_answer_is_answered(client: Client) -> None:
    """Whoever sent it would wait for ever; and what comes after is read as before."""
    call = b'{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"bash","arguments":{"command":"%s"}}}'
    for line, identity, code in (
        (call % (b"7", b"\\ud800"), 7, -32600),
        (call % (b'"a"', b"\\udfff"), "a", -32600),
        (call % (b"1.5", b"true"), None, -32600),
        (b'{"jsonrpc":"2.0","id":8,"method":"tools/call","params":[]}', 8, -32600),
        (b'{"jsonrpc":"1.0","id":9,"method":"ping"}', 9, -32600),
        (b"[]", None, -32600),
        (b"5", None, -32600),
        (b"garbage", None, -32700),
        (b"[" * 100_000, None, -32700),
        (b'{"jsonrpc":"2.0"', None, -32700),
    ):
        answer = asked(client, line + b"\n")
        assert (answer["id"], answer["error"]["code"]) == (identity, code), line  # type: ignore[index]
    batch = b'[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"ping"}]\n'
    assert (asked(client, batch)["id"], json.loads(client.heard.readline())["id"]) == (1, 2)
    client.said.write(b'\n \n{"jsonrpc":"2.0","method":"notifications/nosuch"}\n')
    assert asked(client, PING)["result"] == {}


def test_a_prompt_that_is_not_there_is_an_error(client: Client) -> None:
    asked(client, INITIALIZE)
    prompt = b'{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"%s"}}\n'
    assert "task" in asked(client, prompt % b"nosuch")["error"]["message"]  # type: ignore[index]
    assert "third quarter" in json.dumps(asked(client, prompt % b"task")["result"])
