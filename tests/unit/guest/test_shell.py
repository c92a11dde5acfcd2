"""What the table of situations can't say: full process tables, cancelled calls, lost shells, and bash's own memory."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from as_user import needs_root
from host_load import within
from host_session import HostProcess, HostSession, host_shell, run, sleepers

from karotte_gym.guest.calls import Call, Machine, Refused
from karotte_gym.guest.shell import METHODS, Answer, ShellSession
from karotte_gym.guest.shell_foreground import Interruption
from karotte_gym.guest.shell_memory import BASH, VARIABLES, BashMemory, NotBash, symbol_offsets
from karotte_gym.guest.shell_pipes import MAX_DRAINED
from karotte_gym.guest.shell_process import Shell

pytestmark = needs_root


def no_part(_part: dict[str, Any], _body: bytes) -> None:
    raise AssertionError("the shell answers in one piece")


def test_bash_exports_the_variables_that_are_read() -> None:
    offsets, _ = symbol_offsets(BASH)
    assert set(offsets) == set(VARIABLES)


def test_memory_of_another_program_is_not_taken_for_bash() -> None:
    with subprocess.Popen(["/bin/sleep", "60"]) as process:
        try:
            with pytest.raises(NotBash):
                BashMemory(process.pid)
        finally:
            process.kill()


def test_memory_after_exec_is_not_read_as_before() -> None:
    argv = [BASH, "--norc", "-c", "read x; exec sleep 60"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE) as process:
        try:
            deadline = time.monotonic() + 30
            while Path(f"/proc/{process.pid}/comm").read_text() != "bash\n":
                assert time.monotonic() < deadline
            memory = BashMemory(process.pid)
            assert memory.read()["restricted"] == 0
            assert process.stdin is not None
            process.stdin.write(b"\n")
            process.stdin.flush()
            with pytest.raises(NotBash):
                while time.monotonic() < deadline:
                    memory.read()
            with pytest.raises(NotBash):
                memory.set("interactive", 1)
            memory.close()
        finally:
            process.kill()


def test_an_exit_code_is_not_taken_from_a_look_that_took_long(
    made: tuple[ShellSession, HostSession, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent may be stopped between two looks into bash's memory: the code of the last command, the end of this one."""
    shell, _, work = made
    run(shell, "true")
    look = BashMemory.read
    codes: list[tuple[int, int]] = []
    os.mkfifo(f"{work}/go")
    os.chmod(f"{work}/go", 0o666)

    def slow_look(memory: BashMemory) -> dict[str, int]:
        early, end = look(memory), time.monotonic() + 30
        if early["executing"]:  # only then may the command end
            os.write(go, b"\n")
        while (late := look(memory))["executing"] and time.monotonic() < end:
            time.sleep(0.01)
        codes.append((early["last_command_exit_value"], late["last_command_exit_value"]))
        return {**late, "last_command_exit_value": early["last_command_exit_value"]}

    with open(f"{work}/go", "r+b", buffering=0) as fifo:
        go = fifo.fileno()
        monkeypatch.setattr(BashMemory, "read", slow_look)
        command = f"exec >&- 2>&-; /bin/sh -c 'read line < {work}/go'; (exit 7)"
        assert run(shell, command, timeout_s=60.0).exit_code == 7
    assert (0, 7) in codes  # such a look was taken, and was not believed


@pytest.mark.parametrize(
    "command",
    ["a ) b\ntouch {}", "a; do\ntouch {}\ntouch {}", "do <<E\ntouch {}\nE\ntouch {}", "a | | b; cat <<E\ntouch {}\nE\ntouch {}",
     "touch {}\na ) b\ntouch {}", "touch {}\n'", "touch {}\ncat <<E\ntouch {}"],
)  # fmt: skip
def test_of_a_command_that_is_none_no_line_is_run(made: tuple[ShellSession, HostSession, str], command: str) -> None:
    shell, _, work = made
    mark = Path(work, "mark")
    answer = run(shell, command.replace("{}", str(mark)))
    assert answer.exit_code == 2 and not mark.exists(), answer
    answer = run(shell, f"if true; then\ntouch {mark}; echo ok; fi")
    assert (answer.output, answer.exit_code, answer.note) == (b"ok\n", 0, "") and mark.exists()


