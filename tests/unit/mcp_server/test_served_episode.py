"""What a client is told and what only the operator hears, at every way in which an episode can end."""

# ruff: noqa: ARG001 - `world` puts machines in memory in place
from __future__ import annotations

import asyncio
import json
import struct
import threading
import zlib
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from memory_sandbox import MemorySandbox, World

from karotte_gym import ConfigError, GradingError, MachineDied, MachineError, StudentMisbehavior
from karotte_gym.cli import mcp as command
from karotte_gym.mcp_server import served_episode
from karotte_gym.mcp_server.served_episode import Answer, ServedEpisode

SUBMIT = ("submit", {})
BASH = ("bash", {"command": "true"})


def played(work: Callable[[ServedEpisode], Coroutine[Any, Any, Any]], run_dir: Path | None = None) -> tuple[ServedEpisode, Any]:
    """What `work` returns of an episode that is closed after it."""

    async def play() -> tuple[ServedEpisode, Any]:
        arguments = {} if run_dir is None else {"run_dir": str(run_dir)}
        episode = ServedEpisode(lambda: gym.make("karotte/q3-revenue", **arguments), seed=4)
        try:
            await episode.begin(asyncio.Event())
            return episode, await work(episode)
        finally:
            await episode.close()

    return asyncio.run(play())


def record_in(run_dir: Path) -> dict[str, Any]:
    (path,) = run_dir.glob("*/record.json")
    return json.loads(path.read_text())  # type: ignore[no-any-return]


def test_the_score_is_the_operators_and_calls_after_the_end_change_nothing(world: World) -> None:
    async def work(episode: ServedEpisode) -> list[Answer]:
        answers = [await episode.call(*BASH), await episode.call(*SUBMIT)]
        await asyncio.wait_for(episode.over.wait(), 30)
        return [*answers, await episode.call(*SUBMIT)]

    episode, (ran, submitted, late) = played(work)
    assert (ran.failed, submitted.text, submitted.failed) == (False, "Submitted.", False)
    assert late.failed and "over" in late.text
    assert (episode.outcome.reward, episode.outcome.fault, episode.outcome.given_up) == (1.0, None, "")
    assert "1.0" not in ran.text + submitted.text + late.text


def test_misbehavior_is_told_as_in_gymnasium(world: World) -> None:
    world.refusal = StudentMisbehavior("custody", "a link")
    episode, answer = played(lambda episode: episode.call(*SUBMIT))
    assert (answer.failed, answer.text) == (True, "The episode ended: a link")
    assert (episode.outcome.reward, episode.outcome.info["misbehavior"]) == (0.0, "a link")


def test_a_fault_of_ours_is_not_told_to_the_student_and_ends_the_episode(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: object, *args: Any, **kwargs: Any) -> Any:
        raise GradingError("the grader's disk at /srv/answers is full")

    monkeypatch.setattr(MemorySandbox, "score", broken)

    async def work(episode: ServedEpisode) -> list[Answer]:
        answer = await episode.call(*SUBMIT)
        await asyncio.wait_for(episode.over.wait(), 30)
        return [answer, await episode.call(*BASH)]

    episode, answers = played(work)
    assert all(answer.failed and "/srv" not in answer.text and "not your doing" in answer.text for answer in answers)
    assert isinstance(episode.outcome.fault, GradingError) and episode.outcome.reward is None


def test_a_machine_that_does_not_start_raises_for_the_operator(world: World) -> None:
    world.start_error = MachineError("no QEMU")
    with pytest.raises(MachineError, match="no QEMU"):
        played(lambda episode: episode.call(*BASH))


