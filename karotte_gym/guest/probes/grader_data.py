"""What belongs to the grader or the harness must not be in the student's sight, in any spelling."""

from __future__ import annotations

from collections.abc import Iterator

from .view import WORKSPACE, Finding, Probe, View, inside

__all__ = ["PROBES"]

_PLACES = ("/root_data", "/grade", "/submission", "/grader", "/custody")
_HARNESS = ("/usr/lib/karotte", "/karotte", "/run/karotte", "/var/lib/karotte")
_NAMES = frozenset("root_data grade.py grader.py grading.py expected.json answer_key answer_key.json answers.json".split())
_STEMS = ("solution", "expected_answer", "expected_output", "answer_key", "hidden_tests", "grader_")
_SYSTEM = ("/usr/lib", "/usr/share", "/usr/bin", "/usr/sbin", "/usr/include", "/lib")


def grader_places(view: View) -> Iterator[Finding]:
    """The grader's directories exist in the grader's machine only; here they would be the answer."""
    for path in _PLACES:
        entry = view.entry(path)
        if entry and (view.may(entry, 4) or view.may(entry, 1)):
            yield Finding(f"{path} is open to the student", f"don't put {path} into the image; root_data/ of the task is its place")


def grader_files(view: View) -> Iterator[Finding]:
    """Grading code and expected answers under their usual names, readable outside the workspace."""
    for entry in view.outside():
        named = entry.name in _NAMES or entry.name.lower().startswith(_STEMS)
        if named and entry.is_file and not inside(entry.path, _SYSTEM) and view.may(entry, 4):
            fix = "move it to root_data/ of the task, which only the grader's machine has"
            yield Finding(f"{entry.path} looks like the grader's and is readable for the student", fix)


def harness_code(view: View) -> Iterator[Finding]:
    """The agent's own code shows what it checks and in which order."""
    for path in _HARNESS:
        if found := view.names(path):
            yield Finding(f"{path} is open to the student ({', '.join(found[:5])})", f"cover {path} in the session")


def workspace_is_not_baked_in(view: View) -> Iterator[Finding]:
    """A link in the image's own workspace leads the harness's copies elsewhere."""
    for entry in view.below(*WORKSPACE):
        if entry.mode & 0o170000 == 0o120000 and entry.uid == 0:
            yield Finding(f"{entry.path} is a link in the workspace", f"rm {entry.path} in the Containerfile")


PROBES: tuple[Probe, ...] = (grader_places, grader_files, harness_code, workspace_is_not_baked_in)
