"""Hostile byte streams against the host's reader: `python -m benchmarks.fuzz_host [--streams N] [--seed S] [--jobs J]`.

Each stream is written into a real socket, read by the real `Channel` and received as a submission into a real
directory. A stream may be refused as rubbish (MachineDied), refused by the "agent" (CallRefused, StudentMisbehavior), or
be a right submission within its limits. Anything else fails the run: another exception, two seconds without an end, a
file with another name or place than the host chose, something left behind by a refused stream, a limit passed.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import json
import os
import random
import re
import signal
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

from rich.progress import Progress

from benchmarks.fuzz_streams import PATHS, hostile_stream
from karotte_gym.config import SubmissionLimits
from karotte_gym.errors import CallRefused, MachineDied
from karotte_gym.sandbox.channel import Channel
from karotte_gym.sandbox.contract import Submission
from karotte_gym.sandbox.submission import receive
from karotte_gym.scoring import StudentMisbehavior

LIMITS = SubmissionLimits(max_file_bytes=20_000, max_total_bytes=50_000, max_entries=12, max_depth=4)
MAX_SECONDS = 2.0
BATCH = 500


class Broken(AssertionError):
    """The host's reader did what it must never do; the message names seed and number of the stream."""


def fuzz(first: int, count: int, seed: int) -> Counter[str]:
    """Play streams `first`, `first + 1`, ... of a seed: counts of how they ended. Broken at the first wrong one."""
    outcomes: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as scratch, watchdog():
        for number in range(first, first + count):
            stream = hostile_stream(random.Random(f"{seed}-{number}"))
            try:
                outcomes[play(stream, scratch)] += 1
            except Exception as error:
                raise Broken(f"seed {seed}, stream {number}: {error!r}") from error
    return outcomes


def play(stream: bytes, scratch: str) -> str:
    """One stream through channel and receiver: how it ended. AssertionError when that is none of the right ways."""
    into = os.path.join(scratch, "into")
    os.mkdir(into, 0o700)
    begin = time.monotonic()
    signal.setitimer(signal.ITIMER_REAL, MAX_SECONDS)
    submission: Submission | None = None
    try:
        submission = _receive(stream, into)
        outcome = "submission"
    except MachineDied as error:
        assert error.cause in ("protocol", "exited"), error.cause
        outcome = f"machine {error.cause}"
    except (CallRefused, StudentMisbehavior) as error:
        assert len(str(error)) < 10_000
        outcome = type(error).__name__
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    assert time.monotonic() - begin < MAX_SECONDS
    _check_files(scratch, into, submission)
    return outcome


def _receive(stream: bytes, into: str) -> Submission:
    ours, theirs = socket.socketpair()
    with theirs:
        theirs.setblocking(False)
        channel = Channel(ours, silence_timeout_s=60.0, kill=theirs.close)
        try:
            call = channel.start("collect", timeout_s=60.0, max_parts=200, max_part_bytes=LIMITS.max_total_bytes)
            sent = theirs.send(stream)
            assert sent == len(stream), "the stream does not fit the socket"
            theirs.shutdown(socket.SHUT_WR)
            return receive(call.parts(), into, LIMITS, PATHS)
        finally:
            channel.close()


def _check_files(scratch: str, into: str, submission: Submission | None) -> None:
    assert os.listdir(scratch) == ["into"], "a file outside the directory"
    names = set(os.listdir(into))
    assert all(re.fullmatch(r"\d{6}", name) for name in names), f"names from the machine: {names}"
    expected = set()
    if submission is not None:
        files = [file for file in submission.files if not file.is_dir]
        expected = {os.path.basename(file.data_path) for file in files}
        assert sum(file.size for file in files) <= LIMITS.max_total_bytes
        assert len(submission.files) <= LIMITS.max_entries
        assert all(os.stat(file.data_path).st_size == file.size <= LIMITS.max_file_bytes for file in files)
        assert all(any(f"{file.path}/".startswith(f"{root}/") for root in PATHS) for file in files)
    assert names == expected, f"left behind: {names - expected}"
    for name in names:
        os.unlink(os.path.join(into, name))
    os.rmdir(into)


@contextlib.contextmanager
def watchdog() -> Iterator[None]:
    """A stream that does not come to an end is interrupted by an exception that nothing catches."""

    def late(*_: Any) -> None:
        raise Broken(f"no end after {MAX_SECONDS} s")

    previous = signal.signal(signal.SIGALRM, late)
    try:
        yield
    finally:
        signal.signal(signal.SIGALRM, previous)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--streams", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    outcomes: Counter[str] = Counter()
    begin = time.monotonic()
    with concurrent.futures.ProcessPoolExecutor(options.jobs) as pool, Progress() as progress:
        task = progress.add_task("hostile streams", total=options.streams)
        batches = [
            pool.submit(fuzz, first, min(BATCH, options.streams - first), options.seed)
            for first in range(0, options.streams, BATCH)
        ]
        for batch in concurrent.futures.as_completed(batches):
            try:
                outcomes += batch.result()
            except Broken as broken:
                pool.shutdown(cancel_futures=True)
                print(f"FAILED: {broken}", file=sys.stderr)
                return 1
            progress.advance(task, BATCH)
    seconds = round(time.monotonic() - begin, 1)
    print(json.dumps({"streams": options.streams, "seed": options.seed, "seconds": seconds, "outcomes": outcomes}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
