"""Evidence as custody leaves it: real files under names of the host's own, and no machine."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from karotte_gym.config import Hardware
from karotte_gym.judges import Evidence, GraderNeeds
from karotte_gym.sandbox.contract import Submission, SubmittedFile

NEEDS = GraderNeeds(Path(__file__).parent, Hardware(), ())


def no_machine() -> NoReturn:
    raise AssertionError("this judge needs no machine")


def submission_of(directory: Path, files: Mapping[str, bytes | None], missing: tuple[str, ...] = ()) -> Submission:
    """`files` maps a path to its bytes, None for a directory."""
    entries = []
    for number, (path, data) in enumerate(files.items()):
        if data is None:
            entries.append(SubmittedFile(path, True, 0o755, 0, "", ""))
            continue
        stored = directory / f"{number:06d}"
        stored.write_bytes(data)
        entries.append(SubmittedFile(path, False, 0o644, len(data), hashlib.sha256(data).hexdigest(), str(stored)))
    return Submission(tuple(entries), missing, "", str(directory))


def evidence_of(
    directory: Path, files: Mapping[str, bytes | None] | None = None, *, missing: tuple[str, ...] = (), **fields: Any
) -> Evidence:
    fields.setdefault("grader_machine", no_machine)
    return Evidence(submission_of(directory, files or {}, missing), **fields)


def said(text: str, role: str = "assistant") -> dict[str, Any]:
    return {"role": role, "content": text}


def called(name: str, arguments: str, result: str) -> list[dict[str, Any]]:
    call = {"id": "call_1", "type": "function", "function": {"name": name, "arguments": arguments}}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": result},
    ]
