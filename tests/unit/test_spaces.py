"""The spaces hold what they say, and vector environments can batch them."""

import pickle

import pytest
from gymnasium import spaces
from gymnasium.vector.utils import batch_space
from hypothesis import given
from hypothesis import strategies as st

from karotte_gym.spaces import TextSpace, ToolCallSpace

TOOLS = ("bash", "submit")


@given(st.text(max_size=300))
def test_text_of_any_alphabet_is_in_the_space_up_to_its_length(text: str) -> None:
    assert (text in TextSpace(100)) == (len(text) <= 100)


@pytest.mark.parametrize("value", [b"x", 7, None, ["x"], {"x": 1}])
def test_what_is_no_text_is_not_in_the_space(value: object) -> None:
    assert value not in TextSpace(100)


@pytest.mark.parametrize("make", [lambda: TextSpace(100, min_length=2), lambda: ToolCallSpace(TOOLS)])
def test_a_space_survives_pickling_and_repeats_its_samples_from_a_seed(make) -> None:  # type: ignore[no-untyped-def]
    first, second = make(), pickle.loads(pickle.dumps(make()))
    assert first == second
    assert hash(first) == hash(second)
    first.seed(3)
    second.seed(3)
    samples = [first.sample() for _ in range(20)]
    assert samples == [second.sample() for _ in range(20)]
    assert all(sample in second for sample in samples)
    assert samples != samples[:1] * 20


def test_spaces_of_other_bounds_or_tools_differ() -> None:
    assert TextSpace(5) != TextSpace(6)
    assert ToolCallSpace(TOOLS) != ToolCallSpace(("submit",))
    assert TextSpace(5) != spaces.Text(5)


@pytest.mark.parametrize(
    "call",
    [
        {"name": "bash", "arguments": {"command": "id"}},
        {"name": "bash", "arguments": '{"command": "id"}'},
        {"id": "call_1", "type": "function", "function": {"name": "submit", "arguments": "{}"}},
    ],
)
def test_both_forms_of_a_call_are_in_the_space(call: object) -> None:
    assert call in ToolCallSpace(TOOLS)


@pytest.mark.parametrize(
    "call",
    [{}, None, "bash", 3, {"name": "rm", "arguments": {}}, {"name": ["bash"], "arguments": {}}, {"name": "bash"}],
)
def test_other_forms_are_not(call: object) -> None:
    assert call not in ToolCallSpace(TOOLS)


def test_a_space_without_a_shell_still_samples_a_call_of_its_own() -> None:
    space = ToolCallSpace(("submit",))
    assert space.sample() in space


def test_masks_are_refused() -> None:
    with pytest.raises(ValueError, match="mask"):
        TextSpace(5).sample(mask=1)


def test_both_batch_into_a_tuple() -> None:
    batched = batch_space(ToolCallSpace(TOOLS), 3)
    assert isinstance(batched, spaces.Tuple)
    assert batched.sample() in batched
    observation = batch_space(spaces.Dict({"content": TextSpace(9)}), 2)
    assert {"content": ("é", "☃")} in observation
