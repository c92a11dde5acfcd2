"""Scores speedup: hidden inputs first, then the submission against the slow function, by turns, on one processor.

Called as ``grade.py SUBMISSION_DIR ROOT_DATA_DIR RESULT_PATH`` in a machine that the student never saw.

What is timed. Either side answers in a process of its own, confined, with the same driver. A new one, in each round,
has run nothing of the submission until the first question brings source and numbers with the clock running: importing
is timed, and nothing can be prepared. Questions go to the two sides by turns, either first as often, and the
submission's process is frozen with all its children except while the clock runs for it: it does not work ahead, and what
it does ever is in the sum of its times. It has no way to the slow function's process, which never sees the submission.
What a frozen process has set off in the kernel would go on, and be paid by whoever runs: it may have neither timers nor
sockets. Should there be another way, the slow function is timed in each round before anything of the submission has run and
when nothing of it is left as well, and by what it is slower in between, beyond a host's moods, the submission's ratio is cut.

By which clock. The processor time of the process's control group, from "ready" to the end of the round: the kernel
counts it, confined code can neither set nor reach it, and no thread, child or moment is left out. Waiting costs nothing
and gains little: nobody else could do the work but the kernel's own threads, but a busy host interrupts least those who nap,
and what it takes is counted as theirs whom it interrupts. So this process's monotonic clock is looked at as well, from the
first byte of a question to the last byte of the answer, and bounds what can be gained by it. It is not the first choice
because a host that is busy adds to each turn a wait for being woken, which weighs most on the faster side: candidates that do
a third of the work were seen at 2.5 by it and at 2.8 by the other.

How much. Turns are short, so that a busy host slows both sides of one alike, and each gives a ratio of its own: less what
the driver itself takes, which a function that does nothing shows beside them. A host changes its speed in the midst of some
turns, which then say anything between half and double, so that their median counts and no sum; the first turns, which load
a source, count beside it with the weight that they have. What is paid once in another turn does not show in a median, so the
ratio of the sums bounds it. Rounds go on until the median is known well enough, or their number or their time is up.
Both sides have the same layout of addresses: left to chance it makes two processes of the same program differ by a tenth for
as long as they live, under emulation. Numbers are new in each turn, drawn from a seed that exists only here, and every timed
answer is compared: there is no untimed check that could be told from a measurement.
"""

import json
import marshal
import os
import random
import secrets
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, NamedTuple

from karotte_grading import Reply, SubmissionUnusable, read_submitted, start_as_student

Call = tuple[list[int], int]

FAST = "workdir/data/fast.py"
FUNCTION = "neighbours"
MAX_SOURCE_BYTES = 64 * 1024
MEMORY_BYTES = 96 * 1024 * 1024
LIFETIME_S = 60.0

ROUNDS, MOST_ROUNDS, TURNS, ALONE = 3, 8, 20, 3  # turns of each side; before and after those so many of the slow one alone
ENOUGH_S = 60.0  # of rounds; a judge that is still at it when its own time is up scores 0
HURRY_S, LEAST_TURNS = 90.0, 4  # from when on no round has more turns than that: on a host with several machines a processor
CLOSE = 0.01  # standard error of the median, as a share of it, at which no more rounds are needed
LEAST_SHARE = 0.25  # of a sum is always the function's, however little it does beside the driver
NO_GAIN, CAP = 1.25, 8.0  # ratios: less than the first is within what a busy host does to a median; from the second on 1.0
TARGET_S = 0.15  # of the slow function in a turn: long against the driver's millisecond, short against a host's moods
PROBE_LENGTH, SHORTEST, LONGEST = 200, 250, 3000
MUCH_SLOWER = 2.5  # times the slow function's time, from the middle of a round on: not worth more rounds
DISTURBED = 1.3  # times as long as undisturbed may the slow function take beside a submission; honest ones: 0.9 to 1.17
CLOCK_SLACK = 1.3  # by how much the ratio may exceed the one that the wall clock shows
SUM_SLACK = 1.15  # and the one of the sums, which a restless host makes wrong by a tenth
FAILED = b"failed: "  # what a reply begins with that is no result
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
module.__file__ = "/tmp/submission.py"
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
PYTHON = ["/usr/bin/setarch", "--addr-no-randomize", "/usr/bin/python3", "-I", "-S", "-B", "-c", DRIVER]

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

NOTHING = "nothing"
RIVAL = f"{SLOW}\n\ndef {NOTHING}(values, distance):\n    return [len(values)] * len(values)\n"


class Refused(Exception):
    """Why the submission scores 0."""


@dataclass
class Taken:
    """What answers took: processor time, all else that the side did meanwhile included, and time by the clock."""

    cpu_s: float = 0.0
    clock_s: float = 0.0

    def add(self, cpu_s: float, clock_s: float) -> None:
        self.cpu_s, self.clock_s = self.cpu_s + cpu_s, self.clock_s + clock_s


