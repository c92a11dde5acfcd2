"""What the shell tool must answer in each of these situations: data for the tests on this host and in real machines.

Each situation is played in a new shell that stands in an empty directory of its own. `out` is the exact output, or a
pattern for all of it when it is compiled; `note` is a word of what the session must say, None for silence.
"""

# ruff: noqa: E501 - a table is read by its columns
from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from host_load import host_waited_s

__all__ = ["SITUATIONS", "Answered", "Call", "Situation", "play"]


class Answered(Protocol):
    """What a call of the shell is answered."""

    output: bytes
    exit_code: int | None
    timed_out: bool
    cut_bytes: int
    note: str


@dataclass(frozen=True)
class Call:
    """One call and what it must be answered."""

    command: str
    out: str | re.Pattern[str] = ""
    code: int | None = 0
    timeout_s: float = 20.0
    restart: bool = False
    timed_out: bool = False
    note: str | None = None
    cut: bool = False


@dataclass(frozen=True)
class Situation:
    """A name that says the claim, and the calls, one after another."""

    name: str
    calls: tuple[Call, ...]


def _s(name: str, *calls: Call) -> Situation:
    return Situation(name, calls)


def _hang(command: str, out: str | re.Pattern[str] = "", note: str | None = None) -> Call:
    return Call(command, out, None, timeout_s=2.0, timed_out=True, note=note)


OK = Call("echo ok", "ok\n")
NEW = "new shell"
_ANY = re.compile(r"(?s).*")
_ERROR = re.compile(r"(?s)bash: .*")
_RETURNED = "x=kept; "

