"""``karotte-gym mcp``: serve one episode of a task to an agent that speaks the Model Context Protocol."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import sys
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import gymnasium as gym
import typer

from karotte_gym.cli.progress import stages
from karotte_gym.cli.projects import Projects, register_all
from karotte_gym.cli.task_config import TaskConfigTextOrConfig, read_task_config
from karotte_gym.episode import STOPPED
from karotte_gym.errors import ConfigError, KarotteError
from karotte_gym.registration import load_task

if TYPE_CHECKING:
    from karotte_gym.mcp_server.served_episode import Leaving, Outcome, ServedEpisode

__all__ = ["mcp"]

EXIT_LEFT = 1
EXIT_FAULT = 3
EXIT_SIGNAL = 128  # and the number of the signal, as shells have it
DEFAULT_PATH = "/mcp"
NO_EXTRA = "karotte-gym mcp needs version 2 of the package mcp: pip install 'karotte-gym[mcp]'"


def mcp(
    task: Annotated[str, typer.Argument(help="Task id, as in `tasks list`.")],
    transport: Annotated[Literal["stdio", "http"], typer.Option(help="How the agent comes.")] = "stdio",
    port: Annotated[int, typer.Option(min=0, max=65535, help="For http, on 127.0.0.1; 0 takes a free one.")] = 0,
    secret_path: Annotated[
        bool, typer.Option("--secret-path", help="For http: an address that other users of this host can't guess.")
    ] = False,
    idle_timeout_s: Annotated[
        float, typer.Option(min=0.5, help="For http: when no call comes for so long, the episode ends with 0.")
    ] = 1800.0,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of the episode.")] = None,
    task_config: TaskConfigTextOrConfig = None,
    run_dir: Annotated[Path | None, typer.Option("--run-dir", help="Where evidence is kept.")] = None,
    project: Projects = None,
) -> None:
    """Serve one episode. What the student must not see, its score, goes to standard error and the run directory.

    Exit code 0 when the episode ran to its end, whatever it earned; 1 when the agent left
    before or fell silent, which earns 0; 2 for wrong usage or configuration; 3 for a fault; 130 and 143 when the
    operator stopped it by Ctrl-C or SIGTERM, which leaves no score.
    """
    _check_extra()
    register_all(project)
    task_class = load_task(task)
    name = f"karotte/{task.removeprefix('karotte/')}"
    arguments: dict[str, Any] = {"task_config": read_task_config(task_config)}
    if run_dir is not None:
        arguments["run_dir"] = str(run_dir)

    def make() -> gym.Env[Any, Any]:
        env = gym.make(name, **arguments)
        with stages() as progress:
            task_class.prepare(progress)
        return env

    how = {"port": port, "path": _path(secret_path), "idle_timeout_s": idle_timeout_s} if transport == "http" else None
    raise typer.Exit(asyncio.run(_serve(task_class.id, make, seed, how)))


async def _serve(task_id: str, make: Any, seed: int | None, http: dict[str, Any] | None) -> int:
    """The exit code."""
    from karotte_gym.mcp_server.served_episode import ServedEpisode

    episode = ServedEpisode(make, seed=seed)
    stop, signals = asyncio.Event(), _Signals()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, signals.take, number, stop)
    try:
        how = await _serve_one(episode, stop, http)
        if how is None:
            await episode.give_up(STOPPED)
        else:
            await episode.leave(how, stop)
    finally:
        closed = await episode.close()
    code = _report(task_id, episode.outcome, signals.first)
    if not closed:  # a thread is busy, which Python would wait for; what it started ends with the process
        sys.stderr.flush()
        os._exit(code)
    return code


class _Signals:
    """The first one is what stopped us."""

    def __init__(self) -> None:
        self.first = 0

    def take(self, number: int, stop: asyncio.Event) -> None:
        self.first = self.first or number
        stop.set()


async def _serve_one(episode: ServedEpisode, stop: asyncio.Event, http: dict[str, Any] | None) -> Leaving | None:
    if http is None:
        from karotte_gym.mcp_server.stdio import serve_stdio

        return await serve_stdio(episode, stop)
    from karotte_gym.mcp_server.http import serve_http

    return await serve_http(episode, stop, announce=lambda url: _say(f"listening on {url}"), **http)


def _report(task_id: str, outcome: Outcome, by_signal: int) -> int:
    record = outcome.info.get("transcript_path")
    where = f"; its record is in {Path(record).parent}" if record else ""
    if outcome.fault is not None:
        if not isinstance(outcome.fault, KarotteError):
            raise outcome.fault
        _say(f"{task_id}: the episode failed: {outcome.fault}")
        return EXIT_FAULT
    if outcome.given_up:
        _say(f"{task_id}: {outcome.given_up}{where}")
        return EXIT_SIGNAL + by_signal
    if outcome.left:
        _say(f"{task_id}: reward {outcome.reward}: {outcome.left}{where}")
        return EXIT_LEFT
    blame = outcome.info.get("misbehavior")
    _say(f"{task_id}: reward {outcome.reward}{f' ({blame})' if blame else ''}{where}")
    return 0


def _check_extra() -> None:
    try:
        version = metadata.version("mcp")
    except metadata.PackageNotFoundError:
        raise ConfigError(NO_EXTRA) from None
    if not version.startswith("2."):
        raise ConfigError(f"{NO_EXTRA}; {version} is installed")


def _path(secret: bool) -> str:
    return f"{DEFAULT_PATH}/{secrets.token_urlsafe(24)}" if secret else DEFAULT_PATH


def _say(sentence: str) -> None:
    print(f"karotte-gym: {sentence}", file=sys.stderr, flush=True)
