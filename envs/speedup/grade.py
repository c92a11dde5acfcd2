"""Scores speedup: hidden inputs first, then the submission against the slow function, by turns, on one processor.

Called as ``grade.py SUBMISSION_DIR ROOT_DATA_DIR RESULT_PATH`` in a machine that the student never saw.

What is timed. Either side answers in a process of its own, confined, with the same driver. A new one, in each round,
has run nothing of the submission until the first question brings source and numbers with the clock running: importing
is timed, and nothing can be prepared. Questions go to the two sides by turns, either first as often, and the
submission's process is frozen with all its children except while the clock runs for it: it neither works ahead nor
disturbs its rival, and what it does ever is in the sum of its times. It has no way to the slow function's process,
which never sees the submission.

By which clock. The processor time of the process's control group, from "ready" to the end of the round: the kernel
counts it, confined code can neither set nor reach it, and no thread, child or moment is left out. Waiting costs nothing
and gains nothing, for there is nobody else to do the work, but for the kernel's own threads. So this process's monotonic
clock is looked at as well, from the first byte of a question to the last byte of the answer, and bounds what work done
elsewhere could save. It is not the first choice because a host that is busy adds to each turn a wait for being woken,
which weighs most on the faster side: candidates that do a third of the work were seen at 2.5 by it and at 2.8 by the other.

How much. Turns are short, so that a busy host slows both sides alike; a round's ratio is that of the sums over its
turns, less what the driver itself takes, which a function that does nothing shows. The median of the rounds counts, and
rounds go on until it is known well enough, or their number or their time is up. Numbers are new in each turn, drawn from
a seed that exists only here, and every timed answer is compared: there is no untimed check that could be told from a
measurement.
"""

import itertools
import json
import marshal
import os
import random
import secrets
import statistics
import sys
import time
from contextlib import ExitStack
from typing import Any

from karotte_grading import Reply, SubmissionUnusable, read_submitted, start_as_student

Call = tuple[list[int], int]

FAST = "workdir/data/fast.py"
FUNCTION = "neighbours"
MAX_SOURCE_BYTES = 64 * 1024
MEMORY_BYTES = 96 * 1024 * 1024
LIFETIME_S = 60.0

ROUNDS, MOST_ROUNDS, TURNS = 5, 15, 6
ENOUGH_S = 45.0  # of rounds; a judge that is still at it when its own time is up scores 0
CLOSE = 0.015  # standard error of the median, as a share of it, at which no more rounds are needed
LEAST_SHARE = 0.25  # of a sum is always the function's, however little it does beside the driver
NO_GAIN, CAP = 1.25, 8.0  # ratios: less than the first is within what a busy host does to a median; from the second on 1.0
TARGET_S = 0.15  # of the slow function in a turn: long against the driver's millisecond, short against a host's moods
PROBE_LENGTH, SHORTEST, LONGEST = 200, 450, 3000
MUCH_SLOWER = 2.5  # times the slow function's time, in any turn so far: not worth more rounds
CLOCK_SLACK = 1.5  # by how much the ratio may exceed the one that the wall clock shows
GRACE_S = 5.0  # on top of eight times what the slow function took last

# Runs as the unprivileged user, for both sides alike. What the submission prints goes to standard error; the answer is
# text, and it is compared as bytes outside, so that no object of the submission's ever decides what is equal. The source
# fills a module that is where an import would put it, since dataclasses and type hints look it up in sys.modules; the
# module has nothing of the driver's.
DRIVER = """
import marshal, os, sys
answer = os.dup(1)
os.dup2(2, 1)
os.write(answer, b"ready\\n")
module = sys.modules["submission"] = type(sys)("submission")
space = vars(module)
while True:
    source, name, calls = marshal.load(sys.stdin.buffer)
    try:
        if source:
            exec(compile(source, "submission.py", "exec"), space)
        text = repr([space[name](*each) for each in calls])
    except BaseException as error:
        text = "failed: " + repr(error)[:200].replace("\\n", " ")
    rest = text.encode() + b"\\n"
    while rest:
        rest = rest[os.write(answer, rest):]
"""
PYTHON = ["/usr/bin/python3", "-I", "-S", "-B", "-c", DRIVER]

SLOW = '''\
def neighbours(values: list[int], distance: int) -> list[int]:
    """For each value, how many of the other values differ from it by at most `distance`."""
    counts = []
    for i, here in enumerate(values):
        count = 0
        for j, there in enumerate(values):
            if i != j and abs(here - there) <= distance:
                count += 1
        counts.append(count)
    return counts
'''