def test_a_full_process_table_is_answered_and_later_calls_work(made: tuple[ShellSession, HostSession, str]) -> None:
    shell, session, _ = made
    session.refuse = True
    answer = run(shell, "echo a", timeout_s=0.5)
    assert answer.exit_code is None and "no shell could be started" in answer.note
    session.refuse = False
    assert run(shell, "echo b").output == b"b\n"


def test_a_command_without_the_end_of_its_here_document_says_that_it_was_not_run(
    made: tuple[ShellSession, HostSession, str],
) -> None:
    """Bash itself runs it with a warning, so that the warning alone would say that it was run."""
    shell, _, _ = made
    answer = run(shell, "cat <<E\n  E")
    assert answer.exit_code == 2 and b"warning: here-document" in answer.output and b"was not run" in answer.output


def test_a_check_of_the_syntax_keeps_to_the_time_of_the_call(
    made: tuple[ShellSession, HostSession, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shell, session, _ = made
    run(shell, "true")
    spawn = session.spawn

    def slow(_argv: list[str], **options: Any) -> HostProcess:
        return spawn(["/bin/sleep", "60"], **options)

    monkeypatch.setattr(session, "spawn", slow)
    start = time.monotonic()
    answer = run(shell, "echo $(a; echo `b`)", timeout_s=0.5)
    assert time.monotonic() < start + 30, "and not until the check ends by itself"
    assert answer.timed_out and "was not run" in answer.note
    monkeypatch.undo()
    assert run(shell, "echo a").output == b"a\n"


def test_room_is_made_for_a_shell_that_does_not_get_ready(
    made: tuple[ShellSession, HostSession, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a bomb of forks leaves is a session without a shell for the rest of the episode, unless somebody ends it."""
    shell, session, work = made
    monkeypatch.setattr("karotte_gym.guest.shell_supply.PATIENCE_S", 4.0)  # far over the short calls below
    assert run(shell, "sleep 1000 & echo $! > " + f"{work}/pid; (exit 3)").exit_code == 3
    sleeper = int(Path(work, "pid").read_text())
    session.refuse = True
    run(shell, "exit 4")
    for _ in range(2):  # patience is of several calls, for one may be short
        assert "no shell could be started" in run(shell, "echo a", timeout_s=0.3).note
    assert Path(f"/proc/{sleeper}").exists()
    room_made = threading.Thread(target=_wait_for_the_end_of, args=(sleeper, session))
    room_made.start()
    answer = run(shell, "echo b", 60.0)
    room_made.join()
    assert answer.output == b"b\n" and "all processes of the session were ended" in answer.note
    assert run(shell, "echo c").note == ""


@pytest.mark.parametrize(("share", "ended"), [(0.9, False), (0.1, True)], ids=["it runs", "others run"])
def test_nothing_is_ended_for_a_shell_that_is_slow_by_itself(
    made: tuple[ShellSession, HostSession, str], monkeypatch: pytest.MonkeyPatch, share: float, ended: bool
) -> None:
    """On a host that gives the machine little, a new shell takes long with nobody in its way."""
    shell, session, _ = made
    monkeypatch.setattr("karotte_gym.guest.shell_supply.PATIENCE_S", 0.2)
    monkeypatch.setattr("karotte_gym.guest.shell_supply.ShellSupply._others_run", lambda _: True)
    monkeypatch.setattr(Shell, "share_of_the_processor", lambda _: share)
    run(shell, "sleep 1000 & exit 4")
    ready_at = time.monotonic() + 2.0
    settle = Shell.settle

    def slow(self: Shell, deadline: float) -> bool:
        time.sleep(max(0.0, min(deadline, ready_at) - time.monotonic()))
        return time.monotonic() >= ready_at and settle(self, deadline)

    monkeypatch.setattr(Shell, "settle", slow)
    answer = run(shell, "echo b", 60.0)
    assert answer.output == b"b\n" and ("all processes" in answer.note) is ended
    assert within(30, lambda: bool(sleepers(session)) is not ended)


def test_an_early_start_that_fails_is_not_tried_again(
    made: tuple[ShellSession, HostSession, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The session may have ended meanwhile, and each try takes the name of the next session's script."""
    shell, session, _ = made
    tries = []

    def refuse(*_argv: Any, **_options: Any) -> HostProcess:
        tries.append(1)
        raise BlockingIOError(11, "no process left")

    monkeypatch.setattr(session, "spawn", refuse)
    shell.start()
    assert len(tries) == 1
    monkeypatch.undo()
    assert run(shell, "echo a").output == b"a\n"


def test_a_call_waits_for_what_is_done_between_two(
    made: tuple[ShellSession, HostSession, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine that gets little of its host may need seconds to start a shell, and nobody may lose a call to that."""
    shell, _, _ = made
    monkeypatch.setattr("karotte_gym.guest.shell.CANCEL_TIMEOUT_S", 0.1)
    with ThreadPoolExecutor(1) as pool, contextlib.ExitStack() as work:
        assert work.enter_context(shell._between_calls())
        answer = pool.submit(run, shell, "echo b")
        time.sleep(1.0)
        assert not answer.done()
        work.close()
        assert (answer.result(30).output, answer.result().note) == (b"b\n", "")
    assert run(shell, "echo c").note == ""


@pytest.mark.parametrize("waits", [False, True])
def test_a_host_that_runs_no_shell_takes_no_time_of_the_first_command(monkeypatch: pytest.MonkeyPatch, waits: bool) -> None:
    """Nothing of the student's has run yet: a command that finds no shell in time would be lost through no fault of its own."""
    settle, ready_at = Shell.settle, time.monotonic() + 1.5

    def late(shell: Shell, deadline: float) -> bool:
        time.sleep(max(0.0, min(deadline, ready_at) - time.monotonic()))
        return time.monotonic() >= ready_at and settle(shell, deadline)

    monkeypatch.setattr(Shell, "settle", late)
    with host_shell() as (shell, _, _):
        if waits:
            shell.start()
        answer = run(shell, "echo done", 1.0)
    lost = Answer(timed_out=True, note="no shell was ready in time, so the command was not run")
    assert answer == (Answer(b"done\n", 0) if waits else lost)


def test_a_shell_of_which_nothing_is_known_gets_no_other_command(
    made: tuple[ShellSession, HostSession, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command whose end went wrong goes on, and what it and bash then say must not come in a later result."""
    shell, _, work = made
    run(shell, "x=lost")
    with monkeypatch.context() as patched:
        patched.setattr(Interruption, "press", mock.Mock(side_effect=OSError("no end")))
        with pytest.raises(OSError, match="no end"):
            run(shell, f"while [ ! -e {work}/go ]; do /bin/sleep 0.1; done; echo late", 0.3)
    Path(work, "go").touch()
    assert run(shell, "echo ${x-gone}").output == b"gone\n"
    assert run(shell, "echo b").output == b"b\n"


@pytest.mark.parametrize(
    ("seen", "looks"),
    [([(20, 100)], None), ([(20, 100), (20, 60), (9, 30), (2, 20), (1, 19)], 4), ([(3, 9)], 1)],
    ids=["nobody dies", "they die", "few"],
)
def test_the_dying_are_waited_for_and_not_those_who_live_on(
    made: tuple[ShellSession, HostSession, str],
    monkeypatch: pytest.MonkeyPatch,
    seen: list[tuple[int, int]],
    looks: int | None,
) -> None:
    shell, _, _ = made
    asked = []

    def threads() -> tuple[int, int]:
        asked.append(seen[min(len(asked), len(seen) - 1)])
        return asked[-1]

    monkeypatch.setattr("karotte_gym.guest.shell_supply.threads", threads)
    began = time.monotonic()
    shell._supply._let_them_die(began + 600)
    assert looks is None or len(asked) == looks
    assert time.monotonic() < began + 300, "of six hundred seconds that there were"


def _wait_for_the_end_of(pid: int, session: HostSession) -> None:
    while Path(f"/proc/{pid}").exists():
        time.sleep(0.01)
    session.refuse = False


@pytest.mark.parametrize(
    "wrong", ["$(", "<(a", '"$(a', "a=$(", "$(a | | b)", "<(a;;)", "if $(a ; b\nthen c", "shopt -s extglob\n$(a;;)"]
)
def test_an_error_in_a_substitution_does_the_shell_no_harm(
    made: tuple[ShellSession, HostSession, str], monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    """Bash 5.2 writes before its line buffer after such an error, once made to survive it, and crashes some calls later."""
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        pytest.skip("needs valgrind")
    shell, _, work = made
    log = f"--log-file={work}/%p.log"
    argv = (valgrind, "-q", "--child-silent-after-fork=yes", "--vgdb=no", log, "/bin/bash", "--noprofile", "--norc", "bash")
    monkeypatch.setattr("karotte_gym.guest.shell_process.ARGV", argv)
    shell._supply._patience_s = 60.0  # under valgrind a shell needs seconds to get ready
    answer = run(shell, "x=kept", 60)
    assert answer.exit_code == 0, answer
    answer = run(shell, wrong, 30)
    assert answer.exit_code == 2 and b"unexpected" in answer.output, answer
    assert [run(shell, "echo $x", 30).output for _ in range(2)] == [b"kept\n"] * 2
    logs = list(Path(work).glob("*.log"))
    assert logs and "".join(path.read_text() for path in logs) == ""


def test_a_shell_that_can_not_be_replaced_at_once_is_replaced_later(made: tuple[ShellSession, HostSession, str]) -> None:
    shell, session, _ = made
    assert run(shell, "true").exit_code == 0
    session.refuse = True
    answer = run(shell, "exit 4")
    assert answer.exit_code == 4 and "no new shell could be started yet" in answer.note
    session.refuse = False
    assert run(shell, "echo b").output == b"b\n"


def test_a_shell_that_was_killed_between_calls_is_replaced_and_said_so(made: tuple[ShellSession, HostSession, str]) -> None:
    shell, _, _ = made
    pid = int(run(shell, "(sleep 0.2; kill -9 $$) & echo $$").output)
    with contextlib.suppress(FileNotFoundError):
        assert within(30, lambda: Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z")
    answer = run(shell, "echo a")
    assert (answer.output, answer.exit_code) == (b"a\n", 0) and "had ended" in answer.note


def test_a_later_call_cancels_an_earlier_one_and_keeps_the_session(made: tuple[ShellSession, HostSession, str]) -> None:
    shell, _, work = made
    run(shell, "x=kept")
    answers: list[Answer] = []
    thread = threading.Thread(target=lambda: answers.append(run(shell, f"echo early; : > {work}/begun; sleep 1000", 600.0)))
    thread.start()
    assert within(30, Path(work, "begun").exists)
    assert run(shell, "echo $x").output == b"kept\n"
    thread.join(30)
    assert not thread.is_alive()
    assert (answers[0].exit_code, answers[0].timed_out) == (None, False) and "cancelled" in answers[0].note
    assert answers[0].output.startswith(b"early\n")


def test_background_jobs_beyond_the_limit_cost_no_descriptors(made: tuple[ShellSession, HostSession, str]) -> None:
    shell, _, _ = made
    run(shell, "true")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(MAX_DRAINED + 20):
        run(shell, "sleep 1000 &")
    assert len(os.listdir("/proc/self/fd")) <= before + MAX_DRAINED + 5
    assert run(shell, "echo a").output == b"a\n"


def test_calls_leave_no_descriptors_and_no_names_behind(made: tuple[ShellSession, HostSession, str]) -> None:
    shell, session, work = made
    for command in ("true", "exit 3", "echo 'open", "exec true", "nosuch", "sleep 0.1 &"):
        run(shell, command)
    assert within(30, lambda: not sleepers(session))
    run(shell, "true")
    before = set(os.listdir("/proc/self/fd"))
    for command in ("true", "exit 3", "echo 'open", "exec true", "nosuch", "sleep 0.1 &") * 3:
        run(shell, command)
    assert within(30, lambda: not sleepers(session))
    run(shell, "true")
    assert within(30, lambda: len(os.listdir("/proc/self/fd")) <= len(before) + 1)
    assert len(os.listdir(f"{os.path.dirname(work)}/pipes")) <= 1  # the last call's, which the next one takes


def test_what_is_written_to_the_next_calls_pipe_ahead_is_in_no_result(made: tuple[ShellSession, HostSession, str]) -> None:
    """Its name can be guessed, and the pipe is there before the call."""
    shell, _, _ = made
    for number in range(3):
        assert run(shell, f"echo {number}").output == b"%d\n" % number
        shell.make_ready()
        pipe = shell._spare
        assert pipe is not None and pipe.is_untouched()
        Path(pipe.path).write_text("forged\n")
        assert not pipe.is_untouched()
    assert run(shell, "echo last").output == b"last\n"


def test_a_pipe_is_made_ready_once(made: tuple[ShellSession, HostSession, str]) -> None:
    shell, _, _ = made
    run(shell, "true")
    ended = shell._spare
    assert ended is not None and not ended.is_untouched(), "it was a call's, and can't be another's under the same name"
    before = ended.path
    shell.make_ready()
    ready = shell._spare
    assert ready is ended and ready.is_untouched() and ready.path != before
    shell.make_ready()
    assert shell._spare is ready and ready.is_untouched()
    assert run(shell, "readlink /proc/self/fd/1").output.decode().strip() == ready.seen_path


def test_the_student_can_not_list_or_write_where_the_pipes_are(made: tuple[ShellSession, HostSession, str]) -> None:
    shell, _, work = made
    pipes = f"{os.path.dirname(work)}/pipes"
    assert b"Permission denied" in run(shell, f"ls {pipes}").output
    assert b"Permission denied" in run(shell, f"touch {pipes}/x").output
    assert b"Permission denied" in run(shell, "cat /proc/self/fd/2").output  # a call's pipe opens for writing only


def test_a_hundred_megabytes_pass_in_bounded_memory(made: tuple[ShellSession, HostSession, str]) -> None:
    shell, _, _ = made
    answer = run(shell, "head -c 100000000 /dev/zero; echo TAIL", 60.0)
    assert answer.exit_code == 0 and answer.output.endswith(b"TAIL\n") and len(answer.output) < 4200
    assert answer.cut_bytes == 100_000_005 - 4096


@pytest.mark.parametrize(
    "params",
    [
        {"command": 5, "timeout_s": 1.0},
        {"command": "a\0b", "timeout_s": 1.0},
        {"command": "a", "timeout_s": 0},
        {"command": "a", "timeout_s": float("nan")},
        {"command": "a", "timeout_s": True},
        {"command": "a"},
        {"command": "a", "timeout_s": 1.0, "max_output_bytes": 0},
    ],
)
def test_bad_parameters_are_refused(params: dict[str, object]) -> None:
    with pytest.raises(Refused) as caught:
        METHODS["bash"](Machine(session=object()), Call("bash", params, b"", no_part))
    assert caught.value.kind == "bad-params"


def test_without_a_session_there_is_no_shell() -> None:
    call = Call("bash", {"command": "a", "timeout_s": 1.0}, b"", no_part)
    with pytest.raises(Refused) as caught:
        METHODS["bash"](Machine(), call)
    assert caught.value.kind == "no-session"
