"""Brings a tar archive of ours into a machine and unpacks it there as root; nothing of the archive itself is left."""

from __future__ import annotations

import uuid

from karotte_gym.errors import GradingError, MachineError
from karotte_gym.sandbox.contract import Sandbox

__all__ = ["unpack_archive"]

TIMEOUT_S = 120.0
_SCRIPT = """
/usr/bin/mkdir -p "$2" && /usr/bin/tar --extract --file="$1" --directory="$2" --no-same-owner --preserve-permissions
unpacked=$?
/usr/bin/rm "$1" && exit "$unpacked"
"""


def unpack_archive(
    sandbox: Sandbox, archive: bytes, directory: str, *, beside: str, failure: type[GradingError | MachineError], what: str
) -> None:
    """Unpack into `directory`, which is made when absent. Raises a `failure` that says `what` and the machine's reason.

    For a moment the archive lies under a name that begins with `beside`, never in what is graded.
    """
    path = f"{beside}{uuid.uuid4().hex}.tar"
    sandbox.put_file(path, archive, mode=0o600)
    done = sandbox.run(["/bin/sh", "-c", _SCRIPT, "unpack", path, directory], user="root", timeout_s=TIMEOUT_S)
    if done.exit_code != 0:
        raise failure(f"{what}: {done.output.decode('utf-8', 'replace')[-500:]}")
