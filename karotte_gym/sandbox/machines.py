"""Machines by their specification: `prepare` what they need once, `start` one in well under a second.

A harness keeps the snapshots that it used last loaded (RAM in sealed memory, shared with forked children), so that
only the first start of a kind looks at the disk.
"""

from __future__ import annotations

import collections
import os
import tempfile
import threading
from pathlib import Path

from karotte_gym.errors import CallRefused, MachineDied, MachineError
from karotte_gym.sandbox import accelerator, boot, cache, drive, image, image_extra, snapshot
from karotte_gym.sandbox.contract import MachineSpec, Sandbox
from karotte_gym.sandbox.machine_sandbox import MachineSandbox
from karotte_gym.sandbox.progress import Progress, silent
from karotte_gym.sandbox.runtimes import qemu_binary
from karotte_gym.sandbox.runtimes.qemu_command import Hull

__all__ = ["Prefetch", "prefetch", "prepare", "recipe", "start"]

MAX_LOADED = 8  # snapshots; each holds the pages that its machine had used, 100 to 200 MiB
START_TRIES = 3  # as it is loaded; read anew from the disk; built anew
SILENT_TRIES = 2  # each takes as long as a call may

_loaded: collections.OrderedDict[object, snapshot.Snapshot] = collections.OrderedDict()
_lock = threading.RLock()


def prepare(spec: MachineSpec, progress: Progress | None = None) -> None:
    """Make sure that image, data drive and snapshot exist. Minutes when nothing does, else milliseconds."""
    _snapshot(spec, progress or silent)


def start(spec: MachineSpec, progress: Progress | None = None) -> Sandbox:
    """A machine of its own, restored from the snapshot, its entropy, clock and name renewed; `close` it.

    MachineError when there is none to be had. A snapshot that does not load is rebuilt once, but not for one machine
    that ended: it may have been killed, with the process that it belongs to, and others start from that snapshot.
    """
    ended = 0
    for attempt in range(1, START_TRIES + 1):
        source = _snapshot(spec, progress or silent)
        machine = source.clone()
        sandbox = MachineSandbox(machine, spec, source.recipe.hull.accelerator)
        sandbox.versions = source.recipe.versions
        try:
            sandbox.renew()
            return sandbox
        except (MachineDied, CallRefused) as error:
            said = machine.last_words()
            sandbox.close()
            exited = isinstance(error, MachineDied) and error.cause == "exited"
            if attempt == START_TRIES or (not exited and attempt >= SILENT_TRIES):
                raise MachineError(f"no machine can be started from {source.path}: {error}{said}") from error
            if exited:
                ended += 1
                _forget(source)  # what is loaded next is read whole and compared with what was saved
                if ended > 1:
                    cache.discard(source.path)
    raise AssertionError("unreachable")


class Prefetch:
    """A machine that is being started while something else goes on. `take` it or `cancel`; both end the waiting."""

    def __init__(self, spec: MachineSpec):
        self._spec = spec
        self._sandbox: Sandbox | None = None
        self._error: BaseException | None = None
        self._cancelled = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._start, name="karotte-prefetch", daemon=True)
        self._thread.start()

    def take(self) -> Sandbox:
        """The machine, waited for; raises what `start` raised. Once only."""
        self._thread.join()
        with self._lock:
            if self._error is not None:
                raise self._error
            sandbox, self._sandbox = self._sandbox, None
        if sandbox is None:
            raise MachineError("this prefetched machine was taken or cancelled before")
        return sandbox

    def cancel(self) -> None:
        """No machine is wanted any more; idempotent, does not wait."""
        with self._lock:
            self._cancelled = True
            sandbox, self._sandbox = self._sandbox, None
        if sandbox is not None:
            sandbox.close()

    def _start(self) -> None:
        try:
            sandbox = start(self._spec)
        except BaseException as error:
            self._error = error
            return
        with self._lock:
            if not self._cancelled:
                self._sandbox = sandbox
                return
        sandbox.close()


def prefetch(spec: MachineSpec) -> Prefetch:
    """Start a machine in the background."""
    return Prefetch(spec)


def _snapshot(spec: MachineSpec, progress: Progress) -> snapshot.Snapshot:
    sources = (drive.signature(spec.drive), image_extra.signature(spec.containerfile))
    key = (spec, sources, str(cache.cache_root()), os.environ.get("KAROTTE_GYM_ACCEL"))
    with _lock:
        found = _loaded.get(key)
        if found is None:
            found = snapshot.load(recipe(spec, progress), progress)
            _loaded[key] = found
        _loaded.move_to_end(key)
        while len(_loaded) > MAX_LOADED:
            _loaded.popitem(last=False)
    return found


def recipe(spec: MachineSpec, progress: Progress = silent) -> snapshot.Recipe:
    """What the snapshot of `spec` is made of on this host; builds the image when there is none."""
    built = _image(spec, progress)
    hardware = spec.hardware

    def hull(chosen: str) -> Hull:
        kind = qemu_binary.find().architecture
        return Hull(kind, chosen, hardware.memory_mib, hardware.cpus, spec.test_hooks, spec.use_cgroups)

    chosen = accelerator.choose(built.kernel_release, lambda: _boots(built, hull("kvm"), spec), progress)
    return snapshot.Recipe(spec, built, hull(chosen), drive.digest(spec.role, spec.drive))


def _image(spec: MachineSpec, progress: Progress) -> image.Image:
    return image.build_image(spec.image, progress, image_extra.extra_of(spec.containerfile))


def _boots(built: image.Image, hull: Hull, spec: MachineSpec) -> bool:
    """Whether a machine comes up on this accelerator; its data drive is empty."""
    data = drive.build(spec.role, (), drive.digest(spec.role, ()))
    with data, tempfile.TemporaryDirectory(prefix="karotte-probe-") as directory:
        scratch = Path(directory) / "scratch"
        try:
            with boot.boot(hull, built, data.path / drive.FILE, scratch, 64, accelerator.PROBE_TIMEOUT_S):
                return True
        except MachineError:
            return False


def _forget(source: snapshot.Snapshot) -> None:
    """Keep a snapshot loaded no longer."""
    with _lock:
        for key in [key for key, found in _loaded.items() if found is source]:
            del _loaded[key]


def _after_fork_in_child() -> None:
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_after_fork_in_child)
