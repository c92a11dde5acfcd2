"""A stand-in for the guest's session on this host: real bash and real forks as a throw-away user, without namespaces.

Only root can make such processes; the tests that need it are skipped, loudly, elsewhere.
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from karotte_gym.guest import shell_supply
from karotte_gym.guest.killer import Killer
from karotte_gym.guest.process_table import living
from karotte_gym.guest.shell import Answer, ShellSession
from karotte_gym.guest.shell_pipes import PipeDirectory

UID = 40_000 + os.getpid() % 15_000  # as in `as_user`, and another one


class HostProcess:
    """What `guest.spawning.Process` promises, over `subprocess`."""

    def __init__(self, popen: subprocess.Popen[bytes]):
        self._popen = popen
        self._lock = threading.Lock()
        self.pid = popen.pid
        self.pidfd = os.pidfd_open(popen.pid)

    def wait(self, timeout_s: float | None = None) -> int | None:
        with self._lock:
            if self.pidfd < 0:
                return self._popen.returncode
            poller = select.poll()
            poller.register(self.pidfd, select.POLLIN)
            if not poller.poll(None if timeout_s is None else timeout_s * 1000):
                return None
            code = self._popen.wait()
            return code if code >= 0 else 128 - code

    def kill(self, number: int = signal.SIGKILL) -> None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.pidfd, number)

    def close(self) -> None:
        if self.pidfd >= 0:
            os.close(self.pidfd)
            self.pidfd = -1
            threading.Thread(target=self._popen.wait, daemon=True).start()

    def __enter__(self) -> HostProcess:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class HostSession:
    """What `guest.session.Session` promises, as far as the tools use it."""

    uid = gid = UID

    def __init__(self) -> None:
        self.refuse = False  # True: no process can be started, as with a full process table

    def change_room(self, taking: Sequence[int]) -> None:
        """As in a machine without control groups: nothing."""

    def spawn(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str = "/",
        stdin: int,
        stdout: int,
        stderr: int,
        pass_fds: Sequence[int] = (),
        extra_env: Mapping[str, str] | None = None,
        first: bool = False,  # noqa: ARG002 - of a machine's processor there is one, of this host there are more
    ) -> HostProcess:
        if self.refuse:
            raise BlockingIOError(11, "no process left")
        popen = subprocess.Popen(
            list(argv), env={**self.clean_env(), **(env or {}), **(extra_env or {})}, cwd=cwd, stdin=stdin,
            stdout=stdout, stderr=stderr, pass_fds=list(pass_fds), user=UID, group=UID, extra_groups=[],
            start_new_session=True, preexec_fn=_limit,
        )  # fmt: skip
        return HostProcess(popen)

    @staticmethod
    def pids() -> list[int]:
        return [process.pid for process in living(UID)]

    def call_as_student(
        self,
        function: Callable[..., bytes],
        *args: Any,
        timeout_s: float = 10.0,
        max_bytes: int = 1 << 20,
        first: bool = False,  # noqa: ARG002 - as for `spawn`
    ) -> bytes:
        read_fd, write_fd = os.pipe()
        pid = os.fork()
        if pid == 0:
            _answer_and_end(write_fd, function, args)
        os.close(write_fd)
        deadline, data = time.monotonic() + timeout_s, b""
        try:
            with open(read_fd, "rb", buffering=0) as pipe:
                while True:
                    if not select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))[0]:
                        raise TimeoutError(function.__name__)
                    chunk = pipe.read(1 << 18)
                    if not chunk:
                        return data
                    data += chunk
                    if len(data) > max_bytes:
                        raise OverflowError(function.__name__)
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)

    @staticmethod
    def clean_env() -> dict[str, str]:
        return {"HOME": "/workdir", "PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "TERM": "dumb"}


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _answer_and_end(fd: int, function: Callable[..., bytes], args: Any) -> None:
    code = 1
    try:
        os.setgroups([])
        os.setresgid(UID, UID, UID)
        os.setresuid(UID, UID, UID)
        data = memoryview(function(*args))
        while data:
            data = data[os.write(fd, data) :]
        code = 0
    finally:
        os._exit(code)


@contextlib.contextmanager
def host_shell() -> Iterator[tuple[ShellSession, HostSession, str]]:
    """A shell as the throw-away user, and a directory of that user's; nothing of either survives."""
    session = HostSession()
    root = tempfile.mkdtemp(prefix="karotte-shell-")
    os.chmod(root, 0o755)
    work = f"{root}/work"
    os.mkdir(work)
    os.chown(work, UID, UID)
    killer = Killer()
    pipes = PipeDirectory(f"{root}/pipes", f"{root}/pipes")
    with mock.patch.object(shell_supply, "threads", _threads):
        shell = ShellSession(session, pipes, lambda _rest_s, _memory_too: killer.kill_all_of(UID))  # type: ignore[arg-type]
        try:
            yield shell, session, work
        finally:
            shell.close()
            _remove(killer, root)


def run(shell: ShellSession, command: str, timeout_s: float = 10.0, restart: bool = False) -> Answer:
    """A command's answer, of 4096 bytes at most."""
    return shell.run(command, timeout_s=timeout_s, restart=restart, limit_bytes=4096)


def sleepers(session: HostSession) -> list[int]:
    """The user's processes of ``sleep``."""
    return [pid for pid in session.pids() if _command(pid) == "sleep\n"]


def _command(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text()
    return ""


def _threads() -> tuple[int, int]:
    """The student's that run, and all: what else this host is busy with would not be in a machine, which counts them all."""
    states = [state for process in living(UID) for state in _states(process.pid)]
    return states.count("R"), len(states)


def _states(pid: int) -> list[str]:
    states = []
    with contextlib.suppress(OSError):  # it ended meanwhile
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/stat") as file:
                states.append(file.read().rpartition(")")[2].split()[0])
    return states


def _remove(killer: Killer, root: str) -> None:
    for _ in range(3):
        killer.kill_all_of(UID)
    killer.close()
    shutil.rmtree(root)
