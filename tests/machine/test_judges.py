"""Judges in a whole episode: two scripts in machines of their own, beside judges that need none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from karotte_gym import register_project
from karotte_gym.agents.scripted import play

pytestmark = [pytest.mark.machine, pytest.mark.timeout(600)]

TASK = """
from karotte_gym import ExecutableJudge, FunctionJudge, RegexJudge, Step, Task


def is_short(files):
    return float(files.size("/workdir/answer.txt") < 20)


class Judged(Task):
    id = "judged-by-many"
    steps = (
        Step(
            "Write 42 to /workdir/answer.txt, and say in submit that it is done.",
            ("/workdir/answer.txt",),
            ExecutableJudge("right.py", threshold=0.5)
            & (ExecutableJudge("alone.py") | RegexJudge("never said"))
            & FunctionJudge(is_short)
            & RegexJudge(r"(?i)\\bdone\\b"),
        ),
    )
"""
RIGHT = """
import json, sys
answer = open(sys.argv[1] + "/workdir/answer.txt").read(100).strip()
print("compared", answer)
json.dump({"score": {"42": 0.9, "41": 0.4}.get(answer, 0.0), "metadata": {"of": "right"}}, open(sys.argv[3], "w"))
"""
ALONE = """
import json, os, sys
seen = sorted(os.listdir("/grade"))
json.dump({"score": float(seen == ["alone.py"]), "metadata": {"seen": seen}}, open(sys.argv[3], "w"))
"""


@pytest.fixture
def env(tmp_path: Path) -> Any:
    folder = tmp_path / "judged_by_many"
    folder.mkdir()
    for name, text in (("__init__.py", TASK), ("right.py", RIGHT), ("alone.py", ALONE)):
        (folder / name).write_text(text)
    (env_id,) = register_project(tmp_path)
    env = gym.make(env_id)
    yield env
    env.close()
    del gym.registry[env_id]


def calls(answer: str, message: str) -> list[dict[str, Any]]:
    return [
        {"name": "bash", "arguments": {"command": f"printf '{answer}' > answer.txt; echo done"}},
        {"name": "submit", "arguments": {"message": message}},
    ]


def test_many_judges_score_one_submission_each_in_its_own_place(env: Any) -> None:
    played = play(env, calls("42", "It is done."), seed=1)
    notes = played.info["scoring"]
    assert (played.reward, played.info["misbehavior"]) == (1.0, None)
    assert notes["ExecutableJudge"]["metadata"] == {"of": "right", "output": "compared 42\n", "raw_score": 0.9}
    assert notes["AnyOf"]["metadata"]["ExecutableJudge"] == {"score": 1.0, "metadata": {"seen": ["alone.py"]}}
    assert notes["AnyOf"]["metadata"]["RegexJudge"]["score"] == 0.0
    assert notes["FunctionJudge"]["score"] == notes["RegexJudge"]["score"] == 1.0
    criterion = played.info["record"]["steps"][0]["criterion"]
    assert criterion["judge"] == "AllOf" and criterion["2.1.script"] == "alone.py" and criterion["3.function"] == "is_short"


@pytest.mark.parametrize(
    ("answer", "message", "judge"),
    [
        ("41", "It is done.", "ExecutableJudge"),  # 0.4 is below the threshold
        ("42", "I give up.", "RegexJudge"),  # "done" was printed by a tool and is asked for by the prompt
        ("42" + " " * 30, "It is done.", "FunctionJudge"),
    ],
)
def test_the_lowest_of_them_counts(env: Any, answer: str, message: str, judge: str) -> None:
    played = play(env, calls(answer, message), seed=1)
    notes = played.info["scoring"]
    assert played.reward == 0.0
    assert [name for name, note in notes.items() if note["score"] == 0.0] == [judge]
