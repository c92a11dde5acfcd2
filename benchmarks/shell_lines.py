"""Random command lines for a shell: valid, broken, binary, huge, and those that play with what holds a shell together.

A line prints its own mark by ``printf 'out-%s\\n' MARK``: what it prints is nowhere in its text, so that neither a trace
(`set -x`) nor a list of jobs nor an error that quotes the line can be taken for its output. No line keeps a mark in a
function, a variable, a trap or a file, where a later line could come by it in an honest way.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["BOMB", "KILL_ALL", "Line", "random_line"]

TIMEOUTS_S = (0.2, 0.3, 0.5, 0.5, 1.0)
MAX_HUGE_CHARS = 150_000  # a call must fit the frame that carries it, escaped


@dataclass(frozen=True, slots=True)
class Line:
    """One call. `exit_code` is what must come back, None where that is not foreseen."""

    text: str
    mark: str
    timeout_s: float
    prints: bool = False  # the mark must be in the output
    exit_code: int | None = None
    spoils: bool = False  # may leave a shell in which `echo` is not what it was or its output goes elsewhere, or a bomb


def random_line(seed: int, number: int) -> Line:
    """The line of that number, the same whenever it is asked for."""
    draw = random.Random(f"{seed}/{number}")
    mark = f"{number}x{draw.getrandbits(40):010x}"
    kinds, weights = zip(*_KINDS, strict=True)
    return draw.choices(kinds, weights)[0](draw, mark)


def say(mark: str) -> str:
    """The command that prints the mark."""
    return rf"printf 'out-%s\n' {mark}"


def _honest(draw: random.Random, mark: str) -> Line:
    """What a good student does: its output and its exit code are known."""
    code = draw.choice((0, 0, 1, 7, 126, 255))
    parts = [draw.choice(_HARMLESS) for _ in range(draw.randrange(4))]
    parts.insert(draw.randrange(len(parts) + 1), say(mark))
    return Line("\n".join([*parts, f"(exit {code})"]), mark, 10.0, prints=True, exit_code=code)


def _words(draw: random.Random, mark: str) -> Line:
    words = [draw.choice((*_WORDS, say(mark))) + draw.choice(("", " ", "; ", "\n")) for _ in range(draw.randint(1, 7))]
    return _loose(draw, mark, "".join(words))


def _characters(draw: random.Random, mark: str) -> Line:
    signs = "'\"`$(){}[]<>|&;\\#!*?~= \t\n\rab01\x01\x07\x1b\x7f\x80\xa0é\u202e\ufffd\U0001f955"
    return _loose(draw, mark, say(mark) + " " + "".join(draw.choice(signs) for _ in range(draw.randrange(60))))


def _binary(draw: random.Random, mark: str) -> Line:
    raw = draw.randbytes(draw.randrange(1, 400)).replace(b"\0", b"").decode("utf-8", "surrogateescape")
    return _loose(draw, mark, draw.choice((raw, f"{say(mark)}; {raw}", f"echo '{raw}", f"cat <<E\n{raw}\nE")))


def _nested(draw: random.Random, mark: str) -> Line:
    depth = draw.choice((1, 3, 20, 300))
    text = say(mark)
    for opening, closing in [
        draw.choice((("(", ")"), ("{ ", ";}"), ("$(", ")"), ('"$(', ')"'), ("eval ", ""), ("! ", "")))
    ] * depth:
        text = f"{opening}{text}{closing}"
    return _loose(draw, mark, text[: len(text) - draw.choice((0, 0, 1, 2))])


def _here(draw: random.Random, mark: str) -> Line:
    ends = ("E\n", "E", " E\n", "e\n", "\tE\n", "")
    body = draw.choice(("", "x\n", "$(echo inner)\n", "`\n", "E E\n", "'\"\n", "out-\n" * 200))
    opening = draw.choice(("cat <<E", "cat <<'E'", "cat <<-E", "bash <<E", "cat <<E <<E", "read x <<E", "cat <<<"))
    return _loose(draw, mark, f"{say(mark)}; {opening}\n{body}{draw.choice(ends)}")


def _huge(draw: random.Random, mark: str) -> Line:
    size = draw.choice((5_000, 50_000, MAX_HUGE_CHARS))
    letters, marks = "z " * (size // 2), "$(" * (size // 100)
    texts = (f": {'x' * size}", "echo a;" * (size // 7), "#" * size, "'" + "y" * size, marks, f"cat <<E\n{letters}")
    return _loose(draw, mark, f"{say(mark)}\n{draw.choice(texts)}")


def _flood(draw: random.Random, mark: str) -> Line:
    flood = ("head -c 3000000 /dev/zero", "seq 200000", "yes", "head -c 300000 /dev/urandom", "printf 'a\\r%.0s' {1..5000}")
    return _loose(draw, mark, f"{say(mark)}; {draw.choice(flood)}{draw.choice(('', ' >&2', ' &', ' | cat'))}")


def _background(draw: random.Random, mark: str) -> Line:
    """Late output is nobody's: it must not be seen in a later result."""
    late = f"sleep {draw.choice(('0.02', '0.1', '0.5', '3'))}; {say(mark)}"
    frames = (
        "({}) &", "{{ {}; }} & disown", "setsid bash -c \"{}\" &", "nohup bash -c \"{}\" &", "coproc {{ {}; }}", ": > >({})",
        "(trap '' HUP INT TERM; {}) &", "for i in 1 2 3; do ({}) & done", "({}) & wait", "({}) & kill %1", "({}) & fg",
        "({}) 2>&1 | cat &", "({}) <&1 &", "({} >&2) &", "exec 7>&1; ({} >&7) &",
    )  # fmt: skip
    return _loose(draw, mark, draw.choice(frames).format(late))


