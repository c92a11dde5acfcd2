"""Keys and the texts that they are taken out of."""

from __future__ import annotations

import logging
from urllib.parse import quote

import pytest

from karotte_gym.errors import ConfigError
from karotte_gym.models.keys import Secrets, find_key, hidden_in, resolve_reference

KEY = "sk-canary/6e1f+0b9c"


def test_every_spelling_is_taken_out_of_nested_data() -> None:
    secrets = Secrets(KEY, environment={})
    data = {"a": [f"x{KEY}y", {"b": KEY, KEY: 1}], "url": f"?key={quote(KEY, safe='')}", "n": 3, "none": None}
    cleaned = secrets.redact_all(data)
    assert "canary" not in str(cleaned) and cleaned["n"] == 3 and cleaned["a"][0] == "x[key]y"


def test_the_environment_is_searched_by_the_names_of_its_variables() -> None:
    environment = {"MY_API_KEY": "abcdefgh1", "GH_TOKEN": "abcdefgh2", "HOME": "/home/somebody", "PW_PASSWORD": "short"}
    secrets = Secrets(environment={**environment, "https_proxy": "http://me:proxypassword@host"})
    text = secrets.redact("abcdefgh1 abcdefgh2 /home/somebody short proxypassword")
    assert text == "[key] [key] /home/somebody short [key]"


def test_a_key_that_begins_another_leaves_no_tail() -> None:
    assert Secrets("secret-123", "secret-123-longer", environment={}).redact("secret-123-longer") == "[key]"


def test_without_secrets_nothing_changes() -> None:
    assert Secrets(environment={}).redact("text") == "text"


@pytest.mark.parametrize("reference", ["$SOME_KEY", "${SOME_KEY}"])
def test_a_reference_is_looked_up(reference: str) -> None:
    assert resolve_reference(reference, {"SOME_KEY": KEY}) == KEY
    with pytest.raises(ConfigError, match="SOME_KEY is not set"):
        resolve_reference(reference, {})


def test_a_literal_is_no_reference_and_is_not_repeated() -> None:
    with pytest.raises(ConfigError) as caught:
        resolve_reference(KEY, {})
    assert KEY not in str(caught.value)


def test_the_first_variable_that_is_set_counts() -> None:
    assert find_key(None, ["A", "B", "C"], {"B": "b", "C": "c"}) == "b"
    assert find_key("$C", ["B"], {"B": "b", "C": "c"}) == "c" and find_key(None, ["A"], {}) is None


def test_keys_in_a_requests_extras_are_found() -> None:
    extra = {"extra_headers": {"Authorization": "Bearer tokenabc", "X-Trace": "free"}, "list": [{"api_key": "deep"}]}
    assert sorted(hidden_in(extra)) == ["Bearer tokenabc", "deep", "tokenabc"]


def test_logs_are_cleaned_once_whatever_the_level(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("some.client")
    for _ in range(3):
        Secrets(KEY, environment={}).guard_logger("some.client")
    assert len(logger.filters) == 1
    with caplog.at_level("DEBUG", "some.client"):
        try:
            raise ValueError(KEY)
        except ValueError:
            logger.exception("sent %s", {"authorization": KEY})
    assert "[key]" in caplog.text and KEY not in caplog.text
    logger.filters.clear()
