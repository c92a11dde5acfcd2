"""What all benchmarks share: named samples, medians and spread, a table, a JSON file saying where it was measured."""

from __future__ import annotations

import json
import os
import platform
import shutil
import statistics
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

RESULTS = Path(__file__).parent / "results"


@dataclass
class Samples:
    """Durations in seconds (or other numbers, with their unit) by stage, in the order the stages were first seen."""

    title: str
    unit: str = "ms"
    scale: float = 1000.0
    values: dict[str, list[float]] = field(default_factory=dict)

    def add(self, stage: str, value: float) -> None:
        self.values.setdefault(stage, []).append(value)

    @contextmanager
    def time(self, stage: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.add(stage, time.perf_counter() - start)

    def median(self, stage: str) -> float:
        return statistics.median(self.values[stage])

    def table(self) -> Table:
        table = Table("stage", "median", "min", "p90", "max", "n", title=f"{self.title} ({self.unit})")
        for stage, values in self.values.items():
            ordered = sorted(values)
            p90 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.9))]
            figures = (statistics.median(ordered), ordered[0], p90, ordered[-1])
            table.add_row(stage, *(f"{figure * self.scale:.2f}" for figure in figures), str(len(ordered)))
        return table

    def as_dict(self) -> dict[str, Any]:
        return {stage: {"median": statistics.median(values), "values": values} for stage, values in self.values.items()}


def where() -> dict[str, Any]:
    """The host, as far as a figure depends on it."""
    qemu = shutil.which(f"qemu-system-{platform.machine()}") or ""
    version = subprocess.run([qemu, "--version"], capture_output=True, text=True).stdout if qemu else ""
    return {
        "kernel": platform.release(),
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
        "qemu": version.partition("\n")[0],
        "load": os.getloadavg(),
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def report(name: str, *samples: Samples, ratios: dict[str, tuple[float, str]]) -> bool:
    """Print tables and ratios (`name: (value, "<= 5" or ">= 10")`), write JSON, and say whether every ratio holds."""
    console = Console()
    for each in samples:
        console.print(each.table())
    verdicts = {}
    for label, (value, bound) in ratios.items():
        sense, number = bound.split()
        holds = value <= float(number) if sense == "<=" else value >= float(number)
        verdicts[label] = {"value": value, "bound": bound, "holds": holds}
        console.print(f"{'ok  ' if holds else 'MISS'} {label}: {value:.3f} (wanted {bound})")
    RESULTS.mkdir(exist_ok=True)
    record = {"where": where(), "ratios": verdicts, "samples": {each.title: each.as_dict() for each in samples}}
    (RESULTS / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")
    return all(verdict["holds"] for verdict in verdicts.values())
