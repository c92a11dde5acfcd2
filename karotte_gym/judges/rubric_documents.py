"""What a `RubricJudge` shows of a submission, bounded as a whole: nothing is judged that was only half seen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from karotte_gym.judges.base import Evidence
from karotte_gym.judges.fence import Document
from karotte_gym.judges.messages import student_calls, student_texts
from karotte_gym.judges.submitted_files import SubmissionUnusable, SubmittedFiles

__all__ = ["documents_of"]


def documents_of(evidence: Evidence, paths: Sequence[str], include_messages: bool, max_bytes: int) -> list[Document]:
    """The files, then the chat. SubmissionUnusable when there are none or they have more than `max_bytes` together."""
    files = SubmittedFiles(evidence.submission)
    listed = list(_listed(files, paths or ("/",)))
    missing = [*(path for path in paths if not files.exists(path)), *(() if paths else evidence.submission.missing)]
    if not listed and not include_messages:
        raise SubmissionUnusable("nothing that the rubric is about was handed in")
    total = sum(files.size(path) for path in listed)
    if total > max_bytes:
        raise SubmissionUnusable(f"the submission has {total} bytes; the rubric is for {max_bytes} at most")
    documents = [Document(path, files.read_bytes(path).decode("utf-8", "backslashreplace")) for path in listed]
    documents += [Document(path, None) for path in missing]
    return [*documents, _chat(evidence.messages, max_bytes)] if include_messages else documents


def _listed(files: SubmittedFiles, paths: Sequence[str]) -> Iterator[str]:
    seen: set[str] = set()
    for path in paths:
        for found in files.list(path):
            if found not in seen:
                seen.add(found)
                yield found


def _chat(messages: Sequence[Mapping[str, Any]], max_chars: int) -> Document:
    """What the student said and called, the newest that fit: an honest episode may be long. Results are not its words."""
    kept: list[str] = []
    for message in reversed([each for each in messages if each.get("role") == "assistant"]):
        text = "\n".join([*student_texts([message]), *(f"calls {name} {arguments}" for name, arguments in _calls(message))])
        max_chars -= len(text)
        if max_chars < 0:
            kept.append("(what came before is left out)")
            break
        kept.append(text)
    return Document("what the student said and called while it worked, oldest first", "\n\n".join(reversed(kept)))


def _calls(message: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(name, arguments) for name, arguments in student_calls(message) if name != "submit"]