class Round(NamedTuple):
    """Two processes by turns."""

    usual: Taken  # a turn of the slow function when nothing of the submission has run yet, or is left
    loading: Taken  # what its first one took more, in which it was loaded
    asking: Taken  # the least that the driver itself took for a question
    slow: list[Taken]
    fast: list[Taken]

    def shares(self) -> list[float]:
        """The submission's processor time over the slow function's in the same turn."""
        turns = zip(self.slow, self.fast, strict=True)
        return [1 / ratio_of(slow.cpu_s, fast.cpu_s, self.asking.cpu_s) for slow, fast in turns]


class Side:
    """A process that has run nothing of `source` until the first question. Frozen, whenever it is not asked."""

    def __init__(self, source: bytes):
        self._source = source
        self._program = start_as_student(
            PYTHON, readable=(), memory_bytes=MEMORY_BYTES, process_count=32, lifetime_s=LIFETIME_S, quiet=True
        )

    def __enter__(self) -> "Side":
        with ExitStack() as stack:
            stack.enter_context(self._program)
            if not self._program.ask(end=b"ready\n", timeout_s=LIFETIME_S).complete:
                raise RuntimeError("the driver did not start")
            self._program.freeze()
            self._counted_s = self._program.cpu_s()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()

    def ask(self, calls: list[Call], taken: Taken, *, timeout_s: float, max_bytes: int, name: str = FUNCTION) -> Reply:
        """The reply to one question, which brings the source if it is the first; what it took is added to `taken`."""
        question = marshal.dumps((self._source, name, calls))
        self._source = b""
        self._program.thaw()
        reply = self._program.ask(question, timeout_s=timeout_s, max_bytes=max_bytes)
        self._program.freeze()
        before_s, self._counted_s = self._counted_s, self._program.cpu_s()
        taken.add(self._counted_s - before_s, reply.duration_s)
        return reply


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


def expected_of(slow: Side, calls: list[Call], taken: Taken, name: str = FUNCTION) -> Reply:
    """The reply of a function of ours, which nothing of the submission's can touch."""
    reply = slow.ask(calls, taken, timeout_s=LIFETIME_S, max_bytes=1 << 20, name=name)
    if not reply.complete or reply.data.startswith(FAILED):
        raise RuntimeError(f"the function {name} did not answer: {reply.data[:300]!r}")
    return reply


def answer_of(fast: Side, calls: list[Call], taken: Taken, like: Reply) -> Reply:
    """The submission's reply to calls that took the slow function about as long as `like`."""
    max_bytes = len(like.data) + 300 + 8 * LONGEST
    return fast.ask(calls, taken, timeout_s=8 * like.duration_s + GRACE_S, max_bytes=max_bytes)


def compare(reply: Reply, expected: Reply, when: str) -> None:
    """Refused unless the submission's reply is the slow function's, byte for byte."""
    if not reply.complete:
        raise Refused(f"no answer {when}")
    if reply.data.startswith(FAILED):
        raise Refused(f"an exception {when}: {reply.data[len(FAILED) : -1].decode('utf-8', 'replace'):.300}")
    if reply.data != expected.data:
        raise Refused(f"a wrong result {when}")


def fitting_length(slow: Side, rng: random.Random) -> int:
    """A length at which the slow function takes about TARGET_S on this machine; its time grows with the square."""
    took_s = min(expected_of(slow, timed_calls(rng, PROBE_LENGTH), Taken()).duration_s for _ in range(4))
    return max(SHORTEST, min(LONGEST, round(PROBE_LENGTH * (TARGET_S / took_s) ** 0.5)))


def added_to(all_taken: list[Taken]) -> Taken:
    """Another one, in which nothing has been taken yet."""
    all_taken.append(Taken())
    return all_taken[-1]


def combined(all_taken: list[Taken], how: Callable[[list[float]], float]) -> Taken:
    """Their sum, median or least, by either clock."""
    return Taken(how([each.cpu_s for each in all_taken]), how([each.clock_s for each in all_taken]))


def ratio_of(slow_s: float, fast_s: float, asking_s: float) -> float:
    """How many times faster, without what asking takes either side; all of one turn."""
    net = [max(turn_s - asking_s, LEAST_SHARE * turn_s) for turn_s in (slow_s, fast_s)]
    return net[0] / net[1]


def is_close(shares: list[float]) -> bool:
    """Whether the median of more would hardly differ. The quartiles say how far they are spread, whatever their tails do:
    for a normal distribution the standard error of a median is 0.93 of their distance over the root of the number."""
    low, middle, high = statistics.quantiles(shares, n=4, method="inclusive")
    return 0.93 * (high - low) <= CLOSE * middle * len(shares) ** 0.5


