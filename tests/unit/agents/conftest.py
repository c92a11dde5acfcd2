"""An agent for a server of the test's own, with waits too short to matter."""

from __future__ import annotations

from typing import Any

import pytest

from karotte_gym.agents import LLMAgent, RetryPolicy
from tests.model_server import ModelServer

MODELS = {"openai": "openai/some-model", "anthropic": "anthropic/claude-sonnet-4-5"}
CANARY = "sk-canary-6e1f0b9c4d7a"
QUICK = {"max_wait_s": 0.05, "max_retry_after_s": 5.0}


def agent_for(server: ModelServer, protocol: str, *, stream: bool = False, **options: Any) -> LLMAgent:
    base = server.url + ("/v1" if protocol == "openai" else "")
    options.setdefault("retries", RetryPolicy(**QUICK))  # type: ignore[arg-type]
    return LLMAgent(MODELS[protocol], api_key=CANARY, api_base=base, stream=stream, **options)


@pytest.fixture(params=["openai", "openai-stream", "anthropic", "anthropic-stream"])
def dialect(request: pytest.FixtureRequest) -> tuple[str, bool]:
    """Protocol and whether answers are streamed."""
    protocol, _, stream = request.param.partition("-")
    return protocol, bool(stream)


@pytest.fixture(scope="session", autouse=True)
def litellm_is_warm() -> None:
    """Its import takes seconds, which no test that measures time should pay for."""
    from karotte_gym.models.litellm_door import litellm

    litellm()
