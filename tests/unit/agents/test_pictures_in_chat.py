"""Pictures on their way to a model, in both protocols, and what happens when the provider can't read one."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from karotte_gym.agents import ProviderError
from karotte_gym.agents.turn import Turn
from karotte_gym.messages import call_messages, image_messages
from karotte_gym.tools.pictures import picture_of
from tests.model_server import Fail, ModelServer, Reply, Request, Say
from tests.unit.agents.conftest import agent_for
from tests.unit.agents.little_env import PIXEL

IMAGE = picture_of(base64.b64decode(PIXEL.partition(",")[2]))
OPENING = [{"role": "system", "content": "s"}, {"role": "user", "content": "look"}]
CHAT = [*OPENING, *call_messages("call_1", "view_image_file", {"path": "p.png"}, "p.png: PNG"), *image_messages([IMAGE])]
Dialect = tuple[str, bool]


def ask(dialect: Dialect, script: Any, times: int = 1) -> tuple[list[Turn], list[str]]:
    with ModelServer(script) as server:
        agent = agent_for(server, dialect[0], stream=dialect[1])
        agent.reset({})
        turns = [agent.act(CHAT, []) for _ in range(times)]
        return turns, [json.dumps(request.body) for request in server.requests]


def blind(request: Request) -> Reply:
    """A provider that can't decode what the student made."""
    return Fail(400) if _data(IMAGE.url) in json.dumps(request.body) else Say("I see nothing.")


def _data(url: str) -> str:
    return url.partition(",")[2]


def test_the_model_gets_the_picture_behind_the_result(dialect: Dialect) -> None:
    _, (body,) = ask(dialect, [Say("I see.")])
    assert body.count(_data(IMAGE.url)) == 1
    assert body.index("p.png: PNG") < body.index("The picture that the tool read:") < body.index(_data(IMAGE.url))
    assert ('"media_type": "image/png"' in body) == (dialect[0] == "anthropic")


def test_a_picture_that_the_provider_can_not_read_is_left_out_and_ends_no_episode(dialect: Dialect) -> None:
    """A student could make one on purpose, when it is losing: a provider's error is no verdict."""
    turns, bodies = ask(dialect, blind, times=2)
    assert [turn.text for turn in turns] == ["I see nothing."] * 2
    assert [_data(IMAGE.url) in body for body in bodies] == [True, False, False]
    assert "a picture was left out: this provider refused the conversation with it" in bodies[1]
    assert [len(turn.failures) for turn in turns] == [1, 0]


def test_a_refusal_for_another_reason_still_counts(dialect: Dialect) -> None:
    with pytest.raises(ProviderError) as caught:
        ask(dialect, [Fail(400), Fail(400)])
    assert caught.value.kind == "refused"
    with ModelServer([Fail(400), Say("never asked")]) as server, pytest.raises(ProviderError):
        agent_for(server, dialect[0], stream=dialect[1]).act(OPENING, [])
