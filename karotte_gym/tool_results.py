"""Runs one parsed call in the student's machine and words its result: what came out, and what there is to say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from karotte_gym.bounded_text import bounded
from karotte_gym.config import Limits
from karotte_gym.errors import CallRefused
from karotte_gym.sandbox.contract import CommandResult, Sandbox
from karotte_gym.spaces import MAX_OBSERVATION_CHARS
from karotte_gym.tools.call import ToolCall
from karotte_gym.tools.pictures import MAX_PICTURE_BYTES, ImagePart, NoPicture, picture_of
from karotte_gym.tools.text import clean
from karotte_gym.vector_safe import vector_safe
from karotte_gym.warned import warn

__all__ = ["ToolResult", "command_result", "error_result", "run_call", "step_info", "text_result"]


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What the student is told (`text`, cleaned and bounded) and the facts beside it."""

    text: str
    exit_code: int | None = None
    timed_out: bool = False
    truncated: bool = False
    duration_s: float = 0.0
    bytes_out: int = 0  # of the result before it was cut
    images: tuple[ImagePart, ...] = ()  # follow the text, in a message of their own
    failed: bool = False  # the tool could not do its work; an exit code of a command's is no failure of the tool


def error_result(text: str) -> ToolResult:
    """The answer to what could not be run."""
    return ToolResult(bounded(text, MAX_OBSERVATION_CHARS), bytes_out=len(text.encode("utf-8", "replace")), failed=True)


def text_result(text: str, duration_s: float) -> ToolResult:
    """What the harness itself says to a call that it carried out."""
    return ToolResult(text, duration_s=duration_s, bytes_out=len(text.encode()))


def run_call(sandbox: Sandbox, call: ToolCall, limits: Limits) -> ToolResult:
    """Run it. `MachineDied` comes through; a refusal of the agent is a text for the student, for the machine lives."""
    try:
        if call.name == "view_image_file":
            return _picture(sandbox, call.arguments["path"])
        done = _dispatch(sandbox, call, limits)
    except CallRefused as error:
        if error.kind == "internal":
            warn(f"the agent failed in {call.name}: {error}")
        return error_result(f"error: {call.name} could not be run: {clean(str(error).encode('utf-8', 'replace'))}")
    return command_result(done)


def command_result(done: CommandResult) -> ToolResult:
    """What a command did, worded."""
    return ToolResult(
        text=bounded(_worded(done), MAX_OBSERVATION_CHARS),
        exit_code=done.exit_code,
        timed_out=done.timed_out,
        truncated=done.cut_bytes > 0,
        duration_s=float(done.duration_s),
        bytes_out=len(done.output) + done.cut_bytes,
    )


def step_info(messages: list[dict[str, Any]], result: ToolResult) -> dict[str, Any]:
    """`info` of a step: what was added to the chat, and the facts beside the text."""
    tool = {
        "exit_code": result.exit_code,
        "timed_out": result.timed_out,
        "truncated": result.truncated,
        "duration_s": result.duration_s,
    }
    return {"messages": [dict(message) for message in messages], "tool": vector_safe(tool)}


def _dispatch(sandbox: Sandbox, call: ToolCall, limits: Limits) -> CommandResult:
    arguments = call.arguments
    match call.name:
        case "bash":
            asked = arguments.get("timeout") or limits.command_timeout_s
            timeout_s = min(float(asked), limits.max_command_timeout_s)
            restart = bool(arguments.get("restart"))
            return sandbox.bash(arguments.get("command") or "", timeout_s=timeout_s, restart=restart)
        case "view_lines_in_file":
            return sandbox.view_lines(arguments["path"], arguments["start"], arguments["end"])
        case "replace_in_file":
            every = bool(arguments.get("all"))
            return sandbox.replace_in_file(arguments["path"], arguments["old"], arguments["new"], all=every)
        case "write_file":
            return sandbox.write_file(arguments["path"], arguments["content"])
    raise AssertionError(f"{call.name} passed the parser but nothing runs it")


def _picture(sandbox: Sandbox, path: str) -> ToolResult:
    """Read in the machine as the student, looked at from outside by its form alone (`tools.pictures`)."""
    done, data = sandbox.read_file(path, max_bytes=MAX_PICTURE_BYTES)
    if done.exit_code:
        return command_result(done)
    name = clean(path.encode("utf-8", "replace"))
    try:
        image = picture_of(data)
    except NoPicture as problem:
        return ToolResult(f"{name}: {problem}\n[exit code 1]", exit_code=1, duration_s=done.duration_s, bytes_out=len(data))
    text = f"{name}: {image.described()}"
    return ToolResult(text, exit_code=0, duration_s=done.duration_s, bytes_out=len(data), images=(image,))


def _worded(done: CommandResult) -> str:
    """The output as it is; the harness adds lines in brackets only where there is something to say."""
    lines = [clean(done.output)]
    if done.timed_out:
        lines.append(f"[timed out after {done.duration_s:.1f} s]")
    elif done.exit_code:
        lines.append(f"[exit code {done.exit_code}]")
    if done.note:
        lines.append(f"[{clean(done.note.encode('utf-8', 'replace'))}]")
    return "\n".join(line.rstrip("\n") if index < len(lines) - 1 else line for index, line in enumerate(lines) if line)
