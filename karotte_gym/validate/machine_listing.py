"""What of a machine the student can read, as the student itself finds out.

Files of the image are left out, for no task has been near them: they lie on the image's device and were not changed
since the machine started. Where a Containerfile of the task's own made the image, only what its packages brought is left
out. What the student may make readable is readable, whatever its mode says now. A name is told whatever it is the name
of, and of a link where it leads: both hold text.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from karotte_gym.sandbox.contract import Sandbox

__all__ = ["Listing", "listing_of", "now_in"]

TIMEOUT_S = 120.0
# Walks as the student. `since` is a time of the machine's own clock: 0 for all. Environments and command lines of
# processes are read where the student may read them. Directories that it closed to itself are opened and closed again.
LISTING = r"""
import glob, json, os, stat, sys, time
whole_image, since = json.loads(sys.argv[1])
image, me = os.stat("/usr/bin/env").st_dev, os.getuid()
started = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
packaged, places = set(), {}
if whole_image:
    for path in glob.glob("/var/lib/dpkg/info/*.list"):
        with open(path, encoding="utf-8", errors="replace") as stream:
            for directory, _, name in (line.rpartition("/") for line in stream.read().splitlines()):
                if directory not in places:
                    places[directory] = os.path.realpath(directory or "/").rstrip("/")
                packaged.add(places[directory] + "/" + name)
files, names, left_out, room, processes, closed = [], [], 0, 300_000, "", []
def tell(entry, into):
    global room, left_out
    json.dumps(entry, ensure_ascii=False).encode()
    told = len(json.dumps(entry)) + 2
    left_out += told > room
    into += [entry] if told <= room else []
    room -= told
def look(path, facts):
    directory = stat.S_ISDIR(facts.st_mode)  # an overlay's are all on a device of its own
    new = facts.st_ctime >= started or (facts.st_dev != image and not directory)
    own = whole_image and path not in packaged and "__pycache__" not in path
    if facts.st_ctime < since or not (new or own) or path.startswith("/dev/"):
        return
    mine = facts.st_uid == me or os.access(path, os.R_OK)
    if stat.S_ISREG(facts.st_mode):
        if mine:
            tell([path, facts.st_size], files)
    elif stat.S_ISLNK(facts.st_mode):
        tell(path + " -> " + os.readlink(path), names)
    else:
        tell(path, names)
for directory, below, entries in os.walk("/"):
    below[:] = [name for name in below if os.path.join(directory, name) not in ("/proc", "/sys")]
    for name in below + entries:
        path = os.path.join(directory, name)
        try:
            facts = os.lstat(path)
            look(path, facts)
            if stat.S_ISDIR(facts.st_mode) and facts.st_uid == me and facts.st_mode & 0o500 != 0o500:
                os.chmod(path, facts.st_mode | 0o500)
                closed.append((path, facts.st_mode & 0o7777))
        except (OSError, UnicodeError):  # gone meanwhile, or a name that is no text and can't be told
            left_out += 1
for path, mode in reversed(closed):
    os.chmod(path, mode)
for path in glob.glob("/proc/[0-9]*/environ") + glob.glob("/proc/[0-9]*/cmdline"):
    try:
        with open(path, "rb") as stream:
            if f"/{os.getpid()}/" not in path:
                processes += stream.read(4096).decode("utf-8", "replace") + "\n"
    except OSError:
        continue
print(json.dumps({"files": files, "names": names, "left_out": left_out, "processes": processes[:20000]}))
"""


@dataclass(frozen=True, slots=True)
class Listing:
    """`files` are paths with sizes, `names` all else, `left_out` how many did not fit or could not be told."""

    files: tuple[tuple[str, int], ...]
    names: tuple[str, ...]
    processes: str
    left_out: int


def listing_of(sandbox: Sandbox, *, whole_image: bool, since: float = 0.0) -> Listing:
    """What was made or changed at or after `since`."""
    argv = ["/usr/bin/python3", "-I", "-c", LISTING, json.dumps([whole_image, since])]
    done = sandbox.run(argv, user="student", timeout_s=TIMEOUT_S)
    if done.exit_code != 0:
        raise RuntimeError(f"the machine's files could not be listed: {done.stderr.decode('utf-8', 'replace')[-300:]}")
    told = json.loads(done.stdout)
    files = tuple((str(path), int(size)) for path, size in told["files"])
    return Listing(files, tuple(map(str, told.get("names", ()))), str(told["processes"]), int(told["left_out"]))


def now_in(sandbox: Sandbox) -> float:
    """The machine's clock."""
    done = sandbox.run(["/usr/bin/python3", "-I", "-c", "import time; print(time.time())"], user="root", timeout_s=TIMEOUT_S)
    return float(done.stdout)