def _descriptors(draw: random.Random, mark: str) -> Line:
    moves = [draw.choice(_DESCRIPTORS) for _ in range(draw.randint(1, 4))]
    moves.insert(draw.randrange(len(moves) + 1), say(mark))
    return _loose(draw, mark, "; ".join(moves), spoils=True)


def _spoiling(draw: random.Random, mark: str) -> Line:
    return _loose(
        draw, mark, f"{say(mark)}; {'; '.join(draw.choice(_SPOILERS) for _ in range(draw.randint(1, 3)))}", spoils=True
    )


def _ending(draw: random.Random, mark: str) -> Line:
    return _loose(draw, mark, f"{draw.choice(('', say(mark) + '; '))}{draw.choice(_ENDS)}")


def _loose(draw: random.Random, mark: str, text: str, *, spoils: bool = False) -> Line:
    return Line(text, mark, draw.choice(TIMEOUTS_S), spoils=spoils or any(word in text for word in (*_SPOILERS, *_LATE, BOMB)))


_KINDS: tuple[tuple[Callable[[random.Random, str], Line], int], ...] = (
    (_honest, 25), (_words, 25), (_characters, 10), (_binary, 4), (_nested, 6), (_here, 6), (_huge, 2), (_flood, 3),
    (_background, 8), (_descriptors, 6), (_spoiling, 3), (_ending, 4),
)  # fmt: skip
_HARMLESS = (
    "true", "false", "cd /workdir", "cd /tmp", "x=1", "export Y=2", "ls /", "cat", "cat /etc/hostname", "echo é | wc -c",
    "for i in 1 2 3; do echo $i; done", "if [ -d /tmp ]; then echo d; fi", "f() { echo f; }; f", "read line",
    "sleep 0.01", "python3 -c 'print(1)'", "echo a >&2", "(echo sub; exit 3)", "cat <<E\nhere\nE", "no-such-command",
    "ls /none", "[[ a == b ]]",
)  # fmt: skip
_WORDS = (
    "echo a", "echo $RANDOM", "sleep 0.01", "sleep 9 &", "sleep 9", "cat", "true", "false", "read -t 0.1 x", "read x",
    "trap", "kill %1", "wait", "jobs", "fg", "bg", "disown -a", "eval", "source /dev/null", "command", "builtin",
    "alias ll=ls", "shopt -s extglob", "shopt -u extglob", "unset PATH", "PATH=", "PATH=/bin:/usr/bin", "f() { echo f; }",
    "f", "if true; then", "fi", "for i in 1 2; do", "done", "case x in", "esac", "{", "}", "(", ")", "((", "))", "[[",
    "]]", "<<E", "E", "'", '"', "`", "$(", "${", "$((", "\\", "#", "!", "|", "||", "&&", "&", ";", ";;", ">", "<", ">>",
    "2>&1", "<(echo p)", ">(cat)", "\n", "\t", "\r", "\x01", "\x1b[31m", "é", "\ufffd", "*", "~", "?", "=(", "$'\\x00'",
    "cd /", "cd /no", "umask 777", "times", "coproc cat", "time", "seq 100000", "printf '\\0\\n'", "IFS=x", "unset -f f",
    "return 5", "break", "continue 2", "shift 9", "suspend", "set +e", "set +m", "set +x", "select x in a b; do",
    "function g {", "local x", "declare -A m", "mapfile", "exec", "getopts",
    "python3 -c 'import os; os.write(255, b\"x\")'", "hash -r", "ulimit -a", "type echo", "$$", "${BASH_SOURCE[@]}",
    "caller 0",
)  # fmt: skip
_DESCRIPTORS = (
    "exec >/dev/null", "exec 1>&-", "exec 2>&-", "exec 0<&-", "exec 255<&-", "exec 10>&- 11>&- 12>&- 13>&-", "exec 5>&1",
    "exec 1>&2", "exec 2>&1", "exec 255</dev/null", "exec </dev/zero", "exec 254>&1 253<&0", "read -u 255 -t 0.1 x",
    "cat <&255", "echo x >&255", "for i in {3..255}; do eval \"exec $i>&-\"; done", "ls -l /proc/$$/fd",
    "cat /proc/$$/fd/*", "exec {a}>&1", "exec {a}>&-", "echo x > /proc/$$/fd/255", "echo x > /proc/$$/fd/10",
    "exec 3<>/dev/null 4>&3", "exec > >(cat)", "exec 2> >(cat >&2)",
)  # fmt: skip
_SPOILERS = (
    "set -e", "set -u", "set -x", "set -v", "set -f", "set -m", "set -n", "set -r", "set -t", "set -b", "set -k",
    "set -o posix", "set -o pipefail", "shopt -s expand_aliases", "alias echo=false", "echo() { false; }",
    "printf() { :; }", "enable -n echo", "enable -n printf", "trap '' INT TERM CHLD", "trap 'echo t' DEBUG",
    "trap 'echo e' ERR EXIT", "trap 'kill $$' DEBUG", "trap - DEBUG", "readonly IFS PATH PS1 BASH_ENV",
    "PROMPT_COMMAND='echo p'", "PS4=$(printf x)", "ulimit -n 20", "ulimit -u 5", "ulimit -f 1", "ulimit -v 40000",
    "ulimit -t 1", "kill -STOP $$", "exec -a x bash", "exec sh", "exec bash --norc", "exec -c bash", "set -o vi",
    "builtin() { :; }", "eval() { :; }", "command_not_found_handle() { printf huh; }",
    "trap 'exit 3' USR1; kill -USR1 $$", "declare -r BASHPID", "unset BASH_VERSION", "BASH_XTRACEFD=1", "set --",
    "shopt -s failglob", "shopt -s lastpipe", "LC_ALL=xx",
)  # fmt: skip
BOMB = ":(){ :|:& };:"  # what it leaves behind takes the processor from the commands of the next seconds
KILL_ALL = "kill -9 -1"  # all but the shell itself
_LATE = ("(sleep 0.1; kill -9 $$) &", "(sleep 0.4; kill -9 $$) &")  # they end the shell in the midst of a later line
_ENDS = (
    "exit", "exit 3", "exit 300", "logout", "exec true", "exec cat", "exec /no", "exec sleep 9", "kill -9 $$", "kill $$",
    "kill -HUP $$", "kill -INT $$", "kill -SEGV $$", "kill -PIPE $$", "kill -ABRT $$", KILL_ALL, "kill -TERM -1",
    "trap 'exit 9' EXIT; exit 4", "sleep 9", "while :; do :; done", "cat /dev/zero", "cat /dev/zero >/dev/null",
    "(trap '' TERM INT; sleep 9)", "read x; sleep 9", "sleep 0.2; exit 5", "(sleep 0.1; kill -9 $$) & sleep 9",
    *_LATE, BOMB, "f() { f; }; f", "kill -STOP $$",
    "kill -TSTP $$", "f() { exec bash -c true; }; f", "return", "set -e; false",
)  # fmt: skip
