"""A run's directory: nothing lost, nothing played twice, one writer."""

from __future__ import annotations

from pathlib import Path

import pytest

from karotte_gym.agents.episode import Episode, EpisodeError
from karotte_gym.errors import ConfigError
from karotte_gym.runs.directory import RunDirectory

CONFIG = {"task": "little", "model": "openai/x", "episodes": 3}
FAILED = Episode(status="error", error=EpisodeError(kind="server", message="gone"))
SCORED = Episode(status="scored", reward=0.0)


def test_an_episode_without_a_verdict_is_kept_beside_the_one_that_has_one(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path / "run")
    with directory.opened(CONFIG):
        for episode in (FAILED, FAILED, SCORED):
            directory.save(7, episode)
    assert directory.load(7) == SCORED and directory.finished() == {7}
    assert sorted(path.name for path in (tmp_path / "run/earlier").iterdir()) == ["00007-1.json", "00007-2.json"]


def test_a_verdict_is_never_replaced(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    with directory.opened(CONFIG):
        directory.save(0, SCORED)
        with pytest.raises(RuntimeError, match="has a verdict"):
            directory.save(0, FAILED)
    assert directory.load(0) == SCORED


def test_resuming_with_another_model_is_refused_by_name(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    with directory.opened(CONFIG):
        pass
    with directory.opened({**CONFIG, "episodes": 9}):
        pass
    with pytest.raises(ConfigError, match="another model"), directory.opened({**CONFIG, "model": "openai/y"}):
        pass


def test_two_processes_do_not_write_into_one_run(tmp_path: Path) -> None:
    held, wanted = RunDirectory(tmp_path).opened(CONFIG), RunDirectory(tmp_path).opened(CONFIG)
    with held, pytest.raises(ConfigError, match="another process"), wanted:
        pass


@pytest.mark.parametrize("content", ["", "{}", '{"status": "scored", "reward": "high"}', "[1, 2"])
def test_a_damaged_episode_is_named_and_not_taken_for_a_zero(tmp_path: Path, content: str) -> None:
    directory = RunDirectory(tmp_path)
    with directory.opened(CONFIG):
        path = directory.save(0, FAILED)
        path.write_text(content)
        if content == "{}":
            assert directory.finished() == set()  # an episode of defaults has no verdict
        else:
            with pytest.raises(ConfigError, match=r"00000\.json"):
                directory.finished()


def test_a_foreign_directory_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no run directory"):
        RunDirectory(tmp_path).read()


def test_a_student_that_writes_half_a_character_does_not_lose_its_verdict(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    messages = [{"role": "assistant", "content": "half \ud800 of one", "\udc00": 1}]
    with directory.opened(CONFIG):
        directory.save(0, Episode(status="scored", reward=1.0, messages=messages, misbehavior="\udfff"))
    kept = directory.load(0)
    assert kept is not None and kept.reward == 1.0 and kept.messages[0]["content"] == "half \ufffd of one"