def times_as_fast(rounds: list[Round]) -> float:
    """The ratio of what both sides took, first turns with what they load included; in turns of the slow function."""
    loading = statistics.median(each.loading.cpu_s / each.usual.cpu_s for each in rounds)
    first = statistics.median(each.shares()[0] for each in rounds)
    by_turns = (TURNS + loading) / (first + (TURNS - 1) * statistics.median(other_shares(rounds)))
    return min(by_turns, SUM_SLACK * by_sums(rounds, "cpu_s"), CLOCK_SLACK * by_sums(rounds, "clock_s"))


def by_sums(rounds: list[Round], clock: str) -> float:
    """The same by the sums of all rounds, which no cost in any of them escapes. A round that was cut short is weighed as if
    it had gone on, or what is paid once would count for more in it."""

    def taken(side: str) -> float:
        turns = [[getattr(turn, clock) for turn in getattr(each, side)] for each in rounds]
        others = [seconds for each in turns for seconds in each[1:]]
        return statistics.fmean(each[0] for each in turns) + (TURNS - 1) * statistics.fmean(others)

    loading, asking = (
        statistics.fmean(getattr(getattr(each, what), clock) for each in rounds) for what in ("loading", "asking")
    )
    return ratio_of(taken("slow") + loading, taken("fast"), TURNS * asking)


def disturbance(rounds: list[Round]) -> float:
    """How much longer the slow function took beside the submission: of the same turns as the ratio, and with the upper of
    two middle ones, so that turns enough to move the one median move the other."""
    return statistics.median_high(turn.cpu_s / each.usual.cpu_s for each in rounds for turn in each.slow[1:])


def other_shares(rounds: list[Round]) -> list[float]:
    """The shares of all turns but the first ones."""
    return [share for each in rounds for share in each.shares()[1:]]


def one_round(source: bytes, rng: random.Random, length: int, hurry_at: float) -> Round:
    """Two new processes by turns."""
    begun = Taken()
    alone: list[Taken] = []
    asking: list[Taken] = []
    slow: list[Taken] = []
    fast: list[Taken] = []
    with Side(RIVAL.encode()) as rival:
        with Side(source) as submission:
            expected = expected_of(rival, timed_calls(rng, length), begun)
            for _ in range(ALONE):
                calls = timed_calls(rng, length)
                expected = expected_of(rival, calls, added_to(alone))
                expected_of(rival, calls, added_to(asking), NOTHING)
            for turn in range(TURNS):
                calls = timed_calls(rng, length)
                if turn % 2:
                    reply = answer_of(submission, calls, added_to(fast), like=expected)
                    expected = expected_of(rival, calls, added_to(slow))
                else:
                    expected = expected_of(rival, calls, added_to(slow))
                    reply = answer_of(submission, calls, added_to(fast), like=expected)
                expected_of(rival, calls, added_to(asking), NOTHING)
                compare(reply, expected, "while it was timed")
                if turn >= TURNS // 2 and combined(fast, sum).cpu_s > MUCH_SLOWER * combined(slow, sum).cpu_s:
                    raise Refused("slower than the slow function")
                if turn + 1 >= LEAST_TURNS and time.monotonic() >= hurry_at:
                    break
        for _ in range(ALONE):
            expected_of(rival, timed_calls(rng, length), added_to(alone))
    usual = combined(alone, statistics.median)
    return Round(
        usual=usual,
        loading=Taken(max(0.0, begun.cpu_s - usual.cpu_s), max(0.0, begun.clock_s - usual.clock_s)),
        # The least: what a host or the submission adds to it must not be taken off, for that would make it faster.
        asking=combined(asking, min),
        slow=slow,
        fast=fast,
    )


def measure(source: bytes, seed: int) -> dict[str, Any]:
    """The figures of a submission that answers everything right; Refused for any other."""
    rng, begun = random.Random(seed), time.monotonic()
    with Side(RIVAL.encode()) as slow, Side(source) as fast:
        hidden = tricky_calls(rng)
        expected = expected_of(slow, hidden, Taken())
        compare(answer_of(fast, hidden, Taken(), like=expected), expected, "to a hidden call")
        length = fitting_length(slow, rng)
    rounds = [one_round(source, rng, length, begun + HURRY_S) for _ in range(ROUNDS)]
    while not (close := is_close(other_shares(rounds))):
        if len(rounds) == MOST_ROUNDS or time.monotonic() >= begun + ENOUGH_S:
            break
        rounds.append(one_round(source, rng, length, begun + HURRY_S))
    disturbed = disturbance(rounds)
    return {
        "ratio": round(times_as_fast(rounds) * min(1.0, DISTURBED / disturbed), 3),
        "ratios": sorted(round(by_sums([each], "cpu_s"), 3) for each in rounds),
        "is_close": close,
        "ratio_by_the_clock": round(by_sums(rounds, "clock_s"), 3),
        "disturbed": round(disturbed, 3),
        "length": length,
        "driver_s": round(statistics.median(each.asking.cpu_s for each in rounds), 5),
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
