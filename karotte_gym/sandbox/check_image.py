"""Whether an image is fit for students: probes in a real machine of it, as the student and as root.

Every image build ends with this. The verdict is remembered for the image (its id covers kernel, root file system and
the probes themselves, which are guest code), so an unchanged image is not checked twice.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from karotte_gym.config import Limits
from karotte_gym.errors import CacheError, ImageError, MachineError
from karotte_gym.guest import probes
from karotte_gym.sandbox import cache, machines
from karotte_gym.sandbox.contract import MachineSpec, Sandbox
from karotte_gym.sandbox.image import Image
from karotte_gym.sandbox.machine_sandbox import MachineSandbox
from karotte_gym.sandbox.progress import Progress, silent

__all__ = ["Finding", "check_image", "probe_session", "refuse_broken_image"]

_VERDICT = "findings.json"
_STAGE = "checking the image"
_SHOWN = 10  # findings in the error of a build; `check image` lists all


@dataclass(frozen=True, slots=True)
class Finding:
    """What one probe says. With `ok` the texts are empty."""

    name: str
    ok: bool
    finding: str
    fix: str


def check_image(
    image: Image, base: str | None = None, progress: Progress | None = None, containerfile: str | None = None
) -> list[Finding]:
    """What the probes say of `image` (built from `base` and an own Containerfile, if any), one at least for each probe.

    Ten seconds under emulation; milliseconds when this image was checked before. MachineError when no machine of it
    starts: an image that can't be checked is not fit either.
    """
    report = progress or silent

    def build(directory: Path) -> None:
        report(_STAGE, 0.0)
        found = _check(MachineSpec(role="student", image=base, containerfile=containerfile), report)
        (directory / _VERDICT).write_text(json.dumps([asdict(one) for one in found]), encoding="utf-8")
        report(_STAGE, 1.0)

    entry = cache.publish("verdict", f"image-{image.id}", build, report)
    return _remembered(entry)


def refuse_broken_image(
    image: Image, base: str | None = None, progress: Progress | None = None, containerfile: str | None = None
) -> None:
    """ImageError that lists what is wrong and how to mend it, when anything is."""
    wrong = [found for found in check_image(image, base, progress, containerfile) if not found.ok]
    if wrong:
        lines = [f"  {found.name}: {found.finding}; {found.fix}" for found in wrong[:_SHOWN]]
        if len(wrong) > _SHOWN:
            lines.append(f"  and {len(wrong) - _SHOWN} more; `karotte-gym check image` lists all")
        raise ImageError("\n".join([f"image {image.id} is not fit for students:", *lines]))


def probe_session(sandbox: Sandbox, names: Sequence[str] | None = None) -> list[Finding]:
    """What the probes of `names` (None: all) say of a machine whose session has started.

    MachineError when the machine does not answer for each of them: a probe that is not heard of has found nothing out.
    """
    if not isinstance(sandbox, MachineSandbox):
        raise MachineError(f"a {sandbox.runtime} sandbox has no agent that could run probes")
    found = [Finding(**answer) for answer in sandbox.probe(names)]
    expected = set(names) if names is not None else set(probes.ALL)
    missing = expected - {one.name for one in found}
    if missing:
        raise MachineError(f"the machine did not answer for {len(missing)} probes: {', '.join(sorted(missing)[:5])}")
    return found


def _check(spec: MachineSpec, progress: Progress) -> list[Finding]:
    machines.prepare(spec, progress)
    with contextlib.closing(machines.start(spec)) as sandbox:
        sandbox.start_session(Limits())
        return probe_session(sandbox)


def _remembered(entry: Path) -> list[Finding]:
    try:
        return [Finding(**one) for one in json.loads((entry / _VERDICT).read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError) as error:
        raise CacheError(f"{entry} can't be read ({error}); run `karotte-gym cache prune --all`") from error
