"""Starts the process of a `FunctionJudge` and ends it for certain: the parent's side of `function_child`."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

from karotte_gym.errors import GradingError
from karotte_gym.scoring import MAX_METADATA_BYTES

__all__ = ["run_function"]

LOAD_TIMEOUT_S = 120.0  # of importing the function's module, on a busy host; no submission is read before
EXIT_TIMEOUT_S = 10.0  # of an interpreter that has nothing left to do, on a busy host
MAX_LINE_BYTES = MAX_METADATA_BYTES + 4096
KEPT_ERROR_CHARS = 2000
# No key of a provider's, nor anything else that only the trainer needs, lies beside what reads a hostile file.
PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "LD_LIBRARY_PATH", "VIRTUAL_ENV")


def run_function(job: dict[str, Any], timeout_s: float) -> tuple[str, Any]:
    """What came of the function: one of the child's words and its value, or ``timeout`` or ``died`` and a sentence.

    GradingError when it could not even be loaded, which no submission can cause.
    """
    with contextlib.ExitStack() as stack:
        given = stack.enter_context(tempfile.TemporaryFile())
        said = stack.enter_context(tempfile.TemporaryFile())
        given.write(json.dumps(job).encode())
        given.seek(0)
        reports, reports_of_child = os.pipe()
        stack.callback(os.close, reports)
        process = _start(given, said, reports_of_child)
        stack.callback(_end, process)
        lines = _Lines(reports)
        if lines.next(LOAD_TIMEOUT_S) is None:
            if lines.ended:
                _exit_code(process)  # it closes the pipe before it says why it ends
            _end(process)
            said.seek(0)
            text = said.read().decode("utf-8", "replace")[-KEPT_ERROR_CHARS:].strip()
            raise GradingError(f"the judge's function could not be loaded in a process of its own: {text or 'it hangs'}")
        outcome = lines.next(timeout_s)
        if outcome is not None:
            return outcome
        if not lines.ended:
            return "timeout", f"the function ran longer than {timeout_s:g} s"
        return "died", f"the function's process ended with {_exit_code(process)}"


def _start(given: Any, said: Any, reports_of_child: int) -> subprocess.Popen[bytes]:
    # -P: whatever lies in the working directory is not imported
    argv = [sys.executable, "-P", "-m", "karotte_gym.judges.function_child", str(reports_of_child)]
    try:
        return subprocess.Popen(
            argv,
            stdin=given,
            stdout=subprocess.DEVNULL,
            stderr=said,
            pass_fds=(reports_of_child,),
            env=_environment(),
            start_new_session=True,
        )
    except OSError as error:
        raise GradingError(f"no process can be started for the judge's function: {error.strerror}") from error
    finally:
        os.close(reports_of_child)


def _environment() -> dict[str, str]:
    """The same modules as here, and the same order of sets in every grading."""
    kept = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    path = os.pathsep.join(os.path.abspath(entry) for entry in sys.path)
    return {**kept, "PYTHONPATH": path, "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}


def _exit_code(process: subprocess.Popen[bytes]) -> int | None:
    """Waited for; None for a process that has closed its pipe and goes on."""
    try:
        return process.wait(EXIT_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return None


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill it with all that it started; idempotent."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


class _Lines:
    """Lines of a pipe, bounded in size and time. `ended`: nobody will write any more."""

    def __init__(self, descriptor: int):
        self._descriptor = descriptor
        self._bytes = b""
        self.ended = False

    def next(self, timeout_s: float) -> tuple[str, Any] | None:
        """The next line as a word and its value; None when none came whole."""
        for chunk in self._chunks(time.monotonic() + timeout_s):
            self._bytes += chunk
            line, found, rest = self._bytes.partition(b"\n")
            if found:
                self._bytes = rest
                word, value = json.loads(line)
                return word, value
            if len(self._bytes) > MAX_LINE_BYTES:
                raise GradingError("the process of the judge's function said more than it may")
        return None

    def _chunks(self, deadline: float) -> Iterator[bytes]:
        yield b""  # a line may be here already
        while True:
            left_s = deadline - time.monotonic()
            if left_s <= 0 or not select.select([self._descriptor], [], [], left_s)[0]:
                return
            chunk = os.read(self._descriptor, 65536)
            if not chunk:
                self.ended = True
                return
            yield chunk
