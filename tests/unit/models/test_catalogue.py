"""The catalogue: data that fits its schema, names known and unknown, reasoning levels, and no litellm for any of it."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import resources

import pytest

from karotte_gym.agents import LLMAgent, known_models, model_info
from karotte_gym.errors import ConfigError
from karotte_gym.models.catalogue import Catalogue, catalogue, reasoning_level

DATA = resources.files("karotte_gym.models").joinpath("data")


def test_the_schema_beside_the_data_is_the_one_that_is_checked() -> None:
    expected = Catalogue.model_json_schema()
    expected["properties"]["$schema"] = {"type": "string"}  # the data's own note where its schema is
    written = json.loads(DATA.joinpath("models.schema.json").read_text())
    assert written.pop("$schema").startswith("https://json-schema.org/")
    assert written == expected


def test_every_listed_model_is_known_with_its_limits_and_prices() -> None:
    for model in known_models():
        assert model.known and model.provider and model.max_output_tokens and model.context_tokens, model.name
        assert model.input_usd_per_million and model.output_usd_per_million, model.name
        assert model.talk.key_variables or model.talk.key_optional


def test_every_prefix_goes_to_a_provider() -> None:
    assert {each.provider for each in catalogue().prefixes} <= set(catalogue().providers)


@pytest.mark.parametrize("bare", ["claude-sonnet-5", "gpt-5-mini"])
def test_a_bare_name_is_its_providers(bare: str) -> None:
    assert model_info(bare).name.endswith("/" + bare) and model_info(bare).known


def test_a_name_that_nobody_knows_gets_safe_defaults() -> None:
    unknown = model_info("somewhere/some-model")
    assert (unknown.known, unknown.context_tokens, unknown.levels) == (False, None, [])
    assert unknown.talk.send_back == "none" and not unknown.talk.cache_marks
    behind = model_info("openai/my-finetune")
    assert (behind.provider, behind.known, behind.talk.key_variables) == ("openai", False, ["OPENAI_API_KEY"])


@pytest.mark.parametrize("name", ["", " ", "a model", "a\nb"])
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="is named like"):
        model_info(name)


@pytest.mark.parametrize(
    ("model", "wanted", "sent"),
    [
        ("openai/gpt-5-mini", "min", "minimal"),
        ("openai/gpt-5-mini", "max", "high"),
        ("anthropic/claude-opus-5", "max", "max"),
        ("anthropic/claude-opus-4-5", "max", "high"),
        ("anthropic/claude-opus-4-5", "medium", "medium"),
        ("openai/some-model", "turbo", "turbo"),
    ],
)
def test_min_and_max_are_the_providers_own_words(model: str, wanted: str, sent: str) -> None:
    assert reasoning_level(model_info(model), wanted) == sent


@pytest.mark.parametrize(("model", "wanted"), [("openai/gpt-5-mini", "turbo"), ("openai/some-model", "max")])
def test_a_level_that_is_not_there_is_refused_before_anything_starts(model: str, wanted: str) -> None:
    with pytest.raises(ConfigError, match="reasoning levels"):
        LLMAgent(model, api_key="some-key-or-other", reasoning_effort=wanted)


def test_a_missing_key_is_refused_by_the_name_of_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    with pytest.raises(ConfigError, match="ANTHROPIC_API_KEY"):
        LLMAgent("anthropic/claude-sonnet-5")


def test_agents_and_the_list_of_models_load_no_litellm_and_open_no_socket() -> None:
    code = """
import socket, sys, time
def refuse(*_): raise AssertionError("a socket was opened")
socket.socket.connect = socket.getaddrinfo = refuse
import karotte_gym.agents
from karotte_gym.agents import LLMAgent, known_models
known_models(); LLMAgent("openai/gpt-5-mini", api_key="some-key-or-other")
print(sorted({"litellm", "ray", "openai", "httpx"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_first_use_of_litellm_asks_the_network_for_nothing() -> None:
    code = """
import socket, sys
asked = []
def refuse(*args, **_): asked.append(args); raise OSError("no network")
socket.socket.connect = socket.getaddrinfo = socket.create_connection = refuse
from karotte_gym.models.litellm_door import litellm
litellm(); print(asked)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
