"""``repair-service``: a small HTTP service does not even start, and when it does, half of its answers are wrong.

Graded on the live machine: when the student's processes are dead, root starts the service from the copy that custody
took, and the scoring script sends it requests that the student has not seen and compares the answers with its own. The
service is the student's code and may answer what it likes; it can't know what is expected without being right.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import numpy as np
from karotte_gym.envs.repair_service.items import as_json, draw_items

from karotte_gym import ExecutableJudge, Sandbox, Service, Step, Task, TaskConfig

FOLDER = "/workdir/data/service"
PORT = 8080


class RepairService(Task):
    """One step: make it answer as its description says."""

    id = "repair-service"
    grade_in = "student"
    services = (
        Service("quotes", ("/usr/bin/python3", f"{FOLDER}/server.py"), files=(FOLDER,), port=PORT, ready_timeout_s=30.0),
    )
    steps = (
        Step(
            instructions=(
                f"The HTTP service in {FOLDER} is broken: it does not start, and several of its answers are wrong. Repair "
                "it so that it answers as /workdir/shared/API.md says. `python3 /workdir/shared/check.py` sends a few "
                "requests to it.\n"
                f"When you submit, all of your processes are ended; then `python3 {FOLDER}/server.py` is started anew by "
                f"another user, who can read {FOLDER} and write nowhere but in /tmp, and must answer requests on port "
                f"{PORT}. Do not change items.json. Only the Python standard library is there. Hand in {FOLDER} with "
                "plain files only."
            ),
            submission_paths=(FOLDER,),
            judge=ExecutableJudge("grade.py", timeout_s=300.0),
        ),
    )

    class Config(TaskConfig):
        """`generated`: draw the items, and the requests with them, from the seed."""

        generated: bool = False

    config: Config

    def __init__(self, config: Mapping[str, Any] | None = None):
        super().__init__(config)
        self._grading: dict[str, bytes] = {}

    def pre_hook(self, sandbox: Sandbox, rng: np.random.Generator) -> None:
        """Puts drawn items in place of those in the folder."""
        if self.config.generated:
            items = as_json(draw_items(rng)).encode()
            sandbox.put_file(f"{FOLDER}/items.json", items, mode=0o644, owner="student")
            self._grading = {
                "items.sha256": f"{sha256(items).hexdigest()}\n".encode(),
                "seed.txt": f"{int(rng.integers(2**62))}\n".encode(),
            }

    def grading_data(self) -> Mapping[str, bytes]:
        """The digest of the items that were handed out, and the seed of the requests."""
        return self._grading
