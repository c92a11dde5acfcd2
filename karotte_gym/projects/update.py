"""`update_project`: Copier's three-way merge of the project, the template it was made from, and the newest template.

Copier runs as a process of its own, started beside the repository of templates: the answers file names that by a
relative path (see `karotte_gym.projects.history`), and a library must not change the caller's working directory.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from karotte_gym.errors import ConfigError
from karotte_gym.projects.create import ANSWERS_FILE, find_project
from karotte_gym.projects.history import PROJECT_HISTORY, SOURCE, git, versions, write_repository

__all__ = ["Updated", "update_project"]

COPIER_TIMEOUT_S = 300.0
MAX_ANSWERS_BYTES = 65536


@dataclass(frozen=True)
class Updated:
    """What came of it. `changed` and `conflicts` are paths within the project; `conflicts` hold conflict markers."""

    before: str
    after: str
    changed: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()


def update_project(project: Path, history: Path = PROJECT_HISTORY) -> Updated:
    """Merge the newest template of `history` into the project and leave the result uncommitted.

    ConfigError, and nothing is touched, when the project is no clean git repository or was not made by `create-env`.
    """
    project = find_project(project)
    before, after = _version_of(project, history), versions(history)[-1]
    if before == after:
        return Updated(before, after)
    _check_clean(project)
    with tempfile.TemporaryDirectory(prefix="karotte-gym-update-") as work:
        write_repository(history, Path(work, SOURCE))
        _run_copier(project, Path(work), after)
    return Updated(before, after, _changed(project), _conflicts(project))


def _version_of(project: Path, history: Path) -> str:
    """The version that the project has now, out of its answers file."""
    answers = _answers_of(project / ANSWERS_FILE)
    if answers.get("_src_path") != SOURCE:
        raise ConfigError(f"{project / ANSWERS_FILE} names another template than ours; update it with copier itself")
    there = answers.get("_commit")
    if there not in versions(history):
        known = ", ".join(versions(history))
        raise ConfigError(f"{project} has template {there}, this karotte-gym knows {known}: install a newer karotte-gym")
    return str(there)


def _answers_of(path: Path) -> Mapping[str, Any]:
    import yaml  # here, because only an update reads any

    try:
        with open(path, "rb") as file:
            answers = yaml.safe_load(file.read(MAX_ANSWERS_BYTES))
    except (OSError, yaml.YAMLError, RecursionError) as error:
        raise ConfigError(f"{path} can't be read: {' '.join(str(error).split())}; take it back from git") from error
    if not isinstance(answers, dict):
        raise ConfigError(f"{path} holds no answers; take it back from git")
    return answers


def _check_clean(project: Path) -> None:
    """The merge is shown as uncommitted changes, so there must be a repository, with all that is there committed."""
    try:
        git("rev-parse", "--verify", "--quiet", "HEAD", cwd=project)
    except ConfigError as error:
        if "not installed" in str(error):
            raise
        raise ConfigError(
            f"{project} has no commit to merge with: git init, git add --all and git commit it, then update"
        ) from error
    dirty = git("status", "--porcelain", "--", ".", cwd=project).splitlines()
    if dirty:
        raise ConfigError(f"{project} has changes that are not committed ({dirty[0][3:]}): commit or stash them, then update")


def _run_copier(project: Path, work: Path, version: str) -> None:
    """`-P`: a file in `work` can't take the place of a module. Copier's unsafe features stay off, which is its default."""
    update = [sys.executable, "-P", "-m", "copier", "update", "--defaults", "--quiet", f"--vcs-ref={version}", str(project)]
    try:
        done = subprocess.run(
            update, cwd=work, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=COPIER_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise ConfigError(
            f"the update did not end within {COPIER_TIMEOUT_S:.0f} s; set aside what it did: git stash --include-untracked"
        ) from error
    if done.returncode != 0:
        last = (done.stderr.strip() or done.stdout.strip() or str(done.returncode)).splitlines()[-1]
        raise ConfigError(f"Copier could not update {project}: {last}; set aside what it did: git stash --include-untracked")


def _changed(project: Path) -> tuple[str, ...]:
    changed = git("diff", "--name-only", "--relative", "-z", "HEAD", cwd=project)
    new = git("ls-files", "--others", "--exclude-standard", "-z", cwd=project)
    return tuple(sorted({name for name in (changed + new).split("\0") if name}))


def _conflicts(project: Path) -> tuple[str, ...]:
    """Copier marks them in git's index as a merge does."""
    listed = git("diff", "--name-only", "--diff-filter=U", "--relative", "-z", cwd=project)
    return tuple(sorted({name for name in listed.split("\0") if name}))
