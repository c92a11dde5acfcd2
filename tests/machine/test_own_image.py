"""An environment's own Containerfile in a real image: what it adds is there, and what it would open is shut."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from karotte_gym.config import Limits
from karotte_gym.registration import load_task
from karotte_gym.sandbox import check_image, machines
from karotte_gym.sandbox.contract import Sandbox
from karotte_gym.sandbox.progress import silent

pytestmark = [pytest.mark.machine, pytest.mark.timeout(1500)]

CONTAINERFILE = """\
ARG BASE
FROM ${BASE}
COPY tool.sh /usr/local/bin/tool
RUN chmod 755 /usr/local/bin/tool && cp /bin/dd /usr/local/bin/set-uid && chmod 4755 /usr/local/bin/set-uid \\
    && mkdir -m 777 /opt/open && echo hidden > /root/secret && mkdir /root_data && echo leaked > /root_data/key
"""
TASK = """
from karotte_gym import AlwaysPassJudge, Step, Task


class OwnImage(Task):
    id = "own-image"
    steps = (Step("Do nothing.", ("/workdir/a",), AlwaysPassJudge()),)
"""
LOOK = "tool; stat -c '%a %n' /usr/local/bin/set-uid /opt/open; cat /root/secret /root_data/key; id -u"


def test_packages_and_files_of_ones_own_come_under_the_hardening(tmp_path: Path, start_machine: Callable[..., Sandbox]) -> None:
    folder = tmp_path / "own_image"
    (folder / "image").mkdir(parents=True)
    (folder / "image" / "tool.sh").write_text("#!/bin/sh\necho the tool of the task\n")
    (folder / "Containerfile").write_text(CONTAINERFILE)
    (folder / "__init__.py").write_text(TASK)
    task = load_task(str(folder))
    task.prepare()
    spec = task.student_machine()
    assert spec.containerfile == str(folder / "Containerfile") and task.grader_needs().containerfile is None
    built = machines.recipe(spec, silent).image
    assert all(found.ok for found in check_image.check_image(built, None, silent, spec.containerfile))
    student = start_machine(containerfile=spec.containerfile)
    student.start_session(Limits())
    output = student.bash(LOOK, timeout_s=60).output.decode()
    assert output.startswith("the tool of the task\n755 /usr/local/bin/set-uid\n775 /opt/open\n") and output.endswith(
        "\n1000\n"
    )
    assert "hidden" not in output and "leaked" not in output
    grader = start_machine("grader", containerfile=spec.containerfile)
    assert grader.run(["/usr/local/bin/tool"], user="root").stdout == b"the tool of the task\n"