def hanging(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Commands hang until their machine is closed; the event says that one has begun."""
    begun, closed = threading.Event(), threading.Event()

    def bash(self: MemorySandbox, command: str, **_: Any) -> Any:
        begun.set()
        assert closed.wait(100)
        raise MachineDied("the machine was closed", cause="exited")

    def close(self: MemorySandbox) -> None:
        self.closed = True
        closed.set()

    monkeypatch.setattr(MemorySandbox, "bash", bash)
    monkeypatch.setattr(MemorySandbox, "close", close)
    return begun


async def a_call_that_hangs(episode: ServedEpisode, begun: threading.Event) -> asyncio.Task[Answer]:
    call = asyncio.create_task(episode.call(*BASH))
    assert await asyncio.to_thread(begun.wait, 30)
    return call


def test_giving_up_in_the_middle_of_a_call_is_no_misbehavior(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The machine goes under the call; that it went is our doing, and the record must not blame the student."""
    begun = hanging(monkeypatch)
    monkeypatch.setattr(served_episode, "GIVE_UP_WAIT_S", 0.2)

    async def work(episode: ServedEpisode) -> Answer:
        call = await a_call_that_hangs(episode, begun)
        await episode.give_up("the client left")
        return await asyncio.wait_for(call, 30)

    episode, answer = played(work, tmp_path)
    assert answer.failed
    assert (episode.outcome.given_up, episode.outcome.reward, episode.outcome.fault) == ("the client left", None, None)
    record = record_in(tmp_path)
    assert (record["misbehavior"], record["score"], record["error"]) == (None, None, "the client left")


@pytest.mark.parametrize(("how", "said"), [("left", "the agent left"), ("silence", "the agent fell silent")])
def test_an_agent_that_goes_in_the_middle_of_a_call_earns_0_and_the_record_says_why(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, how: Any, said: str
) -> None:
    """A student that crashes its client must not have its losing episode dropped, nor be blamed for a machine of ours."""
    begun = hanging(monkeypatch)
    monkeypatch.setattr(served_episode, "GIVE_UP_WAIT_S", 0.2)

    async def work(episode: ServedEpisode) -> Answer:
        call = await a_call_that_hangs(episode, begun)
        await episode.leave(how, asyncio.Event())
        return await asyncio.wait_for(call, 30)

    episode, answer = played(work, tmp_path)
    assert answer.failed
    outcome, record = episode.outcome, record_in(tmp_path)
    assert (outcome.reward, outcome.given_up, outcome.fault) == (0.0, "", None) and said in outcome.left
    assert (record["score"], record["limit"], record["error"], record["misbehavior"]) == (0.0, how, None, None)
    assert any(said in line for line in record["exceptions"])


def test_a_client_that_terminates_us_after_it_left_need_not_wait(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The SDK's client kills its server soon after, and a killed one leaves no record."""
    begun = hanging(monkeypatch)
    monkeypatch.setattr(served_episode, "GIVE_UP_WAIT_S", 600)

    async def work(episode: ServedEpisode) -> None:
        call = await a_call_that_hangs(episode, begun)
        stop = asyncio.Event()
        asyncio.get_running_loop().call_later(0.1, stop.set)
        await asyncio.wait_for(episode.leave("left", stop), 30)
        await call

    played(work, tmp_path)
    assert record_in(tmp_path)["score"] == 0.0


def test_what_was_handed_in_is_graded_although_the_client_left(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    grading, graded, honest = threading.Event(), threading.Event(), MemorySandbox.score

    def slow(self: MemorySandbox, *args: Any, **kwargs: Any) -> Any:
        grading.set()
        assert graded.wait(30)
        return honest(self, *args, **kwargs)

    monkeypatch.setattr(MemorySandbox, "score", slow)
    monkeypatch.setattr(served_episode, "GIVE_UP_WAIT_S", 0.01)

    async def work(episode: ServedEpisode) -> None:
        call = asyncio.create_task(episode.call(*SUBMIT))
        assert await asyncio.to_thread(grading.wait, 30)
        asyncio.get_running_loop().call_later(0.3, graded.set)  # longer than what runs is waited for otherwise
        await episode.leave("left", asyncio.Event())
        await call

    episode, _ = played(work, tmp_path)
    assert (episode.outcome.reward, episode.outcome.left, record_in(tmp_path)["score"]) == (1.0, "", 1.0)


def test_a_start_that_takes_long_is_not_waited_for_when_stopped() -> None:
    starting, release = threading.Event(), threading.Event()

    def make() -> gym.Env[Any, Any]:
        starting.set()
        assert release.wait(150)
        raise MachineError("nobody waits for this any more")

    async def play() -> tuple[bool, bool]:
        episode, stop = ServedEpisode(make), asyncio.Event()
        beginning = asyncio.create_task(episode.begin(stop))
        assert await asyncio.to_thread(starting.wait, 30)
        stop.set()
        begun = await asyncio.wait_for(beginning, 30)
        await asyncio.wait_for(episode.give_up("stopped"), 30)
        closed = await asyncio.wait_for(episode.close(), 30)
        release.set()
        return begun, closed

    assert asyncio.run(play()) == (False, False)


def test_a_call_that_nobody_waits_for_any_more_is_not_begun(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, release, honest = threading.Event(), threading.Event(), MemorySandbox.bash

    def held(self: MemorySandbox, *args: Any, **kwargs: Any) -> Any:
        begun.set()
        assert release.wait(30)
        return honest(self, *args, **kwargs)

    monkeypatch.setattr(MemorySandbox, "bash", held)

    async def work(episode: ServedEpisode) -> None:
        calls = [asyncio.create_task(episode.call("bash", {"command": f"echo {number}"})) for number in range(10)]
        assert await asyncio.to_thread(begun.wait, 30)
        for call in calls[5:]:
            call.cancel()
        await asyncio.sleep(0)
        release.set()
        await asyncio.gather(*calls, return_exceptions=True)
        await episode.call("bash", {"command": "echo last"})

    played(work)
    assert [command for command, *_ in world.asked] == [*(f"echo {number}" for number in range(5)), "echo last"]


def test_giving_up_after_the_end_changes_nothing(world: World, tmp_path: Path) -> None:
    async def work(episode: ServedEpisode) -> None:
        await episode.call(*SUBMIT)
        await episode.give_up("too late")

    episode, _ = played(work, tmp_path)
    assert (episode.outcome.reward, episode.outcome.given_up, record_in(tmp_path)["error"]) == (1.0, "", None)


def part(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def test_pictures_and_failures_keep_their_kind_over_the_protocol() -> None:
    pytest.importorskip("mcp", reason="needs the extra karotte-gym[mcp]")
    from karotte_gym.mcp_server.server import result_of
    from karotte_gym.tools.pictures import picture_of

    png = b"\x89PNG\r\n\x1a\n" + part(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0))
    png += part(b"IDAT", zlib.compress(b"\0\1\2\3")) + part(b"IEND", b"")
    result = result_of(Answer("a picture", (picture_of(png),), False))
    text, image = result.content
    assert (text.text, image.mime_type, image.type) == ("a picture", "image/png", "image")  # type: ignore[union-attr]
    assert not result.is_error and result_of(Answer("error: x", failed=True)).is_error


@pytest.mark.parametrize(("installed", "named"), [(None, "pip install"), ("1.9.0", "1.9.0")])
def test_without_the_extra_one_sentence_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, installed: str | None, named: str
) -> None:
    def version(name: str) -> str:
        if installed is None:
            raise command.metadata.PackageNotFoundError(name)
        return installed

    monkeypatch.setattr(command.metadata, "version", version)
    with pytest.raises(ConfigError, match=named):
        command.mcp("q3-revenue")


@pytest.mark.parametrize("text", ["{", "[1]", "5", "[" * 100_000])
def test_a_configuration_that_is_no_object_is_one_sentence(text: str) -> None:
    with pytest.raises(ConfigError, match="--task-config"):
        command.mcp("q3-revenue", task_config=text)
