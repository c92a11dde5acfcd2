"""What belongs to the grader or the harness must not be in the student's sight, in any spelling."""

from __future__ import annotations

from collections.abc import Iterator

from .tree import WORKSPACE, Finding, Probe, Tree, inside

__all__ = ["LIVE_PROBES", "PROBES"]

_PLACES = ("/root_data", "/grade", "/submission", "/grader", "/custody")
_HARNESS = ("/usr/lib/karotte", "/karotte", "/run/karotte", "/var/lib/karotte")
_NAMES = frozenset((
    "root_data", "grade.py", "grader.py", "grading.py", "expected.json", "answer_key", "answer_key.json",
    "answers.json",
))  # fmt: skip
_STEMS = ("solution", "expected_answer", "expected_output", "answer_key", "hidden_tests", "grader_")
_SYSTEM = ("/usr/lib", "/usr/share", "/usr/bin", "/usr/sbin", "/usr/include", "/lib")


def grader_places(tree: Tree) -> Iterator[Finding]:
    """The grader's directories exist in the grader's machine only; here they would be the answer."""
    for path in _PLACES:
        entry = tree.entry(path)
        if entry and (tree.may(entry, 4) or tree.may(entry, 1)):
            fix = f"take {path} out of the image; root_data/ of the task is the place for it"
            yield Finding(f"{path} is open to the student", fix)


def grader_files(tree: Tree) -> Iterator[Finding]:
    """Grading code and expected answers under their usual names, readable outside the workspace."""
    for entry in tree.outside():
        named = entry.name in _NAMES or entry.name.lower().startswith(_STEMS)
        if named and entry.is_file and not inside(entry.path, _SYSTEM) and tree.may(entry, 4):
            fix = "move it to root_data/ of the task, which only the grader's machine has"
            yield Finding(f"{entry.path} looks like the grader's and is readable for the student", fix)


def harness_code(tree: Tree) -> Iterator[Finding]:
    """The agent's own code shows what it checks and in which order."""
    for path in _HARNESS:
        if found := tree.names(path):
            yield Finding(f"{path} is open to the student ({', '.join(found[:5])})", f"cover {path} in the session")


def links_in_the_workspace(tree: Tree) -> Iterator[Finding]:
    """A link in the image's own workspace leads the harness's copies elsewhere."""
    for entry in tree.below(*WORKSPACE):
        if entry.mode & 0o170000 == 0o120000 and entry.uid == 0:
            yield Finding(f"{entry.path} is a link in the workspace", f"rm {entry.path} in the Containerfile")


PROBES: tuple[Probe, ...] = (grader_places, grader_files, links_in_the_workspace)
LIVE_PROBES: tuple[Probe, ...] = (harness_code,)