NOTHING = f"def {FUNCTION}(values, distance):\n    return [len(values)] * len(values)\n"


class Refused(Exception):
    """Why the submission scores 0."""


class Side:
    """A process that has run nothing of `source` until the first question. Frozen, whenever it is not asked."""

    def __init__(self, source: bytes):
        self._source = source
        self.clock_s = 0.0  # from question to answer, of all questions
        self._program = start_as_student(
            PYTHON, readable=(), memory_bytes=MEMORY_BYTES, process_count=32, lifetime_s=LIFETIME_S
        )

    def __enter__(self) -> "Side":
        with ExitStack() as stack:
            stack.enter_context(self._program)
            if not self._program.ask(end=b"ready\n", timeout_s=LIFETIME_S).complete:
                raise RuntimeError("the driver did not start")
            self._program.freeze()
            self._before_s = self._program.cpu_s()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()

    def ask(self, calls: list[Call], *, timeout_s: float, max_bytes: int) -> Reply:
        """The reply to one question; the first one brings the source."""
        question = marshal.dumps((self._source, FUNCTION, calls))
        self._source = b""
        self._program.thaw()
        reply = self._program.ask(question, timeout_s=timeout_s, max_bytes=max_bytes)
        self._program.freeze()
        self.clock_s += reply.duration_s
        return reply

    def cpu_s(self) -> float:
        """Of all that was done for all questions."""
        return self._program.cpu_s() - self._before_s


def read_source(path: str) -> bytes:
    """The submitted text."""
    try:
        return read_submitted(path, MAX_SOURCE_BYTES)
    except SubmissionUnusable as unusable:
        raise Refused("nothing was handed in" if unusable.kind == "missing" else str(unusable)) from None


def tricky_calls(rng: random.Random) -> list[Call]:
    """Small calls on which a careless shortcut errs."""
    big = 1 << 80
    calls = [
        ([], 0),
        ([7], 0),
        ([7], 5),
        ([3, 3, 3], 0),
        ([-1, 1], 2),
        ([-1, 1], 1),
        ([big, -big, big + 1], 1),
        ([big, big + 2], 1),
    ]
    calls += [(list(range(40)), 3), (list(range(40, 0, -1)), 39), ([0] * 30, 0)]
    for width in (3, 30, 10**6, 1 << 70):
        values = [rng.randrange(-width, width) for _ in range(rng.randrange(50, 90))]
        calls += [(values, 0), (values, rng.randrange(1, width)), (sorted(values), 4 * width)]
    return calls


def timed_calls(rng: random.Random, length: int) -> list[Call]:
    """One long call of the same amount of work each time, and never the same numbers."""
    return [([rng.randrange(-(10**9), 10**9) for _ in range(length)], rng.randrange(10**6, 10**7))]


def expected_of(slow: Side, calls: list[Call]) -> Reply:
    """The slow function's reply, which nothing of the submission's can touch."""
    reply = slow.ask(calls, timeout_s=LIFETIME_S, max_bytes=1 << 20)
    if not reply.complete or reply.data.startswith(b"failed"):
        raise RuntimeError(f"the slow function did not answer: {reply.data[:300]!r}")
    return reply


def answer_of(fast: Side, calls: list[Call], like: Reply) -> Reply:
    """The submission's reply to calls that took the slow function about as long as `like`."""
    return fast.ask(calls, timeout_s=8 * like.duration_s + GRACE_S, max_bytes=len(like.data) + 300 + 8 * LONGEST)


def compare(reply: Reply, expected: Reply, when: str) -> None:
    """Refused unless the submission's reply is the slow function's, byte for byte."""
    if not reply.complete:
        raise Refused(f"no answer {when}")
    if reply.data != expected.data:
        said = f": {reply.data[:-1].decode('utf-8', 'replace')}" if reply.data.startswith(b"failed: ") else ""
        raise Refused(f"a wrong result {when}{said:.300}")


def fitting_length(slow: Side, rng: random.Random) -> int:
    """A length at which the slow function takes about TARGET_S on this machine; its time grows with the square."""
    took_s = min(expected_of(slow, timed_calls(rng, PROBE_LENGTH)).duration_s for _ in range(4))
    return max(SHORTEST, min(LONGEST, round(PROBE_LENGTH * (TARGET_S / took_s) ** 0.5)))


