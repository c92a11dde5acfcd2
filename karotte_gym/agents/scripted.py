"""The scripted student: plays a list of tool calls, so that a solution or a cheat can be written down and kept."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium as gym

from karotte_gym.errors import ConfigError

__all__ = ["Played", "load_script", "play"]

MAX_SCRIPT_BYTES = 64 * 1024 * 1024
SCRIPT_ENTRIES = 'calls: [{"name": "bash", "arguments": {...}}]'


@dataclass
class Played:
    """What came of an episode: one output for each call that was made, and how it ended."""

    outputs: list[str] = field(default_factory=list)
    reward: float = 0.0
    finished: bool = False
    info: dict[str, Any] = field(default_factory=dict)


def load_script(path: str | Path, *, kind: str = "script", entries: str = SCRIPT_ENTRIES) -> list[Any]:
    """The calls of a script file. ConfigError in one line when it can't be read, is no JSON or no list.

    `kind` and `entries` word it for another file that is a list (an attack pack).

    What the calls look like is not checked: a scripted student may write nonsense as a model may.
    """
    path = Path(path)
    try:
        if path.stat().st_size > MAX_SCRIPT_BYTES:
            raise ConfigError(f"{kind} {path} has more than {MAX_SCRIPT_BYTES} bytes")
        calls = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{kind} {path} can't be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{kind} {path} is no JSON: {error}") from error
    if not isinstance(calls, list):
        raise ConfigError(f"{kind} {path} must be a JSON list of {entries}")
    return calls


def play(
    env: gym.Env[Any, Any],
    calls: Iterable[Any],
    *,
    seed: int | None = None,
    options: dict[str, Any] | None = None,
    on_call: Callable[[Any, str, float, dict[str, Any]], None] | None = None,
) -> Played:
    """One episode: reset, then the calls until it ends or there are no more. What `step` raises comes through."""
    _, info = env.reset(seed=seed, options=options)
    played = Played(info=info)
    for call in calls:
        obs, reward, terminated, truncated, info = env.step(call)
        played.outputs.append(obs["content"])
        played.reward += float(reward)
        played.info = info
        if on_call is not None:
            on_call(call, obs["content"], float(reward), info)
        if terminated or truncated:
            played.finished = True
            break
    return played
