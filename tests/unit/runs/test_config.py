"""Settings of a run: what is refused, and that no key is ever repeated."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from karotte_gym.cli.model_run import settings_from
from karotte_gym.errors import ConfigError
from karotte_gym.runs.config import RunConfig

CANARY = "sk-canary-6e1f0b9c4d7a"
BASE = {"task": "q3-revenue", "model": "openai/some-model"}


def test_flags_override_the_file(tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    file.write_text(json.dumps({**BASE, "episodes": 5, "limits": {"max_turns": 7, "max_time_s": 60}}))
    settings = settings_from(file, None, {"episodes": 9, "max_turns": 3, "model": None, "task_config": {"generated": True}})
    config = RunConfig.build(settings)
    assert (config.episodes, config.limits.max_turns, config.limits.max_time_s) == (9, 3, 60)
    assert (config.model, config.task_config) == ("openai/some-model", {"generated": True})


@pytest.mark.parametrize(
    ("setting", "named"),
    [
        ({"episodes": 0}, "episodes"),
        ({"modle": "x"}, "modle"),
        ({"limits": {"max_turns": "many"}}, "limits.max_turns"),
        ({"api_key": [CANARY]}, "api_key"),
    ],
)
def test_a_wrong_setting_is_named_and_no_value_is_shown(setting: dict[str, object], named: str) -> None:
    with pytest.raises(ConfigError) as caught:
        RunConfig.build({**BASE, **setting})
    assert named in str(caught.value) and CANARY not in str(caught.value)


def test_a_key_on_the_command_line_must_be_a_reference() -> None:
    with pytest.raises(ConfigError, match="process lists") as caught:
        settings_from(None, None, {**BASE, "api_key": CANARY})
    assert CANARY not in str(caught.value)


def test_what_is_written_holds_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_PROVIDER_TOKEN", "env-canary-123456")
    config = RunConfig.build(
        {
            **BASE,
            "api_key": CANARY,
            "api_base": "http://user:pass-canary-1@127.0.0.1:9/v1",
            "extra": {"extra_headers": {"X-Key": "header-canary-1", "Authorization": "Bearer bearer-canary-1"}},
            "task_config": {"note": "env-canary-123456"},
        }
    )
    assert "canary" not in json.dumps(config.public()) and CANARY not in repr(config)
    assert config.agent.__name__ == "agent"  # and the real one still has it
    assert config.api_key is not None and config.api_key.get_secret_value() == CANARY


@pytest.mark.parametrize("content", ["", "[]", "{", '"text"', "\udcff"])
def test_a_file_that_is_no_object_is_one_clear_line(tmp_path: Path, content: str) -> None:
    file = tmp_path / "run.json"
    file.write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(ConfigError) as caught:
        RunConfig.read(file)
    assert "\n" not in str(caught.value)