def cost_of_asking(rng: random.Random, length: int) -> tuple[float, float]:
    """What a round's questions take at least when the function does nothing: processor time and clock.

    At least: what a busy host adds to them must not be taken off, for it would make every submission faster.
    """
    totals = [(0.0, 0.0)]
    with Side(NOTHING.encode()) as idle:
        for _ in range(TURNS):
            expected_of(idle, timed_calls(rng, length))
            totals.append((idle.cpu_s(), idle.clock_s))
    by_cpu, by_clock = (min(after[i] - before[i] for before, after in itertools.pairwise(totals)) for i in (0, 1))
    return TURNS * by_cpu, TURNS * by_clock


def ratio_of(slow_s: float, fast_s: float, asking_s: float) -> float:
    """How many times faster, without what asking takes either side."""
    net = [max(total_s - asking_s, LEAST_SHARE * total_s) for total_s in (slow_s, fast_s)]
    return net[0] / net[1]


def is_close(ratios: list[float]) -> bool:
    """Whether the median of more would hardly differ. The quartiles say how far they are spread, whatever their tails do:
    for a normal distribution the standard error of a median is 0.93 of their distance over the root of the number."""
    low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive")
    return 0.93 * (high - low) <= CLOSE * middle * len(ratios) ** 0.5


def one_round(source: bytes, rng: random.Random, length: int, asking: tuple[float, float]) -> tuple[float, float]:
    """Two new processes by turns: how many times faster, by processor time and by the clock."""
    with Side(SLOW.encode()) as slow, Side(source) as fast:
        expected = None
        for turn in range(TURNS):
            calls = timed_calls(rng, length)
            if turn % 2 and expected:
                reply = answer_of(fast, calls, like=expected)
                expected = expected_of(slow, calls)
            else:
                expected = expected_of(slow, calls)
                reply = answer_of(fast, calls, like=expected)
            compare(reply, expected, "while it was timed")
            if fast.cpu_s() > MUCH_SLOWER * slow.cpu_s():
                raise Refused("slower than the slow function")
        by_cpu = ratio_of(slow.cpu_s(), fast.cpu_s(), asking[0])
        return by_cpu, ratio_of(slow.clock_s, fast.clock_s, asking[1])


def measure(source: bytes, seed: int) -> dict[str, Any]:
    """The figures of a submission that answers everything right; Refused for any other."""
    rng, enough_at = random.Random(seed), time.monotonic() + ENOUGH_S
    with Side(SLOW.encode()) as slow, Side(source) as fast:
        hidden = tricky_calls(rng)
        expected = expected_of(slow, hidden)
        compare(answer_of(fast, hidden, like=expected), expected, "to a hidden call")
        length = fitting_length(slow, rng)
    asking = cost_of_asking(rng, length)
    rounds = [one_round(source, rng, length, asking) for _ in range(ROUNDS)]
    while len(rounds) < MOST_ROUNDS and time.monotonic() < enough_at and not is_close([ratio for ratio, _ in rounds]):
        rounds.append(one_round(source, rng, length, asking))
    by_cpu, by_clock = (statistics.median(each[i] for each in rounds) for i in (0, 1))
    return {
        "ratio": round(min(by_cpu, CLOCK_SLACK * by_clock), 3),
        "ratios": [round(ratio, 3) for ratio, _ in sorted(rounds)],
        "ratio_by_the_clock": round(by_clock, 3),
        "length": length,
        "driver_s": round(asking[0] / TURNS, 5),
    }


def score_of(ratio: float) -> float:
    """0 below NO_GAIN, then in a straight line to 1 at CAP."""
    return 0.0 if ratio < NO_GAIN else min(1.0, (ratio - 1) / (CAP - 1))


def main() -> None:
    """Write the result."""
    submission_dir, _, result_path = sys.argv[1:]
    seed = secrets.randbits(64)
    try:
        figures = measure(read_source(os.path.join(submission_dir, FAST)), seed)
        value = score_of(figures["ratio"])
        reason = "faster" if value else f"not {NO_GAIN} times as fast"
    except Refused as error:
        figures, value, reason = {}, 0.0, str(error)
    with open(result_path, "w", encoding="utf-8") as stream:
        json.dump({"score": value, "metadata": {"reason": reason, **figures, "seed": seed}}, stream)


if __name__ == "__main__":
    main()
