"""The programs that build an image: found early, killed with us, their output kept for whoever must fix it."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from karotte_gym.errors import ImageError
from karotte_gym.sandbox.progress import Progress

__all__ = ["LOG_NAME", "MIN_FREE_BYTES", "Command", "find_tool", "require_free_space"]

LOG_NAME = "image-build.log"  # in the cache directory: all output of the last build
MIN_FREE_BYTES = 3 * 1024**3  # base 0.2, container storage 1.2, exported tree 0.3, squashfs 0.1; measured 1.9 at most
EPOCH_S = "1700000000"  # time of every file in an image, so that equal content gives equal bytes
OUT_OF_SPACE_BYTES = 16 * 1024**2  # with less than this left while a tool ran, its failure is put down to the disk
_DIRECTORIES = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PASSED = ("HOME", "http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "XDG_RUNTIME_DIR")


def find_tool(name: str) -> str | None:
    """Absolute path of a program: what PATH says, then the system directories (an ordinary user's PATH lacks sbin)."""
    return shutil.which(name) or shutil.which(name, path=_DIRECTORIES)


def require_free_space(directory: Path) -> None:
    """ImageError when `directory` has too little space for a build."""
    free = shutil.disk_usage(directory).free
    if free < MIN_FREE_BYTES:
        raise ImageError(
            f"building an image needs {MIN_FREE_BYTES / 1024**3:.0f} GiB and {directory} has {free / 1024**3:.1f} GiB; "
            "free some (`karotte-gym cache prune`) or set KAROTTE_GYM_CACHE to a larger disk"
        )


class Command:
    """Runs programs with one scratch directory and one log."""

    def __init__(self, scratch: Path, log: Path, progress: Progress):
        self.scratch = scratch
        self.log = log
        self.progress = progress

    def run(self, stage: str, argv: Sequence[str], *, expected_lines: int, hint: str, stdin: Path | None = None) -> None:
        """Run to the end; `expected_lines` of output count as the whole stage. ImageError with `hint` when it fails."""
        self.progress(stage, 0.0)
        last: deque[str] = deque(maxlen=12)
        lowest = shutil.disk_usage(self.scratch).free
        with self._started(argv, stdin) as process, open(self.log, "a", encoding="utf-8") as log:
            log.write(f"## {' '.join(argv)}\n")
            for number, line in enumerate(_lines(process), 1):
                if line:
                    log.write(line + "\n")
                    last.append(line)
                    self.progress(stage, min(number / expected_lines, 0.99))
                lowest = min(lowest, shutil.disk_usage(self.scratch).free)
            code = process.wait()
        if code:
            self._fail(stage, argv[0], code, list(last), hint, lowest)
        self.progress(stage, 1.0)

    def _fail(self, stage: str, program: str, code: int, last: list[str], hint: str, lowest: int) -> None:
        if lowest < OUT_OF_SPACE_BYTES:
            hint = f"the disk of {self.scratch} was full: free some space or set KAROTTE_GYM_CACHE to a larger disk"
        told = [line for line in last if line.startswith(("E:", "Error", "error", "FATAL"))][:2] or last[-2:]
        raise ImageError(
            f"{stage}: {Path(program).name} failed with exit code {code}; {hint}. "
            f"It said: {' | '.join(told)[:300] or 'nothing'}. All of its output is in {self.log}"
        )

    @contextlib.contextmanager
    def _started(self, argv: Sequence[str], stdin: Path | None) -> Iterator[subprocess.Popen[bytes]]:
        with open(stdin or os.devnull, "rb") as source:
            process = subprocess.Popen(
                [*_dies_with_us(), *argv],
                stdin=source,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=self._environment(),
                cwd=self.scratch,
                start_new_session=True,
                umask=0o022,
            )
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL if os.geteuid() == 0 else signal.SIGTERM)
            process.wait()
            if process.stdout:
                process.stdout.close()

    def _environment(self) -> Mapping[str, str]:
        kept = {name: os.environ[name] for name in _PASSED if name in os.environ}
        fixed = {"PATH": _DIRECTORIES, "LC_ALL": "C", "SOURCE_DATE_EPOCH": EPOCH_S}
        if os.geteuid() == 0:  # mapped users of a build without root could not reach a private directory
            fixed["TMPDIR"] = str(self.scratch)
        return {**kept, **fixed}


def _dies_with_us() -> list[str]:
    """A killed build must not go on: as root, its programs run in a PID and a mount namespace that end with us.

    Without root they are asked to end, so that they remove what they made in /tmp.
    """
    setpriv, unshare = find_tool("setpriv"), find_tool("unshare")
    if not setpriv or not unshare:
        raise ImageError("setpriv and unshare are missing; install the package util-linux")
    if os.geteuid():
        return [setpriv, "--pdeathsig", "TERM"]
    return [setpriv, "--pdeathsig", "KILL", unshare, "--pid", "--fork", "--kill-child=KILL", "--mount", "--mount-proc"]


def _lines(process: subprocess.Popen[bytes]) -> Iterator[str]:
    """Lines of output as they come, and "" twice a second while nothing does. Long lines are cut."""
    assert process.stdout is not None
    descriptor, rest = process.stdout.fileno(), b""
    while True:
        if not select.select([descriptor], [], [], 0.5)[0]:
            yield ""
            continue
        piece = os.read(descriptor, 65536)
        if not piece:
            break
        *whole, rest = (rest + piece).replace(b"\r", b"\n").split(b"\n")
        for line in whole:
            yield line.decode(errors="replace")[:2000]
        rest = rest[-65536:]
    if rest:
        yield rest.decode(errors="replace")[:2000]
