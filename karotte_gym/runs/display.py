"""What a person sees of a run: one live table on a terminal, one line per episode anywhere else, a summary at the end.

Everything that came from a model or a machine is plain text here, never markup: output must not paint the terminal.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from karotte_gym.agents.episode import Episode
from karotte_gym.agents.plain_text import visible
from karotte_gym.runs.summary import Summary

__all__ = ["LiveDisplay", "PlainDisplay", "display_for", "summary_table"]

_SHOWN_ENDED = 8  # of the episodes that are over, the newest; the rest is in the summary
_STYLES = {"scored": "green", "misbehavior": "red", "limit": "yellow", "error": "magenta", "interrupted": "dim"}


@dataclass
class _Row:
    state: str
    since: float
    episode: Episode | None = None


class PlainDisplay:
    """One line for each episode that ends."""

    def __init__(self, console: Console, total: int, done_before: int):
        self._console, self._total, self._done = console, total, done_before

    def started(self, index: int) -> None:
        """Nothing: a line per episode is enough for a log."""

    def turn(self, index: int, episode: Episode) -> None:
        """Nothing, for the same reason."""

    def ended(self, index: int, episode: Episode) -> None:
        """The line."""
        self._done += 1
        tokens = episode.tokens.input_tokens + episode.tokens.output_tokens
        parts = [
            f"[{self._done}/{self._total}] episode {index}: {episode.status}",
            f"reward {_number(episode.reward)}",
            f"{len(episode.turns)} turns",
            f"{tokens} tokens",
            _cost(episode.tokens.cost_usd),
            f"{episode.duration_s:.1f} s",
        ]
        self._console.print(Text(", ".join(parts) + _reason(episode)), soft_wrap=True)


class LiveDisplay:
    """The table; `Live` draws it by itself, this only keeps what it shows."""

    def __init__(self, total: int, done_before: int):
        self._total, self._done = total, done_before
        self._active: dict[int, _Row] = {}
        self._ended: list[tuple[int, _Row]] = []
        self._rewards: list[float] = []

    def started(self, index: int) -> None:
        """A new row."""
        self._active[index] = _Row("starting", time.monotonic())

    def turn(self, index: int, episode: Episode) -> None:
        """The row's numbers."""
        self._active[index].state, self._active[index].episode = "playing", episode

    def ended(self, index: int, episode: Episode) -> None:
        """The row moves to those that are over."""
        row = self._active.pop(index)
        row.state, row.episode = episode.status, episode
        self._done += 1
        if episode.reward is not None:
            self._rewards.append(episode.reward)
        self._ended = [*self._ended, (index, row)][-_SHOWN_ENDED:]

    def __rich__(self) -> Group:
        mean = f", mean reward {sum(self._rewards) / len(self._rewards):.3f}" if self._rewards else ""
        table = Table(box=None, pad_edge=False)
        for name in ("episode", "state", "turn", "tokens", "cost", "time", "reward", ""):
            table.add_column(name, justify="left" if name in ("state", "") else "right")
        for index, row in [*self._ended, *sorted(self._active.items())]:
            table.add_row(*_cells(index, row))
        return Group(Text(f"{self._done} of {self._total} episodes{mean}", style="bold"), table)


def _cells(index: int, row: _Row) -> list[Text]:
    episode = row.episode
    ended = row.state in _STYLES
    seconds = episode.duration_s if ended and episode else time.monotonic() - row.since
    tokens = episode.tokens if episode else None
    texts = [
        str(index),
        row.state,
        str(len(episode.turns)) if episode else "",
        str(tokens.input_tokens + tokens.output_tokens) if tokens else "",
        _cost(tokens.cost_usd) if tokens else "",
        f"{seconds:.0f} s",
        _number(episode.reward) if ended and episode else "",
        _reason(episode).removeprefix(": ") if ended and episode else "",
    ]
    return [Text(text, style=_STYLES.get(row.state, "cyan")) for text in texts]


@contextmanager
def display_for(console: Console, total: int, done_before: int) -> Iterator[LiveDisplay | PlainDisplay]:
    """The one that fits where the output goes."""
    if not console.is_terminal:
        yield PlainDisplay(console, total, done_before)
        return
    display = LiveDisplay(total, done_before)
    with Live(display, console=console, refresh_per_second=4):
        yield display


def summary_table(summary: Summary) -> Table:
    """For people, at the end of a run."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column()
    spread = ""
    if summary.stdev is not None:
        spread = f" ± {summary.standard_error:.3f} (standard deviation {summary.stdev:.3f})"
    rows = {
        "episodes": f"{summary.episodes}, {summary.verdicts} with a verdict",
        "mean reward": _number(summary.mean) + spread,
        "range": f"{_number(summary.lowest)} to {_number(summary.highest)}" if summary.verdicts else "",
        "passed": f"{summary.passed} of {summary.verdicts}",
        "pass@k": ", ".join(f"{k}: {value:.3f}" for k, value in summary.pass_at_k.items()),
        "misbehaviour": _counts(summary.misbehavior),
        "limits": _counts(summary.limits),
        "errors": _counts(summary.errors),
        "turns, seconds": f"{_number(summary.turns_mean)}, {_number(summary.duration_mean_s)} (means)",
        "tokens": f"{summary.input_tokens} in, {summary.output_tokens} out",
        "cost": _cost(summary.cost_usd),
    }
    for name, text in rows.items():
        if text:
            table.add_row(name, Text(text))
    return table


def _reason(episode: Episode) -> str:
    said = episode.misbehavior or (f"{episode.limit} limit" if episode.limit else "")
    if episode.error is not None:
        said = f"{episode.error.kind}: {episode.error.message}"
    return f": {visible(said).splitlines()[0][:200]}" if said else ""


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.3g}"


def _cost(value: float | None) -> str:
    return "cost unknown" if value is None else f"${value:.4f}"


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{visible(kind)} {number}" for kind, number in counts.items())
