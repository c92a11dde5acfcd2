"""The built-in tools: a pydantic model each. Its docstring is what the model reads, its fields are the schema.

Strict: a number in quotes, a boolean for a number or an argument of another name is refused with a sentence, not
guessed at, since a guess that is wrong once in a thousand calls is a bug that nobody will find.
"""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

__all__ = ["BUILTIN", "Bash", "ReplaceInFile", "Submit", "Tool", "ViewImageFile", "ViewLinesInFile", "WriteFile"]

MAX_TIMEOUT_S = 86400  # a task's own maximum is lower and applied where the call is run
MAX_LINE = 1_000_000_000
MAX_PATH_CHARS = 4096  # PATH_MAX
MAX_MESSAGE_CHARS = 16_000
MAX_CONTENT_CHARS = 1 << 20  # the whole call is bounded more tightly, see `call.MAX_ARGUMENTS_BYTES`


def _no_nul(text: str) -> str:
    if "\0" in text:
        raise PydanticCustomError("nul", "must not contain a NUL character")
    return text


Path = Annotated[str, Field(min_length=1, max_length=MAX_PATH_CHARS), AfterValidator(_no_nul)]
Line = Annotated[int, Field(ge=1, le=MAX_LINE)]


class Tool(BaseModel):
    """Arguments of one tool."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False, hide_input_in_errors=True)

    @classmethod
    def prepared(cls, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments before they are checked; a tool may fill in what is clear without being said."""
        return arguments

    @classmethod
    def checked(cls, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments that fit, as plain data without nulls. ValidationError says what does not fit."""
        return cls.model_validate(cls.prepared(arguments)).model_dump(exclude_none=True)


class Bash(Tool):
    """Run a command in a persistent bash shell; directory, variables and functions carry over to the next call.

    Standard input is empty. Output of both streams comes back together, its middle cut out when it is long.
    """

    command: Annotated[str, AfterValidator(_no_nul)] = Field(description="The command; several lines are fine.")
    timeout: float | None = Field(
        None, gt=0, le=MAX_TIMEOUT_S, description="Seconds after which the command is ended; the task sets a default."
    )
    restart: bool | None = Field(None, description="Start a new shell first.")

    @classmethod
    def prepared(cls, arguments: dict[str, Any]) -> dict[str, Any]:
        """Restarting needs no command."""
        bare = arguments.get("restart") is True and arguments.get("command") is None
        return {**arguments, "command": ""} if bare else arguments


class ViewLinesInFile(Tool):
    """Show lines of a text file with their numbers."""

    path: Path = Field(description="The file; a relative path starts from the shell's directory.")
    start: Line = Field(description="First line, counted from 1.")
    end: Line = Field(description="Last line, inclusive.")

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.end < self.start:
            raise PydanticCustomError("order", "end must not be before start")
        return self


class ReplaceInFile(Tool):
    """Replace text in a file: the first occurrence of `old`, or every one if `all` is true."""

    path: Path = Field(description="The file; a relative path starts from the shell's directory.")
    old: str = Field(min_length=1, description="The text to replace, exactly as it is in the file.")
    new: str = Field(description="What to put there.")
    all: bool | None = Field(None, description="Replace every occurrence.")


class WriteFile(Tool):
    """Write a text file: a new one, or the whole content of an existing one, whose mode is kept. Makes no directories."""

    path: Path = Field(description="The file; a relative path starts from the shell's directory.")
    content: str = Field(max_length=MAX_CONTENT_CHARS, description="All that is to be in the file.")


class ViewImageFile(Tool):
    """Look at a picture: PNG, JPEG, GIF (one frame), WebP or BMP."""

    path: Path = Field(description="The file; a relative path starts from the shell's directory.")


class Submit(Tool):
    """Hand in your work as it is now. This ends the present step of the task."""

    message: str | None = Field(None, max_length=MAX_MESSAGE_CHARS, description="Anything you want to say about it.")


BUILTIN: dict[str, type[Tool]] = {
    "bash": Bash,
    "view_lines_in_file": ViewLinesInFile,
    "replace_in_file": ReplaceInFile,
    "write_file": WriteFile,
    "view_image_file": ViewImageFile,
    "submit": Submit,
}
