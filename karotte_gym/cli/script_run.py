"""``karotte-gym run --script``: a scripted student; prints each call, its result, the reward and the record.

Ctrl-C and SIGTERM break the episode off: its record has no score and names them in `error`.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import gymnasium as gym
from rich.console import Console
from rich.text import Text

from karotte_gym.agents.scripted import Played, load_script, play
from karotte_gym.cli.progress import stages
from karotte_gym.cli.projects import register_all
from karotte_gym.env import KarotteEnv
from karotte_gym.episode import STOPPED
from karotte_gym.errors import ConfigError
from karotte_gym.record import RECORD
from karotte_gym.registration import load_task
from karotte_gym.runs.signals import Caught, interrupted_by_signals

__all__ = ["run_script"]

SHOWN_RESULT_CHARS = 4000
SHOWN_REASON_CHARS = 300
_SUBMIT = '{"name": "submit", "arguments": {}}'


def run_script(
    task: str,
    script: Path,
    *,
    episodes: int = 1,
    seed: int | None = None,
    task_config: Mapping[str, Any] | None = None,
    run_dir: Path | None = None,
    project: list[Path] | None = None,
    expect_reward: float | None = None,
    show_record: bool = True,
) -> int:
    """Play SCRIPT against a task, one episode after another. Without `show_record` only a record's path is printed.

    Returns 0 when every one ran to its end, and earned `expect_reward` where that is given, else 1; 130 or 143 when
    Ctrl-C or SIGTERM stopped it.
    """
    calls = load_script(script)
    register_all(project)
    task_class = load_task(task)
    if not calls:
        raise ConfigError(f"script {script} has no calls; the least is [{_SUBMIT}]")
    console = Console(highlight=False, soft_wrap=True)
    arguments: dict[str, Any] = {"task_config": dict(task_config)} if task_config else {}
    if run_dir is not None:
        arguments["run_dir"] = str(run_dir)
    failed = 0
    with _stopped_with_a_record(console) as caught, gym.make(f"karotte/{task.removeprefix('karotte/')}", **arguments) as env:
        with stages() as progress:  # after the environment has found its arguments right: an image takes minutes
            task_class.prepare(progress)
        for number in range(episodes):
            if caught.number is not None:
                break  # an interrupt that somebody's code has swallowed
            with _broken_off(env):
                played = play(env, calls, seed=None if seed is None else seed + number, on_call=_Printer(console))
            _print_end(console, played, number, episodes, show_record)
            failed += not played.finished or not _earned(console, played.reward, expect_reward)
    return caught.exit_code or (1 if failed else 0)


@contextlib.contextmanager
def _stopped_with_a_record(console: Console) -> Iterator[Caught]:
    with interrupted_by_signals() as caught:
        try:
            yield caught
        except KeyboardInterrupt:
            if caught.number is None:
                raise  # somebody else's
            console.print(Text(STOPPED, "red"))


@contextlib.contextmanager
def _broken_off(env: gym.Env[Any, Any]) -> Iterator[None]:
    """An interrupt cancels a call of an environment, which could go on; here it is the end, and the record says why."""
    try:
        yield
    except KeyboardInterrupt:
        bare = env.unwrapped
        assert isinstance(bare, KarotteEnv)
        bare.break_off(STOPPED)
        raise


class _Printer:
    """Prints a call and its result as plain text: what a machine says must not steer a terminal."""

    def __init__(self, console: Console):
        self._console = console

    def __call__(self, call: Any, content: str, reward: float, info: dict[str, Any]) -> None:  # noqa: ARG002
        self._console.print(Text(f"> {json.dumps(call)}"[:SHOWN_RESULT_CHARS], style="bold"))
        self._console.print(Text(content[:SHOWN_RESULT_CHARS]))
        if len(content) > SHOWN_RESULT_CHARS:
            self._console.print(f"[dim]({len(content) - SHOWN_RESULT_CHARS} more characters)[/dim]")
        tool = info["tool"]
        if tool["exit_code"] is not None:
            self._console.print(f"[dim]exit code {tool['exit_code']}, {tool['duration_s'] * 1000:.1f} ms[/dim]")


def _earned(console: Console, reward: float, expected: float | None) -> bool:
    if expected is None or math.isclose(reward, expected, abs_tol=1e-9):
        return True
    console.print(Text(f"the reward is {reward}, expected {expected}", "red"))
    return False


def _print_end(console: Console, played: Played, number: int, episodes: int, show_record: bool = True) -> None:
    label = f"episode {number + 1} of {episodes}: " if episodes > 1 else ""
    if not played.finished:
        console.print(Text(f"{label}the script ended before the episode did; let its last call be submit", "red"))
        return
    if played.info["misbehavior"]:
        console.print(Text(f"misbehavior: {played.info['misbehavior']}"))
    transcript = played.info.get("transcript_path")
    if show_record:
        console.print(Text(f"record: {json.dumps(played.info['record'], indent=1)}"))
    elif transcript:
        console.print(Text(f"record: {Path(transcript).with_name(RECORD)}"))
    if transcript:
        console.print(Text(f"transcript: {transcript}"))
    console.print(Text(f"{label}reward {played.reward}{_reason(played)}"))


def _reason(played: Played) -> str:
    """Why it is 0, in the scoring's own words, on one line."""
    reason = (played.info.get("scoring") or {}).get("reason")
    if played.reward or not reason:
        return ""
    return f": {' '.join(str(reason).split())[:SHOWN_REASON_CHARS]}"