STATE = [
    _s("the directory carries over", Call("mkdir d; cd d"), Call("basename $PWD", "d\n")),
    _s("a variable carries over", Call("x=5"), Call("echo $x", "5\n")),
    _s("an exported variable reaches programs", Call("export Y=6"), Call("env | grep ^Y=", "Y=6\n")),
    _s("a function carries over", Call("f() { echo f-$1; }"), Call("f 3", "f-3\n")),
    _s("an array carries over", Call("a=(1 2 3)"), Call('echo "${a[@]}"', "1 2 3\n")),
    _s("an option carries over", Call("set -u"), Call("[[ $- == *u* ]] && echo set", "set\n")),
    _s("a shell option carries over", Call("shopt -s nullglob"), Call("echo none*", "\n")),
    _s(
        "an alias is used by the next call",
        Call("shopt -s expand_aliases; alias hi='echo hello'"),
        Call("hi", "hello\n"),
    ),
    _s("umask carries over", Call("umask 077"), Call("touch f; stat -c %a f", "600\n")),
    _s("the exit code carries over", Call("(exit 7)", code=7), Call("echo $?", "7\n")),
    _s("an opened descriptor carries over", Call("exec 5>f; echo a >&5"), Call("echo b >&5; cat f", "a\nb\n")),
    _s("a limit carries over", Call("ulimit -S -n 100"), Call("ulimit -n", "100\n")),
    _s("a restart gives a new shell", Call("x=1"), Call("echo [$x]", "[]\n", restart=True)),
    _s("a restart without a command says so", Call("", restart=True, note=NEW)),
    _s("the positional parameters are the student's", Call("set -- a b"), Call("echo $# $2", "2 b\n")),
    _s("the shell's pid stays", Call("p=$$"), Call("[ $p = $$ ] && echo same", "same\n")),
]
RESULTS = [
    _s("nothing", Call("")),
    _s("blanks only", Call("  \n\t \n")),
    _s("a comment only", Call("# nothing\n  # more")),
    _s("a comment behind a command", Call("echo a # b", "a\n")),
    _s("true and false", Call("true"), Call("false", code=1)),
    _s("an exit code of 255", Call("(exit 255)", code=255)),
    _s("a command that is not there", Call("nosuch", "bash: line 1: nosuch: command not found\n", 127)),
    _s("a file that can't be executed", Call("touch f; ./f", "bash: line 1: ./f: Permission denied\n", 126)),
    _s("a program killed by a signal", Call("bash -c 'kill -9 $$'", _ANY, 137)),
    _s("a program that segfaults", Call("bash -c 'kill -SEGV $$'", _ANY, 139)),
    _s("the code of a pipeline is its last one's", Call("false | true"), Call("true | false", code=1)),
    _s("pipefail counts", Call("set -o pipefail; false | true", code=1)),
    _s("standard error comes too, in order", Call("echo a; echo b >&2; echo c", "a\nb\nc\n")),
    _s("line numbers begin anew", Call("true"), Call("true\nnosuch", "bash: line 2: nosuch: command not found\n", 127)),
    _s("several lines", Call("echo a\necho b\n\necho c", "a\nb\nc\n")),
    _s("carriage returns before line ends are bash's own business", Call("echo a\r\n", "a\r\n")),
    _s("a here-document", Call("cat <<EOF\nx $((1+1))\nEOF", "x 2\n")),
    _s("a quoted here-document without an end of line", Call("cat <<'EOF'\n$x\nEOF", "$x\n")),
    _s("a here-string", Call("cat <<< abc", "abc\n")),
    _s("process substitution", Call("diff <(echo a) <(echo a) && echo same", "same\n")),
    _s("a loop over several lines", Call("for i in 1 2; do\necho $i\ndone", "1\n2\n")),
    _s("a function of several lines and its call", Call("f() {\n echo in\n}\nf", "in\n")),
    _s("a group", Call("{ echo a; echo b; } | tac", "b\na\n")),
    _s("a case with braces in quotes", Call("case '}' in '}') echo brace;; esac", "brace\n")),
    _s("extended globs when they are asked for", Call("touch a b; shopt -s extglob\necho !(a)", "b\n")),
    _s("a negated subshell is no glob", Call("!(false) && echo yes", "yes\n")),
    _s("text of another alphabet", Call("echo 'Möhre 胡萝卜'", "Möhre 胡萝卜\n")),
    _s("a long command", Call("x=" + "a" * 60000 + "; echo ${#x}", "60000\n")),
    _s("no output and no end of line", Call("printf abc", "abc")),
    _s("a backslash at the end", Call("echo back\\", "back\n")),
    _s("division by zero", Call("echo $((1/0))", _ERROR, 1), OK),
    _s("a bad substitution", Call("echo ${x!y}", _ERROR, 1), OK),
    _s("a redirection that fails", Call("echo a > /no/such/file", _ERROR, 1), OK),
    _s("writing to /dev/stdout", Call("echo a > /dev/stdout; echo b > /dev/stderr", "a\nb\n")),
    _s("no terminal", Call("[ -t 0 ] || [ -t 1 ] || echo none", "none\n")),
]
INPUT = [
    _s("cat gets the end of input", Call("cat; echo after", "after\n")),
    _s("read gets the end of input", Call("read x; echo $?", "1\n")),
    _s("a program that reads all gets nothing", Call("python3 -c 'import sys; print(len(sys.stdin.read()))'", "0\n")),
    _s("a shell inside gets nothing to run", Call("bash; sh; echo through", "through\n")),
    _s("a thief learns nothing", Call("cat > stolen; tee -a stolen < /dev/stdin; wc -c < stolen", "0\n"), OK),
    _s("input of one's own still works", Call("echo abc | cat", "abc\n"), Call("cat < /dev/null", "")),
    _s("redirected input does not outlive the call", Call("echo l > f; exec < f"), Call("read x; echo [$x]", "[]\n")),
]
ENDS = [
    _s("exit", Call("exit 3", code=3, note=NEW), OK),
    _s("exit after output", Call("echo a; exit 4", "a\n", 4, note=NEW), OK),
    _s("exit 0", Call("exit", note=NEW), Call("pwd", re.compile(r"/(workdir)?\n"))),
    _s("exec of a program that ends", Call("exec /bin/true", note=NEW), OK),
    _s("exec of a program that fails", Call("exec /bin/false", code=1, note=NEW), OK),
    _s("exec of a program that prints", Call("exec echo hi", "hi\n", note=NEW), OK),
    _s("exec of a reader", Call("exec cat", note=NEW), OK),
    _s("exec of another bash", Call("exec -c -a '' /bin/bash --noprofile --norc", note=NEW), OK),
    _s("exec of nothing that exists", Call("exec /no/such", _ERROR, 127, note=NEW), OK),
    _s("exec of a program that hangs", _hang("exec sleep 1000", note=NEW), OK),
    _s("the shell kills itself", Call("kill -9 $$", code=137, note=NEW), OK),
    _s("the shell terminates itself", Call("kill -TERM $$; sleep 5", code=143, note=NEW), OK),
    _s("the shell interrupts itself", Call("kill -INT $$; sleep 5", _ANY, 130, note=NEW), OK),
    _s("the shell crashes", Call("kill -SEGV $$; sleep 5", code=139, note=NEW), OK),
    _s(
        "a background job kills the idle shell",
        Call("(sleep 0.2; kill -9 $$) &"),
        Call("sleep 0.5", _ANY, 137, note=NEW),
        OK,
    ),
    _s("the shell ends with option e", Call("set -e; false; echo no", code=1, note=NEW), OK),
    _s("option e in a later call", Call("set -e"), Call("false", code=1, note=NEW), OK),
    _s("an unset variable with option u", Call("set -u; echo ${nothing}", _ERROR, 1, note=NEW), OK),
    _s("option t", Call("set -t; echo a", "a\n", note=NEW), OK),
    _s("a trap at the end is run", Call("trap 'echo bye' EXIT; exit 2", "bye\n", 2, note=NEW), OK),
    _s("a trap at the end that hangs", _hang("trap 'sleep 1000' EXIT; exit 3", note=NEW), OK),
    _s("state is gone after the end", Call("x=1; exit", note=NEW), Call("echo [$x]", "[]\n")),
]
TIME = [
    _s("sleep", _hang(_RETURNED + "sleep 1000"), Call("echo $x", "kept\n")),
    _s("output before the timeout is kept", _hang("echo early; sleep 1000", re.compile("early\n(Terminated\n)?")), OK),
    _s("a loop in the shell itself", _hang(_RETURNED + "while :; do :; done"), Call("echo $x", "kept\n")),
    _s("a loop of programs", _hang(_RETURNED + "while true; do sleep 0.1; done", _ANY), Call("echo $x", "kept\n")),
    _s("a loop in a function", _hang(_RETURNED + "f() { while :; do :; done; }; f"), Call("echo $x", "kept\n")),
    _s("a loop in eval", _hang(_RETURNED + "eval 'while :; do :; done'"), Call("echo $x", "kept\n")),
    _s("a loop in a substitution", _hang(_RETURNED + "y=$(while :; do :; done)", _ANY), Call("echo $x", "kept\n")),
    _s("a pipeline", _hang(_RETURNED + "sleep 1000 | cat", _ANY), Call("echo $x", "kept\n")),
    _s(
        "a deaf program",
        _hang(_RETURNED + "bash -c \"trap '' TERM INT HUP; while :; do :; done\"", _ANY),
        Call("echo $x", "kept\n"),
    ),
    _s("a deaf shell and program", _hang("trap '' TERM INT HUP; sh -c 'while :; do :; done'", _ANY), OK),
    _s("wait for a background job", _hang(_RETURNED + "sleep 1000 & wait", _ANY), Call("echo $x", "kept\n")),
    _s("a stopped shell", _hang("kill -STOP $$", note=NEW), OK),
    _s("a stopped program", _hang("bash -c 'kill -STOP $$'", _ANY), OK),
    *(
        _s(f"a pipe that nobody {what}", Call("x=kept; mkfifo p"), _hang(command), Call("echo $x", "kept\n"))
        for what, command in (
            ("writes to", "read y < p"),
            ("reads from", "echo a > p"),
            ("writes a line into", "exec 8<>p; read -u 8 y"),
            (
                "empties",
                "exec 8<>p; while echo aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa >&8; do :; done",
            ),
        )
    ),
    *(
        _s(
            f"a job of an earlier call outlives {wait!r}",
            Call("x=kept; sleep 77 & p=$!"),
            _hang(wait),
            Call("echo $x; kill $p && echo alive", "kept\nalive\n"),
        )
        for wait in ("wait", "wait $p", "wait -n", "wait -f $p", "wait %1")
    ),
    _s(
        "a job outlives the call that began it and waits for it",
        _hang(_RETURNED + "sleep 77 & p=$!; wait"),
        Call("echo $x; kill $p && echo alive", "kept\nalive\n"),
    ),
    _s("a program with a child", _hang("bash -c 'sleep 1234; echo x'", _ANY), Call("pgrep -x -f 'sleep 1234'", code=1)),
    _s(
        "a background job outlives the timeout",
        Call("sleep 77 & p=$!"),
        _hang("sleep 1000", _ANY),
        Call("kill $p && echo alive", "alive\n"),
    ),
    _s(
        "a job begun in the call outlives the timeout",
        _hang("sleep 78 & p=$!; sleep 1000", _ANY),
        Call("kill $p && echo alive", "alive\n"),
    ),
    _s("a short timeout", Call("sleep 5", _ANY, None, timeout_s=0.2, timed_out=True), OK),
    _s("a timeout that is not reached", Call("sleep 0.2; echo a", "a\n", timeout_s=15.0)),
]
JOBS = [
    _s("a background job returns at once", Call("sleep 100 &"), Call("kill %1")),
    _s("a background job with output", Call("sleep 100 & echo started", "started\n"), Call("kill %1")),
    _s("later output does not leak", Call("(sleep 0.4; echo LEAK) &"), Call("sleep 1; echo mine", "mine\n")),
    _s("later errors do not leak", Call("(sleep 0.4; echo LEAK >&2) &"), Call("sleep 1; echo mine", "mine\n")),
    _s(
        "a flood in the background does not leak",
        Call("yes flood & sleep 1", _ANY, cut=True),
        Call("sleep 0.5; echo mine", "mine\n"),
        Call("kill %1; wait", _ANY),
    ),
    _s(
        "who noted the name of a call's pipe does not reach a later call",
        Call("p=$(readlink /proc/self/fd/2); (sleep 0.4; echo LEAK > $p) > /dev/null 2>&1 &"),
        Call("sleep 1; echo mine", "mine\n"),
    ),
    _s(
        "who opened a call's pipe after its end does not reach a later call",
        Call("p=$(readlink /proc/self/fd/2); (sleep 0.2; exec > $p; sleep 0.5; echo LEAK) > /dev/null 2>&1 &"),
        Call("true"),
        Call("sleep 1; echo mine", "mine\n"),
    ),
    _s("a job's pid is known", Call("sleep 100 &"), Call("kill $! && echo killed", "killed\n")),
    _s("wait for a job of an earlier call", Call("(sleep 0.3; exit 9) &"), Call("wait $!", code=9)),
    _s(
        "a daemon in a session of its own",
        Call("setsid sleep 79 > /dev/null 2>&1 &"),
        OK,
        Call("pkill -u $UID -f 'sleep 79'"),
    ),
    _s("nohup", Call("nohup sleep 80 > log 2>&1 &"), Call("kill $!")),
    _s("job control", Call("set -m; sleep 100 & echo a", "a\n"), Call("kill %1", _ANY)),
    _s(
        "a coprocess",
        Call("coproc { cat; }; echo a >&${COPROC[1]}; read -u ${COPROC[0]} x; echo $x", "a\n"),
        Call("kill $COPROC_PID"),
    ),
    _s("disown", Call("sleep 81 & disown; jobs"), Call("pkill -u $UID -f 'sleep 81'")),
    _s("many jobs", Call("for i in $(seq 50); do sleep 0.2 & done; wait; echo done", "done\n")),
]
SYNTAX = [
    _s(f"unfinished: {text!r}", Call(text, _ERROR, 2, timeout_s=10.0), OK)
    for text in (
        "echo 'open", 'echo "open', 'echo "open $(', "echo `open", "cat <<EOF\nbody", "if true; then", "f() {", "echo ${x",
        "case x in", "((", "while true; do", "(", "for i in 1 2", "[[ a", "echo a |", "echo a &&", "x=(1 2",
        "[[", "[[ a == b", "[[ a &&", "[[ (", "[[ ! -f x", "[[ -z $x", "[[ a =~ ^(b|c)$", "if [[", "a() [[", '[[ a == "]]"', "[[ a == \\\n", "# don't\n[[ a == b\n# won't",
    )
]  # fmt: skip
SYNTAX += [
    _s(f"nothing runs behind an error: {text!r}", Call("x=kept"), Call(text, _ERROR, 2, timeout_s=10.0), Call("echo $x; ls", "kept\n"))
    for text in (
        "fi\n{ touch made", "echo (\n{ touch made", "fi\n! { touch made", "fi\nfor i in 1 2; { touch made$i", "fi\nfunction g { touch made",
        "fi\nf() { touch made", "fi\n: ${x", "echo a; }\\\n\ntouch made; echo c\n{ echo b", "echo a; }\\\n; { echo b",
    )
]  # fmt: skip
SYNTAX += [
    _s(f"wrong: {text!r}", Call(text, _ERROR, 2, timeout_s=10.0), OK)
    for text in ("}", ")", ";;", "done", "fi", "echo a; }", "echo a; } ; { echo b", "a ; ; b", "| a", "&& a", "echo (a)", "} </dev/null; echo a; {")
]  # fmt: skip
SYNTAX += [
    _s(
        "state survives a syntax error",
        Call("x=1; y=(1 2)"),
        Call("echo 'open", _ERROR, 2),
        Call("echo $x ${y[1]}", "1 2\n"),
    ),
    _s("a syntax error is in the exit code", Call("fi", _ERROR, 2), Call("echo $?", "2\n")),
    _s("many names in one line", Call('echo "' + " ".join(f"$variable{n}" for n in range(30)) + '" \\n', " " * 29 + " n\n")),
    _s("very many lines", Call("\n" * 100_000 + "if true; then echo b; fi", "b\n")),
    _s("very many options", Call("echo " + "';shopt -s '" * 15_000 + " | wc -c", "150001\n")),
    _s("the line of an error is named", Call("echo a\nfi", re.compile(r"(?s)bash: line 2: .*"), 2)),
    _s(
        "an alias that opens a block",
        Call("shopt -s expand_aliases; alias foo='if true; then'"),
        Call("foo", _ERROR, 2),
        OK,
    ),
]
FORGERY = [
    _s("printed end marks", Call("echo '@@END 0'; printf '__END__:0\\n'; sleep 0.2; echo last", "@@END 0\n__END__:0\nlast\n"), OK),
    _s("marks to every descriptor", Call("for n in 3 4 5 10 11 63 200 255; do echo '@@END 0' >&$n; done 2>/dev/null; sleep 0.3; echo last", re.compile("(?s).*last\n")), OK),
    _s("functions instead of builtins", Call("for n in $(compgen -b | grep -vE '^(eval|\\[|:|\\.)$'); do eval \"$n() { :; }\"; done"), Call("/usr/bin/env printf 'out\\n'", "out\n")),
    _s("aliases instead of commands", Call("shopt -s expand_aliases; for n in printf exec read true exit; do alias $n='false #'; done"), OK),
    _s("disabled builtins", Call("enable -n echo printf read exit true cd"), Call("/bin/echo a", "a\n"), Call("builtin pwd > /dev/null")),
    _s("a prompt command", Call("PROMPT_COMMAND='exit 4'; PS1='$(exit 4)'"), OK, OK),
    _s("a start-up file", Call("echo 'exit 9' > rc; export BASH_ENV=$PWD/rc ENV=$PWD/rc"), Call("echo ok", "ok\n", restart=True)),
    _s("read-only variables", Call("readonly PATH IFS PS4 LINENO HOME"), OK, Call("cd /; pwd", "/\n")),
    _s("a digit as separator", Call("IFS=0123456789/"), OK),
    _s("option x", Call("set -x; echo a", "+ echo a\na\n"), Call("set +x", "+ set +x\n")),
    _s("option v", Call("set -v", re.compile(r"\n?")), Call("echo a", re.compile(r"(?s).*a\n\n?")), Call("set +v", _ANY), OK),
    _s("option n", Call("set -n", note=NEW), OK),
    _s("a restricted shell", Call("set -r"), OK, Call("cd /tmp", _ERROR, 1), OK),
    _s("a job of a restricted shell", Call("x=1; set -r"), Call("echo $x", "1\n"), Call("(sleep 1; echo late) & echo a", "a\n", note=NEW), Call("sleep 2; echo b", "b\n")),
    _s("posix, no globs, keywords", Call("set -o posix; set -f; set -k; set -C"), OK),
    _s("a debug trap that exits", Call("trap 'exit 5' DEBUG"), Call("echo a", code=5, note=NEW), OK),
    _s("traps on every signal", Call("trap 'echo caught' INT TERM HUP CHLD USR1 ERR; false", re.compile("(?s).*"), 1), Call("true", re.compile(r"(caught\n)*"))),
    _s("an error trap", Call("trap 'echo err' ERR"), Call("false", "err\n", 1), OK),
    _s("a caught signal from outside", Call("trap 'echo got' USR1; kill -USR1 $$; echo a", "got\na\n"), OK),
    _s("standard descriptors closed", Call("exec 0<&- 1>&- 2>&-"), OK),
    _s("output redirected for good", Call("exec > /dev/null 2>&1"), OK),
    _s("every descriptor closed", Call("for i in $(seq 3 300); do eval \"exec $i>&-\"; done 2>/dev/null"), OK, OK),
    _s("the script read away", Call("read -u 255 -n 1 q; sleep 0.3; echo a", "a\n"), OK),
    _s("the script read and waited for", Call("read -t 0.5 -u 255 q; read -t 0.5 -u 255 q; echo b", re.compile("b\n")), OK),
    _s("the script's pipe can't be opened again", Call("cat /proc/$$/fd/255", re.compile(r"(?s).*Permission denied\n"), 1), OK),
    _s("no descriptor to spare", Call("ulimit -n 3"), OK, Call("echo wide", "wide\n", restart=True)),
    *(_s(f"{n} descriptors", Call(f"ulimit -n {n}"), OK, OK) for n in (4, 5, 6, 8)),
    *(_s(f"{n} descriptors in all", Call(f"ulimit -n {n}", _ANY, note=NEW), OK) for n in (0, 1, 2)),
    _s("no descriptors and no words", Call("exec 2> /dev/null; ulimit -n 0", _ANY), Call("echo a", _ANY, 1, note=NEW), OK),
    _s("an alias instead of the brace", Call("shopt -s expand_aliases; alias '{'='echo hijack;'"), Call("if true; then echo a; fi", _ANY, 2, note=NEW), OK),
    _s("an error where aliases are used", Call("shopt -s expand_aliases; :() { echo run; }"), Call("fi", _ERROR, 2), Call("echo $?", "2\n")),
    _s("an alias instead of the last brace", Call("shopt -s expand_aliases; alias '}'='echo hijack'"), Call("echo ok (", _ERROR, 2), OK),
    _s("a prompt command behind an open quote", Call("PROMPT_COMMAND='y=1'"), Call("echo 'open", _ERROR, 2), Call("echo [$y]", "[]\n")),
    _s("a prompt command that exits behind an open quote", Call("PROMPT_COMMAND='exit 4'"), Call("echo 'open", _ERROR, 2), OK),
    _s("option v and a condition", Call("set -v", re.compile(r"\n?")), Call("if true; then echo a; fi", re.compile(r"(?s)(?!.*null).*a\n\n?"))),
    _s("no process to spare", Call("ulimit -u 1"), OK),
    _s("no files to write", Call("ulimit -f 0"), OK),
    _s("a directory that is gone", Call("mkdir d; cd d; rmdir ../d"), OK, Call("cd ..; echo back", "back\n")),
    _s("an empty path", Call("PATH="), OK, Call("ls", _ERROR, 127), OK),
    _s("loader variables", Call("export LD_PRELOAD=/no/such.so LD_LIBRARY_PATH=$PWD"), OK),
]  # fmt: skip
OUTPUT = [
    _s("much of it is cut in the middle", Call("seq 1 200000; echo TAIL", re.compile(r"(?s)1\n2\n.*\[\.\.\. \d+ bytes cut \.\.\.\]\n.*200000\nTAIL\n"), cut=True), OK),
    _s("one endless line", Call("head -c 3000000 /dev/zero | tr '\\0' z; echo; echo TAIL", re.compile(r"(?s)z+\n\[\.\.\. \d+ bytes cut \.\.\.\]\nz+\nTAIL\n"), cut=True)),
    _s("much on standard error", Call("seq 1 200000 >&2", re.compile(r"(?s)1\n.*200000\n"), cut=True)),
    _s("binary output", Call("printf 'a\\0b\\377c\\n'", "a\0b\udcffc\n"), OK),
    _s("escapes come through raw", Call("printf '\\033[31mred\\033[0m\\n'", "\x1b[31mred\x1b[0m\n")),
]  # fmt: skip

