"""Random command lines, broken and hostile: each is answered in time, and the session answers afterwards.

``KAROTTE_FUZZ_LINES`` plays more of them (5,000 take some twenty minutes), ``KAROTTE_FUZZ_SEED`` others.
"""

from __future__ import annotations

import os
import random
import re
import time

from as_user import needs_root
from host_load import host_waited_s
from host_session import host_shell
from shell_situations import MAX_WAITED_S

pytestmark = needs_root

LINES = int(os.environ.get("KAROTTE_FUZZ_LINES", "120"))
SEED = int(os.environ.get("KAROTTE_FUZZ_SEED", "1"))
TIMEOUT_S = 2.0
WORDS = (
    "echo a", "echo $RANDOM", "sleep 0.01", "sleep 9 &", "cat", "true", "false", "exit 3", "exec cat", "exec 5>&1",
    "exec >/dev/null", "exec 1>&-", "exec 2>&-", "exec 0<&-", "exec 255<&-", "exec 10>&- 11>&-", "read -u 255 -t 0.1 x",
    "read -t 0.1 x", "set -e", "set -u", "set -x", "set -v", "set -f", "set -m", "set -n", "set -o posix", "set +e", "trap",
    "trap '' INT TERM", "trap 'echo t' DEBUG", "trap 'echo e' ERR EXIT", "trap - DEBUG ERR", "kill %1", "kill -INT $$",
    "kill -9 $$", "kill -STOP $$", "kill -CHLD $$", "wait", "jobs", "fg", "bg", "disown -a", "eval", "source /dev/null",
    "command", "builtin", "alias ll=ls", "shopt -s expand_aliases extglob", "shopt -u extglob", "unset PATH", "PATH=",
    "f() { echo f; }", "f", "if true; then", "fi", "for i in 1 2; do", "done", "case x in", "esac", "{", "}", "(", ")",
    "((", "))", "[[", "]]", "<<E", "E", "'", '"', "`", "$(", "${", "$((", "\\", "#", "!", "|", "||", "&&", "&", ";", ";;",
    ">", "<", ">>", "2>&1", "<(echo p)", ">(cat)", "\n", "\t", "\r", "\x01", "\x1b[31m", "é", "\ufffd", "*", "~", "?", "=(",
    "$'\\x00'", "ulimit -n 20", "ulimit -u 5", "cd /", "cd /no", "umask 777", "times", "history", "coproc cat", "time",
    "python3 -c 'import os; os.write(255, b\"x\")'", "seq 100000", "head -c 100000 /dev/urandom", "printf '\\0\\n'",
    "readonly IFS", "IFS=x", "unset -f f", "return 5", "break", "continue 2", "shift 9", "logout", "suspend", "exec -a x true",
)  # fmt: skip


def random_line(draw: random.Random) -> str:
    return "".join(draw.choice(WORDS) + draw.choice(("", " ", "; ", "\n")) for _ in range(draw.randint(1, 7)))


def test_random_lines_are_answered_in_time_and_leave_a_usable_session() -> None:
    draw = random.Random(SEED)
    with host_shell() as (shell, _, work):
        for number in range(LINES):
            line = random_line(draw)
            began, waited_s = time.monotonic(), host_waited_s()
            shell.run(line, timeout_s=TIMEOUT_S, restart=False, limit_bytes=4096)
            took_s, waited_s = time.monotonic() - began, host_waited_s() - waited_s
            assert took_s <= TIMEOUT_S + 2.0 + min(waited_s, MAX_WAITED_S), (number, line, took_s, waited_s)
            mark = f"mark-{number}"
            answer = shell.run(f"/bin/echo {mark}", timeout_s=TIMEOUT_S, restart=False, limit_bytes=4096)
            if mark.encode() not in answer.output:  # the line may have broken the shell's own options or limits for good
                answer = shell.run(f"cd {work}; /bin/echo {mark}", timeout_s=TIMEOUT_S, restart=True, limit_bytes=4096)
                assert answer.output == f"{mark}\n".encode(), (number, line, answer)
            others = set(re.findall(rb"mark-\d+", answer.output)) - {mark.encode()}
            assert not others, (number, line, answer)
