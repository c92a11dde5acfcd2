"""Gymnasium's own checker passes on the environment as `gym.make` gives it, in real machines."""

from __future__ import annotations

import warnings

import gymnasium as gym
import pytest
from gymnasium.utils.env_checker import check_env

pytestmark = pytest.mark.machine


def test_check_env_passes_without_a_warning() -> None:
    with gym.make("karotte/q3-revenue", render_mode="ansi") as env, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_env(env, skip_render_check=False)
    complaints = [str(warning.message) for warning in caught if issubclass(warning.category, UserWarning)]
    # It would like to see bare environments; ours is checked as it is used, with the wrappers that pay.
    assert [text for text in complaints if "is different from the unwrapped version" not in text] == []