SITUATIONS: list[Situation] = [*STATE, *RESULTS, *INPUT, *ENDS, *TIME, *JOBS, *SYNTAX, *FORGERY, *OUTPUT]


def play(situation: Situation, bash: Callable[[str, float, bool], Answered], work: str) -> None:
    """Play the calls in a new shell in the empty directory `work`, which is made; AssertionError names the call.

    `bash` takes command, timeout_s and restart, and answers with an object like `sandbox.contract.CommandResult`.
    """
    setup = bash(f"chmod -R u+rwx {work} 2>/dev/null; rm -rf {work}; mkdir -p {work} && cd {work}", 20.0, True)
    assert setup.exit_code == 0, setup
    for number, call in enumerate(situation.calls):
        began, waited_s = time.monotonic(), host_waited_s()
        got = bash(call.command, call.timeout_s, call.restart)
        took_s, waited_s = time.monotonic() - began, host_waited_s() - waited_s
        told = f"{situation.name!r}, call {number} ({call.command[:100]!r}): {got!r:.1500}"
        text = got.output.decode("utf-8", "surrogateescape")
        assert call.out.fullmatch(text) if isinstance(call.out, re.Pattern) else call.out == text, told
        assert got.exit_code == call.code, told
        assert got.timed_out == call.timed_out, told
        assert (got.cut_bytes > 0) == call.cut, told
        assert (call.note in got.note) if call.note else not got.note, told
        assert took_s <= call.timeout_s + 2.0 + min(waited_s, MAX_WAITED_S), told


MAX_WAITED_S = 8.0  # an answer that waits for bash's own quarter of a minute is late on every host
