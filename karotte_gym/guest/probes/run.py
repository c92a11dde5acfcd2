"""Runs probes by name and puts what they found together; `as_student` and `as_root` are the ends of forks."""

from __future__ import annotations

import json
import traceback
from collections.abc import Iterable, Mapping
from typing import Any

from .catalogue import ALL, AS_ROOT, AS_STUDENT
from .tree import Finding, Probe, Tree

__all__ = ["as_root", "as_student", "merge", "run"]

MAX_FINDINGS = 25  # of one probe; a broken image has thousands of the same
MAX_TEXT = 2000

Found = dict[str, list[list[str]]]  # probe -> [finding, fix]; no list is no defect


def as_student(names: list[str], program: dict[str, Any]) -> bytes:
    """In a fork that is confined as the student: JSON of `Found` for those of `names` that the student runs."""
    return json.dumps(run(Tree(program=program), _chosen(AS_STUDENT, names))).encode()


def as_root(names: list[str]) -> bytes:
    """In a fork that is root, outside the session: the same for the image itself, without what is mounted over it."""
    return json.dumps(run(Tree(one_disk=True), _chosen(AS_ROOT, names))).encode()


def run(tree: Tree, probes: Mapping[str, Probe]) -> Found:
    """Run all; a probe that fails is a finding of its own, since it has shown nothing."""
    return {name: [[_text(part) for part in found] for found in _findings(tree, probe)] for name, probe in probes.items()}


def merge(names: Iterable[str], *results: Found) -> list[dict[str, Any]]:
    """One object a finding, one a probe without: {"name", "ok", "finding", "fix"}, in the order of `names`."""
    merged = []
    for name in names:
        found = dict.fromkeys(tuple(pair) for result in results for pair in result.get(name, []))
        shown = list(found)[:MAX_FINDINGS]
        if len(found) > len(shown):
            shown.append((f"{len(found) - len(shown)} more of this kind", shown[0][1]))
        for finding, fix in shown or [("", "")]:
            merged.append({"name": name, "ok": not finding, "finding": finding, "fix": fix})
    return merged


def _chosen(probes: Mapping[str, Probe], names: list[str]) -> dict[str, Probe]:
    return {name: probes[name] for name in ALL if name in names and name in probes}


def _findings(tree: Tree, probe: Probe) -> list[Finding]:
    try:
        return list(probe(tree))
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        detail = f"{type(error).__name__}: {error} ({where.name}, line {where.lineno})"
        return [Finding(f"the probe itself failed, so nothing is known: {detail}", "mend the probe")]


def _text(text: str) -> str:
    """Printable and without half surrogates: names of files are bytes of anybody's choice."""
    clean = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in clean)[:MAX_TEXT]
