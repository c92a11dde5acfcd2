"""What two readers of JSON could take for two things is refused."""

from __future__ import annotations

import json

import pytest

from karotte_gym.strict_json import strict_json


@pytest.mark.parametrize("text", ['{"a": {"b": [1, 2.5, null, true, "x"]}}', b"[]", '""', "1e308"])
def test_plain_json_is_read(text: str | bytes) -> None:
    assert strict_json(text) == json.loads(text)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('{"score": 0, "score": 1}', "a key comes twice"),
        ('[{"a": {"b": 1, "b": 1}}]', "a key comes twice"),
        (b'{"score": NaN}', "NaN is no JSON"),
        ("[-Infinity]", "-Infinity is no JSON"),
        ("{'score': 1}", "Expecting property name"),
        (b"\xff", "decode"),
    ],
)
def test_anything_else_is_a_value_error_that_says_what(text: str | bytes, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        strict_json(text)
