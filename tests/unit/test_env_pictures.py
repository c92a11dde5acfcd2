"""A picture in an episode: shown to the model, counted, kept as a digest; what is none is answered in words."""

# ruff: noqa: ARG001 - `world` puts machines in memory in place
from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from karotte_gym.envs.q3_revenue import Q3Revenue
from memory_sandbox import World
from test_pictures import png

from karotte_gym.picture_budget import MAX_EPISODE_PICTURE_BYTES
from karotte_gym.tools.pictures import picture_of

VIEW = {"name": "view_image_file", "arguments": {"path": "plots/\x1b[31mred.png"}}


@pytest.fixture
def env(world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[gym.Env[Any, Any]]:
    monkeypatch.setattr(Q3Revenue, "tools", ("bash", "view_image_file"))
    made = gym.make("karotte/q3-revenue", run_dir=str(tmp_path))
    made.reset(seed=1)
    yield made
    made.close()


def test_the_picture_follows_the_result_and_only_its_digest_is_kept(
    env: gym.Env[Any, Any], world: World, tmp_path: Path
) -> None:
    world.read = png(640, 480, pixels=b"whatever is in there is not decoded here")
    image = picture_of(world.read)
    obs, _, _, _, info = env.step(VIEW)
    assert obs["content"] == f"plots/red.png: {image.described()}"  # an escape of the student's is gone
    assert [message["role"] for message in info["messages"]] == ["assistant", "tool", "user"]
    assert info["messages"][1]["content"] == obs["content"]
    assert info["messages"][2]["content"][1] == {"type": "image_url", "image_url": {"url": image.url}}
    assert info["tool"]["exit_code"] == 0
    env.step({"name": "submit", "arguments": {}})
    kept = "".join(path.read_text() for path in tmp_path.rglob("*.json*"))
    assert image.sha256 in kept and image.url[30:60] not in kept


def test_what_is_no_picture_is_answered_in_words(env: gym.Env[Any, Any], world: World) -> None:
    world.read = b"%PDF-1.7"
    obs, _, terminated, _, info = env.step(VIEW)
    assert obs["content"] == "plots/red.png: is no PNG, JPEG, GIF, WebP or BMP\n[exit code 1]" and not terminated
    assert len(info["messages"]) == 2 and info["tool"]["exit_code"] == 1
    world.answer = dataclasses.replace(world.answer, output=b"plots/red.png: No such file or directory\n", exit_code=1)
    obs, _, _, _, info = env.step(VIEW)
    assert obs["content"] == "plots/red.png: No such file or directory\n[exit code 1]"


def test_pictures_can_not_fill_the_trainers_memory(env: gym.Env[Any, Any], world: World) -> None:
    """The attack: the largest picture, again and again. Each would stay in the chat until the episode ends."""
    world.read = png(100, 100, pixels=b"x" * (5 << 20))
    infos = [env.step(VIEW)[4] for _ in range(8)]
    sent = sum(len(json.dumps(info["messages"])) for info in infos)
    assert [len(info["messages"]) for info in infos] == [3, 3, 3, 2, 2, 2, 2, 2]
    assert sent < MAX_EPISODE_PICTURE_BYTES * 4 / 3 + 20_000
    env.reset()
    assert len(env.step(VIEW)[4]["messages"]) == 3
