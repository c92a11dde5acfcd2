"""`LLMAgent`: a language model plays the student, through litellm."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from karotte_gym.agents.history import for_provider, has_pictures
from karotte_gym.agents.reading import read_turn, used_call_ids
from karotte_gym.agents.turn import Turn, saying
from karotte_gym.models.catalogue import ModelInfo
from karotte_gym.models.chat import ChatModel
from karotte_gym.models.errors import ProviderError
from karotte_gym.models.failures import ContentFiltered
from karotte_gym.models.keys import Secrets
from karotte_gym.models.retry import Retrying, RetryPolicy
from karotte_gym.models.stopping import StopSignal

__all__ = ["LLMAgent"]


class LLMAgent:
    """A model by litellm's name, e.g. ``anthropic/claude-sonnet-5`` or ``openai/<any>`` with an `api_base`.

    `api_key`: the key, ``$NAME``, or None for the provider's usual variable. `timeout_s` bounds one attempt from first
    byte sent to last byte read, whatever the server does in between. `extra` goes into the request as it is. The
    network is first touched by `act`. One agent plays one episode at a time; agents are cheap.
    """

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None = None,
        api_base: str | None = None,
        reasoning_effort: str | None = None,
        temperature: float | None = None,
        max_output_tokens: int | None = None,
        logprobs: bool = False,
        stream: bool = False,
        timeout_s: float = 600.0,
        retries: RetryPolicy | None = None,
        extra: Mapping[str, Any] | None = None,
        stop: StopSignal | None = None,
    ):
        self._model = ChatModel(
            model,
            api_key=api_key,
            api_base=api_base,
            reasoning_effort=reasoning_effort,
            temperature=temperature,
            max_output_tokens=max_output_tokens,
            logprobs=logprobs,
            stream=stream,
            timeout_s=timeout_s,
            retries=retries,
            extra=extra,
            stop=stop,
        )
        self._pictures = True  # until the provider refuses a conversation that has some

    def __repr__(self) -> str:
        return f"LLMAgent({self.info.name!r})"

    @property
    def info(self) -> ModelInfo:
        """What is known about the model."""
        return self._model.info

    @property
    def secrets(self) -> Secrets:
        """What no text of this agent's may hold."""
        return self._model.secrets

    @property
    def context_tokens(self) -> int | None:
        """How long a conversation may grow, as far as that is known."""
        return self.info.context_tokens

    def reset(self, info: Mapping[str, Any]) -> None:  # noqa: ARG002 - an agent's promise; this one needs nothing of it
        """Nothing is carried from one episode to the next."""
        self._pictures = True

    def act(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> Turn:
        """One turn of the model; retries inside. Raises ProviderError, ContextExceeded or Stopped.

        A provider that does not take a conversation with pictures is asked again without them, for the rest of the episode:
        a student could make one that no provider decodes, and an episode that it is losing would end without a verdict.
        """
        retrying = self._model.retrying()
        try:
            turn = self._turn(messages, tools, retrying)
        except ProviderError as error:
            if error.kind not in ("refused", "server") or not self._pictures or not has_pictures(messages):
                raise
            self._pictures = False
            turn = self._turn(messages, tools, retrying)
        return replace(turn, failures=retrying.failures, lost_s=retrying.lost_s)

    def _turn(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]], retrying: Retrying) -> Turn:
        request: dict[str, Any] = {"messages": for_provider(messages, self.info, pictures=self._pictures)}
        if tools:
            request["tools"] = tools
        used_ids = used_call_ids(messages)
        try:
            return self._model.ask(request, lambda answer, cost: read_turn(answer, self.info, used_ids, cost), retrying)
        except ContentFiltered:
            return replace(saying(""), stop="content_filter")
