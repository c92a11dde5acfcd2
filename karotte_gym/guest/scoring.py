"""Runs a scoring script in the grader machine: the `score` call.

The script is the author's, what it reads is the student's. So the interpreter starts clean (`hygiene`,
`grading.runner`), in an empty private directory, in a group of its own with bounded memory; its output and time are
bounded; afterwards everything in the group is killed; and the result file, in a directory that nothing else can
enter, is read without following links and up to a bound. That directory is root's, in memory: a submission that fills
the disk to the last block, or takes its last inode, must not keep a script from being run and heard.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from typing import Any

from .calls import Call, Handler, Machine, Refused
from .drain import drain
from .grading_group import GradingGroup
from .hygiene import clean_environment, is_trusted
from .nofollow import Problem, open_inode, read_inode, split
from .places import PRIVATE
from .wire import MAX_BODY_BYTES

__all__ = ["METHODS", "RUNNER", "directories", "stand_by"]

RUNNER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "grading", "runner.py")
RESULT_NAME = "result.json"
DISK = "/tmp"  # where a script has room of its own
_ONE_AT_A_TIME = threading.Lock()  # the group's limit is for one script


def _score(machine: Machine, call: Call) -> tuple[dict[str, Any], bytes]:
    params = _parameters(call.params)
    with _ONE_AT_A_TIME, directories() as (results, work):
        return _score_in(results, work, machine, params)


@contextlib.contextmanager
def directories() -> Iterator[tuple[str, str]]:
    """For a script's result and for the script itself; removed with all that is in them."""
    with contextlib.ExitStack() as made:
        results = tempfile.mkdtemp(prefix="result-", dir=PRIVATE)
        made.callback(shutil.rmtree, results)
        work = _make_work()
        made.callback(shutil.rmtree, work)
        yield results, work


def _make_work() -> str:
    """The script's own directory: on the disk, for it may need room, and in memory when a submission has left none.

    What is in it then fails for want of room, which is a score; that there can be none must not be an error.
    """
    try:
        return tempfile.mkdtemp(prefix="grading-", dir=DISK)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        return tempfile.mkdtemp(prefix="grading-", dir=PRIVATE)


def _score_in(results: str, work: str, machine: Machine, params: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    os.makedirs(params["submission_dir"], 0o755, exist_ok=True)  # nothing was handed in: an empty directory says so
    arguments = [params["script"], params["submission_dir"], params["root_data_dir"], f"{results}/{RESULT_NAME}"]
    start = time.monotonic()
    process, group = _interpreter(machine)
    try:
        if group is not None:
            group.limit(params["memory_bytes"])
        limit = None if group is not None else params["memory_bytes"]
        _instruct(process, {"address_space_bytes": limit, "work": work, "argv": arguments})
        done = drain(process, deadline=start + params["timeout_s"], max_output_bytes=params["max_output_bytes"])
    finally:
        if group is not None:
            group.destroy()
    duration_s = time.monotonic() - start
    result, note = _read_result(results, params["max_result_bytes"])
    stdout, stderr = done.stdout, done.stderr
    header = {
        "exit_code": done.exit_code,
        "timed_out": done.timed_out,
        "cut_bytes": done.cut_bytes,
        "duration_s": duration_s,
        "note": note,
        "stdout_bytes": len(stdout),
        "result_bytes": len(result),
    }
    return header, result + stdout + stderr


def stand_by(machine: Machine, timeout_s: float) -> None:
    """Start the first script's interpreter ahead, in its group, for the snapshot: that is half of a short script's time.

    Its hash seed and addresses are then those of the snapshot. Nothing of the student's has run in a grader machine, and
    modules that seed generators are not loaded ahead. Returns when it waits for its instructions.
    """
    process, ready, group = _start_interpreter(machine)
    try:
        if not select.select([ready], [], [], timeout_s)[0] or process.poll() is not None:
            raise OSError("the interpreter for scoring scripts does not start")
    finally:
        os.close(ready)
    machine.state["interpreter"] = (process, group)


def _interpreter(machine: Machine) -> tuple[subprocess.Popen[bytes], GradingGroup | None]:
    process, group = machine.state.pop("interpreter", (None, None))
    if process is None or process.poll() is not None:
        process, ready, group = _start_interpreter(machine)
        os.close(ready)
    return process, group


def _start_interpreter(machine: Machine) -> tuple[subprocess.Popen[bytes], int, GradingGroup | None]:
    """The process, a descriptor that ends when it waits for its instructions, and the group that it is in."""
    group = GradingGroup.create() if machine.use_cgroups else None
    ready, not_ready = os.pipe2(os.O_CLOEXEC)
    try:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-B", RUNNER, str(not_ready)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd="/",
            env=clean_environment(),
            pass_fds=(not_ready,),
            start_new_session=True,
        )
    except BaseException:
        os.close(ready)
        raise
    finally:
        os.close(not_ready)
    if group is not None:
        with contextlib.suppress(ProcessLookupError):  # its exit code will tell
            group.take(process.pid)
    return process, ready, group


def _instruct(process: subprocess.Popen[bytes], instructions: dict[str, Any]) -> None:
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError), process.stdin as stream:  # one that ended already: its exit code tells
        stream.write(json.dumps(instructions).encode())


def _read_result(directory: str, max_bytes: int) -> tuple[bytes, str]:
    """The result file's bytes, or nothing and why."""
    parent = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        inode, status = open_inode(RESULT_NAME, parent, "the result file")
        try:
            if status.st_size > max_bytes:
                return b"", f"the result file has {status.st_size} bytes, {max_bytes} is the most"
            descriptor = read_inode(inode, "the result file")
        finally:
            os.close(inode)
    except Problem as problem:
        return b"", str(problem)
    finally:
        os.close(parent)
    with os.fdopen(descriptor, "rb") as stream:
        return stream.read(max_bytes), ""


def _parameters(params: dict[str, Any]) -> dict[str, Any]:
    for name in ("script", "submission_dir", "root_data_dir"):
        try:
            split(params.get(name))
        except ValueError as error:
            raise Refused("bad-params", f"{name}: {error}") from error
    for name in ("max_result_bytes", "max_output_bytes", "memory_bytes"):
        value = params.get(name)
        optional = name == "memory_bytes" and value is None
        if not optional and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise Refused("bad-params", f"{name} must be a number of at least 1")
    if params["max_result_bytes"] + params["max_output_bytes"] > MAX_BODY_BYTES // 2:
        raise Refused("bad-params", f"result and output together may have {MAX_BODY_BYTES // 2} bytes")
    timeout_s = params.get("timeout_s")
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, int | float) or not 0 < timeout_s <= 24 * 3600:
        raise Refused("bad-params", "timeout_s must be more than 0 and at most a day")
    if not os.path.isfile(params["script"]):
        raise Refused("no-file", f"there is no scoring script {params['script']}")
    if not is_trusted(params["script"]):
        raise Refused("refused", f"{params['script']} can be changed by others than root")
    return params


METHODS: dict[str, Handler] = {"score": _score}
