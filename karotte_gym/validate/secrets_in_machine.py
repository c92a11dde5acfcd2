"""Whether the student's machine, as it is when the student begins a step, gives the answer away.

A second episode of the solution's seed is opened, and everything that the student itself can read there is searched for
the grading data of that episode and for what the solution handed in: hooks, generated data, environments of processes.
Where a task has several steps the solution is played up to each submit; then only what the end of that step brought is
searched, since all before it is the student's own work.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import gymnasium as gym

from karotte_gym.errors import CallRefused
from karotte_gym.sandbox.contract import Sandbox
from karotte_gym.validate.bench import SEED, Bench, episode_of, name_of
from karotte_gym.validate.finding import Finding, fail, not_checked, warn
from karotte_gym.validate.haystack import Disguises, Hit, search
from karotte_gym.validate.hidden import MAX_FILE_BYTES, Hidden
from karotte_gym.validate.machine_listing import Listing, listing_of, now_in
from karotte_gym.validate.needles import Needle, without_known
from karotte_gym.validate.secrets_in_data import DATA_FOLDERS, said_of
from karotte_gym.validate.told import answer_told

__all__ = ["check_secrets_in_machine"]

MIB = 1024 * 1024
MAX_TOTAL_BYTES = 64 * MIB


def check_secrets_in_machine(bench: Bench) -> Iterator[Finding]:
    """Nothing of the grading data or of the right answer is readable before the student's first call of a step."""
    hits: list[Hit] = []
    with bench.env() as env:
        _, info = env.reset(seed=SEED)
        drawn = _drawn(env)
        hidden = Hidden.of(bench, _sandbox(env), drawn or {})
        needles = without_known(hidden.at(0), bench.task_class)
        hits += search(Disguises(needles), json.dumps(info["tools"]).encode(), "the descriptions of the tools")
        left_out = _search(bench, env, needles, 0.0, "", hits)
        left_out += sum(_later_steps(bench, env, hidden, hits))
    bench.tell("machine searched")
    for number, evidence in enumerate(bench.reference.evidence):
        yield from answer_told(bench.task_class, number, evidence.submission)
    if not hidden.at(0):
        yield not_checked("neither the grading data nor the answer has a string that is long enough to be looked for")
    elif not needles:
        yield not_checked("the student is told every string of grading data and answer, or it is in known_to_student")
    yield from said_of(list(dict.fromkeys(hits)))
    if left_out:
        yield warn(f"{left_out} files were too many or too large to be fetched out of the machine", "look at them yourself")
    if drawn is not None and drawn != dict(bench.reference.evidence[0].grading_data) and not _same_again(bench):
        yield fail("the same seed gives other grading data", "draw from the rng that pre_hook gets, and from nothing else")


def _later_steps(bench: Bench, env: gym.Env[Any, Any], hidden: Hidden, hits: list[Hit]) -> Iterator[int]:
    """How many files were not looked at, step by step."""
    last, step = len(bench.task_class.steps) - 1, 0
    for call in bench.solution:
        submits = name_of(call) == "submit"
        if submits and step == last:
            return
        since = now_in(_sandbox(env)) if submits else 0.0
        _, _, terminated, truncated, _ = env.step(call)
        if terminated or truncated:
            return
        if submits:
            step += 1
            needles = without_known(hidden.at(step), bench.task_class)
            yield _search(bench, env, needles, since, f", when step {step + 1} begins,", hits)


def _search(bench: Bench, env: gym.Env[Any, Any], needles: list[Needle], since: float, when: str, hits: list[Hit]) -> int:
    """Add what was found; returns how many files were not looked at."""
    sandbox, disguises = _sandbox(env), Disguises(needles)
    whole_image = bench.task_class.student_machine().containerfile is not None and not since
    listing = listing_of(sandbox, whole_image=whole_image, since=since)
    hits += search(disguises, listing.processes.encode(), f"the environment or command line of a process{when}")
    for name in listing.names:
        hits += search(disguises, name.encode(), f"the name {name}{when}")
    left_out = listing.left_out
    for path, content in _contents(bench, sandbox, listing):
        if content is None:
            left_out += 1
        else:
            hits += search(disguises, path.encode() + b"\n" + content, f"{path}{when}")
    return left_out


def _contents(bench: Bench, sandbox: Sandbox, listing: Listing) -> Iterator[tuple[str, bytes | None]]:
    """Each file, None when it can't be fetched; what is as it lies in the environment's folder was searched there."""
    room = MAX_TOTAL_BYTES
    for path, size in listing.files:
        room -= size if size <= MAX_FILE_BYTES else 0
        if size > MAX_FILE_BYTES or room < 0:
            if not _lies_in_folder(bench, path, size):
                yield path, None
            continue
        try:
            yield path, sandbox.get_file(path, max_bytes=MAX_FILE_BYTES)
        except CallRefused:
            yield path, None


def _lies_in_folder(bench: Bench, path: str, size: int) -> bool:
    for name, place in DATA_FOLDERS.items():
        if path.startswith(place + "/"):
            source = bench.folder / name / path.removeprefix(place + "/")
            return source.is_file() and source.stat().st_size == size
    return False


def _drawn(env: gym.Env[Any, Any]) -> Mapping[str, bytes] | None:
    """The grading data of this episode as far as it is there at the beginning; None when it can't be told yet."""
    try:
        return {name: bytes(data) for name, data in episode_of(env).task.grading_data().items()}
    except Exception:  # the author's code, called earlier than it expects
        return None


def _same_again(bench: Bench) -> bool:
    """Whether a third episode, played to its end, has the grading data of the first: it may come of what is done in it."""
    return bench.grading_data_again() == [dict(evidence.grading_data) for evidence in bench.reference.evidence]


def _sandbox(env: gym.Env[Any, Any]) -> Sandbox:
    sandbox = episode_of(env).sandbox
    assert sandbox is not None  # an episode that goes on has a machine
    return sandbox
