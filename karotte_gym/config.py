"""What a task or a user sets about machines and runs: pydantic models, frozen, refused with the field's name."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

__all__ = ["FileLimit", "Hardware", "Limits", "StepLimits", "SubmissionLimits"]

MIB = 1024 * 1024
GIB = 1024 * MIB
INODES_PER_MIB = 2048  # of 256 bytes each: half of the disk is their tables then, and mkfs.ext4 still makes room for all
MAX_INODES = 1024 * MIB  # mkfs.ext4 takes less than twice as many on the largest disk


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Hardware(_Frozen):
    """One machine. Part of a snapshot's key: another value is another snapshot."""

    memory_mib: int = Field(512, ge=256, le=1024 * 1024, description="RAM of the machine")
    cpus: int = Field(1, ge=1, le=64, description="virtual processors; emulated machines boot reliably with one only")
    disk_mib: int = Field(2048, ge=64, le=1024 * 1024, description="scratch disk, all that the student can write")
    disk_inodes: int = Field(262144, ge=4096, le=MAX_INODES, description="inodes of the scratch disk: files of every kind")

    @model_validator(mode="after")
    def _inodes_fit_the_disk(self) -> Self:
        most = self.disk_mib * INODES_PER_MIB
        if self.disk_inodes > most:
            needed = -(-self.disk_inodes // INODES_PER_MIB)
            raise ValueError(
                f"disk_inodes={self.disk_inodes} are too many for disk_mib={self.disk_mib}: "
                f"set disk_inodes={most} or fewer, or disk_mib={needed} or more"
            )
        return self


class FileLimit(_Frozen):
    """Bytes and number of files on the scratch disk that the student may use."""

    total_bytes: int | None = Field(None, ge=0)
    count: int | None = Field(None, ge=0)


class Limits(_Frozen):
    """Held while the student's session runs. None means the default that the machine derives from its hardware."""

    memory_bytes: int | None = Field(None, ge=16 * MIB, description="default: RAM less 160 MiB for kernel and agent")
    process_count: int = Field(2048, ge=8, description="processes and threads together")
    command_timeout_s: float = Field(120.0, gt=0, description="default of the bash tool")
    max_command_timeout_s: float = Field(1800.0, gt=0, description="longest timeout a call may ask for")
    max_output_bytes: int = Field(65536, ge=1024, description="kept of one call's output, head and tail together")
    silence_timeout_s: float = Field(120.0, gt=0, description="a machine that says nothing for so long is killed")


class SubmissionLimits(_Frozen):
    """What custody accepts; more is refused with a sentence that names the path."""

    max_file_bytes: int = Field(256 * MIB, ge=0)
    max_total_bytes: int = Field(GIB, ge=0)
    max_entries: int = Field(10_000, ge=1)
    max_depth: int = Field(32, ge=1)


class StepLimits(_Frozen):
    """What a step of the task may take of the student. None: no such limit.

    With ``at_limit="score"`` what is there is taken into custody and graded, as if it had been handed in; with
    ``"error"`` the episode ends with reward 0. Either is named in the record, and no episode is dropped for it.
    """

    time_s: float | None = Field(None, gt=0, allow_inf_nan=False, description="from the instructions on, thinking included")
    turns: int | None = Field(None, ge=1, description="calls, also those that are none; the last one is still answered")
    context_tokens: int | None = Field(None, ge=1, description="of the step's chat, estimated as its bytes / 4")
    at_limit: Literal["score", "error"] = "score"
    show_remaining_time: bool = Field(False, description="tell what is left of time_s after each result")
    show_remaining_turns: bool = Field(False, description="tell what is left of turns after each result")

    @model_validator(mode="after")
    def _shows_what_there_is(self) -> Self:
        if self.show_remaining_time and self.time_s is None:
            raise ValueError("show_remaining_time needs time_s: there is no time to show")
        if self.show_remaining_turns and self.turns is None:
            raise ValueError("show_remaining_turns needs turns: there are none to show")
        return self
