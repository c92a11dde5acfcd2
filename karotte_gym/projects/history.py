"""The templates that ship, one folder a version, and the git repository that Copier's merge wants to see.

A merge needs the version that a project was made from, so all of them ship: ``templates/project/v1``, ``v2``, ... Copier
knows versions as tags of a git repository, and a package has no git history. So one is made when an update needs it, in
a temporary folder: a commit and a tag for each version. The project's answers file names it by `SOURCE`, a relative
path, which means the same on every machine because Copier is started beside it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from karotte_gym.errors import ConfigError

__all__ = ["PROJECT_HISTORY", "SOURCE", "TASK_HISTORY", "git", "newest", "versions", "write_repository"]

TEMPLATES = Path(__file__).resolve().parent.parent / "templates"
PROJECT_HISTORY = TEMPLATES / "project"
TASK_HISTORY = TEMPLATES / "task"
SOURCE = "karotte-gym-project"
_VERSION = re.compile(r"v([1-9][0-9]*)")
GIT_TIMEOUT_S = 60.0
# Commits that are the same everywhere, whatever the user's own git is told to do (sign, rewrite line ends, run hooks).
_REPRODUCIBLE = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "karotte-gym",
    "GIT_AUTHOR_EMAIL": "karotte-gym@localhost",
    "GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z",
    "GIT_COMMITTER_NAME": "karotte-gym",
    "GIT_COMMITTER_EMAIL": "karotte-gym@localhost",
    "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z",
}


def versions(history: Path) -> list[str]:
    """The versions below `history`, oldest first: v1, v2, ..."""
    found = {int(match[1]): path.name for path in history.iterdir() if (match := _VERSION.fullmatch(path.name))}
    if not found:
        raise ConfigError(f"{history} holds no template; install karotte-gym again")
    return [found[number] for number in sorted(found)]


def newest(history: Path) -> Path:
    """The folder of the newest version."""
    return history / versions(history)[-1]


def write_repository(history: Path, target: Path) -> None:
    """A git repository at `target` with a commit and a tag for each version."""
    git("init", "--quiet", "--template=", "--initial-branch=main", str(target), extra_env=_REPRODUCIBLE)
    for version in versions(history):
        _empty(target)
        shutil.copytree(history / version, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
        git("add", "--all", "--force", cwd=target, extra_env=_REPRODUCIBLE)
        git("commit", "--quiet", "--allow-empty", f"--message={version}", cwd=target, extra_env=_REPRODUCIBLE)
        git("tag", version, cwd=target, extra_env=_REPRODUCIBLE)


def git(*arguments: str, cwd: Path | None = None, extra_env: Mapping[str, str] | None = None) -> str:
    """What git prints. ConfigError with its own words when it is missing or fails."""
    try:
        done = subprocess.run(
            ["git", *arguments],
            cwd=cwd,
            env={**os.environ, **(extra_env or {})},
            capture_output=True,
            text=True,
            timeout=GIT_TIMEOUT_S,
            check=False,
        )
    except FileNotFoundError as error:
        raise ConfigError("git is not installed, and an update merges with it; install git") from error
    except subprocess.TimeoutExpired as error:
        raise ConfigError(f"git {arguments[0]} did not end within {GIT_TIMEOUT_S:.0f} s") from error
    if done.returncode != 0:
        raise ConfigError(f"git {arguments[0]} failed: {' '.join(done.stderr.split()) or done.returncode}")
    return done.stdout


def _empty(repository: Path) -> None:
    for path in repository.iterdir():
        if path.name == ".git":
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
