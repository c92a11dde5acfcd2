"""A morning of a small shop's logs, drawn from a seed: one cause that spreads, and traces that lead elsewhere.

The traps: an earlier failure of another kind, errors of the very cause that a retry made good, a service off the path
that fails all morning without failing anybody's request, a release of another service just before the first failure.
What happened is known to whoever drew it, and is not read back from the text.
"""

from __future__ import annotations

import datetime
import hashlib
from dataclasses import dataclass, field

import numpy as np

__all__ = ["CAUSES", "PATHS", "SERVICES", "Incident", "draw_incident"]

GATEWAY, MAILER = "gateway", "mail-worker"
# From the gateway to the service that answers last; each of the other services on a path only calls the next.
PATHS = {
    "/search": ("catalogue-api", "search-index"),
    "/basket": ("checkout-api", "stock-store"),
    "/order": ("checkout-api", "payment-api", "ledger-store"),
    "/login": ("account-api", "session-store"),
}
SERVICES = (GATEWAY, *dict.fromkeys(service for path in PATHS.values() for service in path), MAILER)
CULPRITS = ("search-index", "stock-store", "payment-api", "ledger-store", "session-store")
CAUSES = {
    "disk-full": "journal not written: no space left on device",
    "pool-exhausted": "no database connection within 3000 ms: 20 of 20 in use",
    "certificate-expired": "handshake with the store refused: its certificate has ended",
    "broken-release": "unhandled KeyError 'currency' in release 4.18.0",
    "out-of-memory": "worker 3 killed at its memory limit of 512 MiB",
    "wrong-clock": "token refused: issued 312 s in the future",
}
START = datetime.datetime(2026, 3, 14, 7, 0, 0)
MINUTES = 180
FEWEST, MOST = 1100, 1500  # requests
FAILING_SHARE = 0.7  # of the requests that reach the service at fault once it is at fault
RETRIED_SHARE = 0.02  # of all requests: an error somewhere that a retry makes good
EARLIER_FAILURES = 4  # of another kind, before it began


@dataclass
class Incident:
    """What the student is shown, `logs`, and what only the grader is told."""

    cause: str
    service: str
    first_failure: str = ""
    failed: int = 0
    evidence: list[str] = field(default_factory=list)  # digests of the lines that show it
    logs: dict[str, str] = field(default_factory=dict)

    def facts(self) -> dict[str, object]:
        """For the grader, as JSON."""
        known = {"causes": sorted(CAUSES), "services": sorted(SERVICES)}
        right = {"cause": self.cause, "service": self.service, "first_failure": self.first_failure}
        return {**right, "failed": self.failed, "evidence": self.evidence, **known}


def draw_incident(rng: np.random.Generator) -> Incident:
    """The same seed draws the same morning."""
    cause, elsewhere = (str(name) for name in rng.permutation(sorted(CAUSES))[:2])
    return _Morning(rng, Incident(cause, str(rng.choice(CULPRITS))), elsewhere).written()


class _Morning:
    """Lines are collected with their times and sorted at the end, as several workers would have written them."""

    def __init__(self, rng: np.random.Generator, incident: Incident, elsewhere: str):
        self.rng = rng
        self.incident = incident
        self.elsewhere = elsewhere  # the cause of what else went wrong
        self.began_s = int(rng.integers(60, 110)) * 60
        self.warned = False  # whether the service at fault has shown the cause before, in a request that a retry saved
        self.lines: dict[str, list[tuple[int, str]]] = {service: [] for service in SERVICES}

    def written(self) -> Incident:
        count = int(self.rng.integers(FEWEST, MOST))
        times = sorted(int(second) for second in self.rng.integers(0, MINUTES * 60, count))
        early = set(self.rng.choice(sum(second < self.began_s for second in times), EARLIER_FAILURES, replace=False))
        for number, second in enumerate(times):
            self._request(number, second, fails_early=number in early)
        self._mailer()
        self._releases()
        for service, lines in self.lines.items():
            self.incident.logs[service] = "".join(f"{_time(at)} {text}\n" for at, text in sorted(lines, key=lambda x: x[0]))
        return self.incident

    def _request(self, number: int, second: int, *, fails_early: bool) -> None:
        request = f"r-{number:04d}{int(self.rng.integers(16**3)):03x}"
        route = str(self.rng.choice(list(PATHS)))
        path = PATHS[route]
        at_fault = second >= self.began_s and self.incident.service in path
        if at_fault and self.rng.random() < FAILING_SHARE:
            self._failed_by_the_cause(request, route, second)
        elif fails_early:
            self._failure(request, route, path[-1], CAUSES[self.elsewhere], second)
        else:
            self._served(request, route, second)

    def _served(self, request: str, route: str, second: int) -> None:
        path = PATHS[route]
        there = self.incident.service in path
        first = there and not self.warned
        self.warned = self.warned or there
        if first or self.rng.random() < RETRIED_SHARE:
            failing = self.incident.service if there else path[-1]
            cause = self.incident.cause if first or self.rng.random() < 0.5 else self.elsewhere
            self._line(failing, second, "ERROR", request, f"{CAUSES[cause]}; retried")
        for service in reversed(path):
            self._line(service, second, "INFO", request, f"done in {int(self.rng.integers(3, 90))} ms")
        self._line(GATEWAY, second, "INFO", request, f"{route} 200")

    def _failed_by_the_cause(self, request: str, route: str, second: int) -> None:
        line = self._failure(request, route, self.incident.service, CAUSES[self.incident.cause], second)
        self.incident.evidence.append(hashlib.sha256(line.encode()).hexdigest())
        self.incident.failed += 1
        self.incident.first_failure = self.incident.first_failure or _time(second)

    def _failure(self, request: str, route: str, service: str, text: str, second: int) -> str:
        """One that nobody made good: the service's own line, and one of each caller up to the gateway."""
        line = self._line(service, second, "ERROR", request, text)
        callers = PATHS[route][: PATHS[route].index(service)]
        called = service
        for caller in reversed(callers):
            self._line(caller, second, "ERROR", request, f"{called} answered 500")
            called = caller
        self._line(GATEWAY, second, "ERROR", request, f"{route} 502: {called} answered 500")
        return line

    def _mailer(self) -> None:
        """Fails for a reason of its own, in jobs that no request waits for, from before it began."""
        for second in range(self.began_s - int(self.rng.integers(200, 900)), MINUTES * 60, 45):
            self._line(MAILER, second, "ERROR", f"job-{second}", f"{CAUSES[self.elsewhere]}; tried again later")

    def _releases(self) -> None:
        others = [service for service in SERVICES if service != self.incident.service]
        self._line(str(self.rng.choice(others)), self.began_s - 70, "INFO", "-", "release 4.18.0 started")
        self._line(self.incident.service, int(self.rng.integers(100, 2000)), "INFO", "-", "release 4.18.0 started")

    def _line(self, service: str, second: int, level: str, request: str, text: str) -> str:
        line = f"{level} {request} {text}"
        self.lines[service].append((second, line))
        return f"{_time(second)} {line}"


def _time(second: int) -> str:
    return f"{START + datetime.timedelta(seconds=second):%Y-%m-%dT%H:%M:%SZ}"
