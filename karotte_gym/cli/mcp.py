"""``karotte-gym mcp``: serve one episode of a task to an agent that speaks the Model Context Protocol."""

from __future__ import annotations

import asyncio
import json
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
from karotte_gym.errors import ConfigError, KarotteError
from karotte_gym.registration import load_task

if TYPE_CHECKING:
    from karotte_gym.mcp_server.served_episode import Outcome, ServedEpisode

__all__ = ["mcp"]

EXIT_GIVEN_UP = 1
EXIT_FAULT = 3
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
        float, typer.Option(min=0.5, help="For http: the episode is given up when nobody comes for so long.")
    ] = 1800.0,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of the episode.")] = None,
    config: Annotated[str | None, typer.Option(help="The task's own configuration, as JSON.")] = None,
    run_dir: Annotated[Path | None, typer.Option("--run-dir", help="Where evidence is kept.")] = None,
    project: Projects = None,
) -> None:
    """Serve one episode. What the student must not see, its score, goes to standard error and the run directory.

    Exit code 0 when the episode ran to its end, whatever it earned; 1 when the agent left before.
    """
    _check_extra()
    register_all(project)
    task_class = load_task(task)
    name = f"karotte/{task.removeprefix('karotte/')}"
    arguments: dict[str, Any] = {"task_config": _read_config(config)}
    if run_dir is not None:
        arguments["run_dir"] = str(run_dir)

    def make() -> gym.Env[Any, Any]:
        env = gym.make(name, **arguments)
        with stages() as progress:
            task_class.prepare(progress)
        return env

    how = {"port": port, "path": _path(secret_path), "idle_timeout_s": idle_timeout_s} if transport == "http" else None
    outcome = asyncio.run(_serve(make, seed, how))
    raise typer.Exit(_report(task_class.id, outcome))


async def _serve(make: Any, seed: int | None, http: dict[str, Any] | None) -> Outcome:
    from karotte_gym.mcp_server.served_episode import ServedEpisode

    episode = ServedEpisode(make, seed=seed)
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    try:
        await _serve_one(episode, stop, http)
        await episode.give_up("stopped by its operator" if stop.is_set() else "given up: the agent left before the end")
    finally:
        await episode.close()
    return episode.outcome


async def _serve_one(episode: ServedEpisode, stop: asyncio.Event, http: dict[str, Any] | None) -> None:
    if http is None:
        from karotte_gym.mcp_server.stdio import serve_stdio

        await serve_stdio(episode, stop)
    else:
        from karotte_gym.mcp_server.http import serve_http

        await serve_http(episode, stop, announce=lambda url: _say(f"listening on {url}"), **http)


def _report(task_id: str, outcome: Outcome) -> int:
    record = outcome.info.get("transcript_path")
    where = f"; its record is in {Path(record).parent}" if record else ""
    if outcome.fault is not None:
        if not isinstance(outcome.fault, KarotteError):
            raise outcome.fault
        _say(f"{task_id}: the episode failed: {outcome.fault}")
        return EXIT_FAULT
    if outcome.given_up:
        _say(f"{task_id}: {outcome.given_up}{where}")
        return EXIT_GIVEN_UP
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


def _read_config(text: str | None) -> dict[str, Any]:
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"--config is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise ConfigError(f'--config must be an object such as {{"generated": true}}, not {text}')
    return value


def _path(secret: bool) -> str:
    return f"{DEFAULT_PATH}/{secrets.token_urlsafe(24)}" if secret else DEFAULT_PATH


def _say(sentence: str) -> None:
    print(f"karotte-gym: {sentence}", file=sys.stderr, flush=True)
