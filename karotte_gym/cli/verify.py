"""``karotte-gym verify``: whether what episodes left is as their records say, and grades them again when asked to.

Exit codes: 0 nothing differs, 1 something does, 2 wrong usage or input, 3 a fault of machine or host.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from karotte_gym.bounded_text import bounded
from karotte_gym.cli.projects import Projects, register_all
from karotte_gym.errors import ConfigError
from karotte_gym.evidence.listing import episode_directories
from karotte_gym.evidence.runs import episodes_that_differ
from karotte_gym.evidence.sealing import key_from_environment
from karotte_gym.evidence.verify import Finding, Verified, changes_of_task, score_of_steps, verify
from karotte_gym.record import RECORD
from karotte_gym.registration import load_task

__all__ = ["verify_command"]

MAX_SHOWN = 200  # findings in the table, which takes a hundred times longer to draw than to find them
MAX_SHOWN_CHARS = 5000  # of a cell: a path that can be opened has fewer


def verify_command(
    paths: Annotated[list[Path], typer.Argument(help="Each a record.json, an episode's directory, or one that holds some.")],
    again: Annotated[bool, typer.Option("--regrade", help="Grade the stored submissions in fresh machines.")] = False,
    tolerance: Annotated[
        float | None, typer.Option(min=0, help="By how much a score may differ; default: as the task says.")
    ] = None,
    task: Annotated[str | None, typer.Option("--task", help="The task, where its id is not registered.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
    project: Projects = None,
) -> None:
    """Check records against their artifacts and their task. Exit code 1 when anything differs.

    Of several paths each gets a verdict of its own; one that holds no episode keeps none of the others from theirs.
    """
    if tolerance is not None and not again:
        raise ConfigError("--tolerance is about scores graded again: give --regrade too")
    register_all(project)
    key = key_from_environment()
    found: list[_Looked] = []
    unusable: list[str] = []
    for path in paths:
        try:
            one = _look(path, key, lambda each: _against_task(each, task, again, tolerance))
        except ConfigError as error:
            unusable.append(str(error))
            continue
        found.append(one)
        if not as_json:
            _print(one.checked, one.foreign, "" if len(paths) == 1 else f"{path}: {'ok' if one.ok else 'WRONG'}: ")
    ok = all(one.ok for one in found)
    if as_json and found:
        typer.echo(json.dumps(_as_data(found, ok and not unusable), indent=1))
    if unusable and ok:
        raise ConfigError("; ".join(unusable))
    for sentence in unusable:
        typer.echo(f"karotte-gym: {sentence}", err=True)
    raise typer.Exit(0 if ok else 1)


@dataclass(frozen=True)
class _Looked:
    """What came of one path: its episodes, and of a model run what contradicts them."""

    checked: list[Verified]
    foreign: list[Finding]

    @property
    def ok(self) -> bool:
        return not self.foreign and all(each.ok for each in self.checked)


def _look(path: Path, key: bytes | None, against_task: Callable[[Verified], list[Finding]]) -> _Looked:
    root = path.parent if path.name == RECORD and not path.is_dir() else path
    checked = [verify(directory, key) for directory in episode_directories(root)]
    for each in checked:
        each.findings += against_task(each)
    return _Looked(checked, list(episodes_that_differ(root)))


def _against_task(each: Verified, reference: str | None, again: bool, tolerance: float | None) -> list[Finding]:
    """What the installed task says to it. Nothing is graded again of a record that is not what was written."""
    if each.record is None:
        return []
    try:
        task = load_task(reference or each.record.task_id)
    except ConfigError as error:
        sentence = f"neither its judge nor how it combines scores: {error}; give --project or --task"
        return [Finding("task", "not checked", sentence)]
    if task.id != each.record.task_id:
        return [Finding("task", "differs", f"the record is of {each.record.task_id:.200}, not of {task.id}")]
    found = list(changes_of_task(each.record, task))
    combined = list(score_of_steps(each.record, task))
    if not again:
        return found + combined
    found += [finding for finding in combined if finding.verdict != "not checked"]  # which `regrade` does
    if not each.ok:
        return [*found, Finding("score", "not checked", "not graded again, since the record or an artifact differs")]
    from karotte_gym.evidence.regrade import regrade  # here, since only this needs machines

    return [*found, *regrade(each.directory, each.record, task, tolerance)]


def _as_data(found: list[_Looked], ok: bool) -> dict[str, object]:
    episodes = [
        {
            "directory": str(each.directory),
            "task_id": each.record.task_id if each.record else None,
            "score": each.record.score if each.record else None,
            "ok": each.ok,
            "findings": [asdict(finding) for finding in each.findings],
        }
        for one in found
        for each in one.checked
    ]
    return {"ok": ok, "episodes": episodes, "findings": [asdict(finding) for one in found for finding in one.foreign]}


def _print(checked: list[Verified], foreign: list[Finding], verdict: str) -> None:
    """All that is wrong; of a single episode, all that was looked at, unless it is one of several paths with a `verdict` each.

    Of too much the ends are shown. Names in it are a student's: shown as text.
    """
    table = Table()
    for heading in ("episode", "what", "verdict", "why"):
        table.add_column(heading, overflow="fold")  # a name that is cut can't be looked for
    shown = [(each.directory.name, finding) for each in checked for finding in each.findings]
    shown += [("", finding) for finding in foreign]
    if len(checked) != 1 or verdict or len(shown) > MAX_SHOWN:
        shown = [(episode, finding) for episode, finding in shown if not finding.ok]
    left_out = max(len(shown) - MAX_SHOWN, 0)
    for number, (episode, finding) in enumerate(shown):
        if number < MAX_SHOWN // 2 or number >= len(shown) - MAX_SHOWN // 2:
            _add(table, episode, finding)
        elif number == MAX_SHOWN // 2:
            table.add_row("", "...", "", f"{left_out} more that are wrong; --json prints all")
    if table.row_count:
        Console(highlight=False).print(table)
    wrong = sum(not each.ok for each in checked) + len(foreign)
    unsure = sum(finding.verdict == "not checked" for each in checked for finding in each.findings)
    typer.echo(f"{_printable(verdict)}episodes: {len(checked)}, wrong: {wrong}, findings not checked: {unsure}")


def _add(table: Table, episode: str, finding: Finding) -> None:
    style = "" if finding.verdict == "ok" else "yellow" if finding.ok else "red"
    cells = (episode, finding.artifact, finding.verdict, finding.sentence)
    table.add_row(*(Text(_printable(cell), style if number == 2 else "") for number, cell in enumerate(cells)))


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in bounded(text, MAX_SHOWN_CHARS))
