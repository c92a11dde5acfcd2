"""What can be said about a command before it is run: whether it is empty, plain, or must be asked about first.

`syntax_error` asks ``bash -n`` as the student: the parser is the student's own, in a process of the student's, so that
a bug in it is worth nothing. It costs a process and is asked only where the shell itself can't be (`must_be_asked_about`),
and for the words of an error that the shell has found.
"""

from __future__ import annotations

import os
import re
import select
import time
from typing import TYPE_CHECKING

from .output import BoundedOutput
from .spawning import LauncherGone

if TYPE_CHECKING:
    from .session import Session

__all__ = ["does_harm_when_wrong", "is_empty", "is_plain", "must_be_asked_about", "syntax_error"]

MESSAGE_BYTES = 4096
_NAME = r"\$[A-Za-z_][A-Za-z0-9_]*+"  # whole or not at all: many that could end at each of their letters take for ever
# No bracket, brace, backslash or '!', no '#' that could begin a comment, no '$' that a quote could follow.
_BARE = rf"[A-Za-z0-9_./:=,@%+~^*?-]|{_NAME}|\$[0-9?$]"
_PLAIN_WORD = rf"(?:{_BARE}|'[^'\n]*'|\"[^\"\\`$\n]*\")+"
_LIST = rf"[ ]*{_PLAIN_WORD}(?:[ ]+{_PLAIN_WORD}|[ ]*(?:;|&&|\|\||\|)[ ]*{_PLAIN_WORD})*[ ]*"
_SUBSTITUTION = rf"\$\({_LIST}\)"  # of nothing that is substituted in turn
_WORD = rf"(?:{_BARE}|{_SUBSTITUTION}|'[^'\n]*'|\"(?:[^\"\\`$\n]|{_NAME}|{_SUBSTITUTION})*\")+"
_REDIRECT = rf"(?:[0-9]?>>?[ ]*{_WORD}|[0-9]?<[ ]*{_WORD}|[0-9]>&[0-9])"
_COMMAND = rf"(?:{_WORD})(?:[ ]+(?:{_REDIRECT}|{_WORD}))*"
_PLAIN = re.compile(rf"[ ]*{_COMMAND}(?:[ ]*(?:;|&&|\|\||\|)[ ]*{_COMMAND})*[ ]*\n?")
_RESERVED = re.compile(
    r"\b(?:if|then|elif|else|fi|for|while|until|do|done|case|esac|select|function|in|time|coproc)\b"
)  # wherever they are, although they only count at the start of a command
MAX_PLAIN_CHARS = 2000  # beyond it the check costs little in comparison
# Bash 5.2 reads these by calling its parser from its parser, and overwrites memory after an error in there that it was
# made to survive: it crashed some commands later.
_NESTED = re.compile(r"[$<>]\(")
_CLOSING = re.compile(r"(?:\A|[\s;&|)])\}(?:[\s;&|)<>0-9]|\Z)")
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_EMPTY = re.compile(r"(?:[ \t]*(?:#[^\n]*)?(?:\n|\Z))*")


def is_empty(command: str) -> bool:
    """Nothing but blanks and comments, which no compound command may consist of."""
    return _EMPTY.fullmatch(command) is not None


def is_plain(command: str) -> bool:
    """Certainly a whole command: words, simple quotes, redirections and lists of them on one line."""
    return (
        len(command) <= MAX_PLAIN_CHARS
        and _PLAIN.fullmatch(command) is not None
        and _RESERVED.search(command) is None
        and "=(" not in command
    )


def must_be_asked_about(command: str) -> bool:
    """Whether the shell itself must not be the first to read it, unless it is plain.

    A brace of its own could end the group that the command is wrapped in too early, a condition without an end takes that
    end in and costs the shell, and an error in a substitution does bash harm.
    """
    joined = command.replace("\\\n", "")
    # Quotes may hide the end of one that is open, and apostrophes in comments an open one.
    open_condition = "[[" in command and any(map(_ends_in_a_condition, (joined, _QUOTED.sub("", joined))))
    return open_condition or _CLOSING.search(joined) is not None or does_harm_when_wrong(command)


def _ends_in_a_condition(text: str) -> bool:
    return text.rfind("[[") > text.rfind("]]")


def does_harm_when_wrong(command: str) -> bool:
    """Whether it has substitutions."""
    return _NESTED.search(command) is not None


def syntax_error(session: Session, command: bytes, deadline: float, *, extglob: bool) -> bytes | None:
    """What bash has to say against it, or None. Warnings count: an open here-document is one.

    TimeoutError when it says nothing by `deadline`. When no checker can be started the command passes: the shell will tell.
    """
    argv = ["bash", "--noprofile", "--norc", *(("-O", "extglob") if extglob else ()), "-n"]
    output = BoundedOutput(MESSAGE_BYTES)
    text_fd = os.memfd_create("command", os.MFD_CLOEXEC)
    read_fd, write_fd = os.pipe2(os.O_CLOEXEC)
    try:
        os.write(text_fd, command)
        os.lseek(text_fd, 0, os.SEEK_SET)
        try:
            process = session.spawn(argv, stdin=text_fd, stdout=write_fd, stderr=write_fd, cwd="/", first=True)
        except (OSError, LauncherGone):
            return None
        finally:
            os.close(write_fd)
        with process:
            _read_all(read_fd, output, deadline)
            code = process.wait(max(0.0, deadline - time.monotonic()))
            process.kill()
        if code is None:
            raise TimeoutError("bash -n did not end in time")
    finally:
        os.close(text_fd)
        os.close(read_fd)
    message = output.result()
    return message if (code and code < 126) or (code == 0 and message) else None


def _read_all(fd: int, output: BoundedOutput, deadline: float) -> None:
    poller = select.poll()
    poller.register(fd, select.POLLIN)
    while (left_s := deadline - time.monotonic()) > 0 and poller.poll(left_s * 1000):
        data = os.read(fd, 65536)
        if not data:
            return
        output.feed(data)
