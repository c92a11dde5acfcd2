"""`Recording`: where one episode's evidence goes. The transcript as it happens, the sealed record when it ends.

Without a directory nothing is written and the record names no artifacts, but it is sealed all the same, for whoever
keeps it otherwise.
"""

from __future__ import annotations

import threading
from pathlib import Path

from karotte_gym.evidence.journal import Journal
from karotte_gym.evidence.sealing import key_from_environment, sealed
from karotte_gym.record import RECORD, Artifact, CompletionRecord
from karotte_gym.run_files import write_json
from karotte_gym.transcript import TRANSCRIPT, Transcript

__all__ = ["Recording"]


class Recording:
    """`directory` is the episode's own and empty. ConfigError when the key of the environment is none."""

    def __init__(self, directory: Path | None, transcript: Transcript):
        self.directory = directory
        self.record: CompletionRecord | None = None  # as it was kept last
        self._key = key_from_environment()
        self._transcript = transcript
        self._lock = threading.Lock()  # a run that is stopped closes environments under their calls
        self._journal: Journal | None = None
        if directory is not None:
            self._journal = Journal(directory / TRANSCRIPT)
            transcript.keep_with(self._journal.append)

    @property
    def transcript_path(self) -> Path | None:
        """The transcript's file, readable from the episode's beginning."""
        return None if self.directory is None else self.directory / TRANSCRIPT

    def keep(self, record: CompletionRecord) -> CompletionRecord:
        """End the transcript, seal the record and write it. The same record again, but for the time, changes nothing.

        It is written again when there is more to say: that of an episode ended by misbehaviour, when a wrapper has
        named it.
        """
        with self._lock:
            return self._keep(record)

    def _keep(self, record: CompletionRecord) -> CompletionRecord:
        self._transcript.finish()
        if self._journal is not None:
            self._journal.close()
        if self.record is not None:
            record = record.model_copy(update={"duration_s": self.record.duration_s, "artifacts": self.record.artifacts})
            if record.model_copy(update={"seal": self.record.seal}) == self.record:
                return self.record
        self.record = sealed(record.model_copy(update={"artifacts": self._artifacts(record)}), self._key)
        if self.directory is not None:
            write_json(self.directory / RECORD, self.record.model_dump(mode="json"))
        return self.record

    def _artifacts(self, record: CompletionRecord) -> dict[str, Artifact]:
        """From digests that were taken while the bytes were written, not from what the disk says now."""
        found: dict[str, Artifact] = {}
        if self._journal is not None:
            found[TRANSCRIPT] = Artifact(sha256=self._journal.sha256, size=self._journal.size)
        for step in record.steps:
            for entry in step.submission:
                if entry.artifact:
                    found[entry.artifact] = Artifact(sha256=entry.sha256, size=entry.size)
        return found
