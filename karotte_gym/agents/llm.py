"""`LLMAgent`: a language model plays the student, through litellm."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from karotte_gym.agents import event_loop
from karotte_gym.agents.catalogue import ModelInfo, model_info, reasoning_level
from karotte_gym.agents.errors import ContextExceeded, Stopped
from karotte_gym.agents.failures import ContentFiltered, failure_of
from karotte_gym.agents.history import for_provider
from karotte_gym.agents.keys import Secrets, find_key, hidden_in
from karotte_gym.agents.litellm_door import guard_logs, litellm, redirectless_client
from karotte_gym.agents.reading import read_turn, used_call_ids
from karotte_gym.agents.retry import Failure, Retrying, RetryPolicy
from karotte_gym.agents.stopping import StopSignal
from karotte_gym.agents.turn import Turn, saying
from karotte_gym.errors import ConfigError

__all__ = ["LLMAgent"]

_DEFAULT_OUTPUT_TOKENS = 32_000  # where a limit has to be sent; some models' own is their whole context
_NO_KEY = "no-key"  # OpenAI's client wants some text, and local servers read none


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
        self.info: ModelInfo = model_info(model)
        key = find_key(api_key, self.info.talk.key_variables)
        if key is None and not api_base and not self.info.talk.key_optional:
            variables = " or ".join(self.info.talk.key_variables)
            raise ConfigError(f"no key for {self.info.name}: set {variables}, or give api_key")
        self._key = key or (_NO_KEY if api_base else None)
        self.secrets = Secrets(key, *hidden_in(extra or {}), urls=[api_base])
        self._api_base, self._timeout_s, self._stream = api_base, timeout_s, stream
        self._retries, self._stop = retries or RetryPolicy(), stop or StopSignal()
        self._options = self._request_options(reasoning_effort, temperature, max_output_tokens, logprobs, extra)
        self._wait: Callable[[float], bool] = self._stop.wait

    def __repr__(self) -> str:
        return f"LLMAgent({self.info.name!r})"

    @property
    def context_tokens(self) -> int | None:
        """How long a conversation may grow, as far as that is known."""
        return self.info.context_tokens

    def reset(self, info: Mapping[str, Any]) -> None:
        """Nothing is carried from one episode to the next."""

    def act(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> Turn:
        """One turn of the model; retries inside. Raises ProviderError, ContextExceeded or Stopped."""
        request: dict[str, Any] = {"messages": for_provider(messages, self.info)}
        if tools:
            request["tools"] = tools
        used_ids = used_call_ids(messages)
        retrying = Retrying(self._retries, self._wait)
        try:
            turn = retrying.run(lambda: self._attempt(request, used_ids))
        except ContentFiltered:
            turn = replace(saying(""), stop="content_filter")
        return replace(turn, failures=retrying.failures, lost_s=retrying.lost_s)

    def _attempt(self, request: dict[str, Any], used_ids: set[str]) -> Turn | Failure:
        """A turn, or why there is none. The exception is left behind here: its chain may hold the key."""
        if self._stop.is_set():
            raise Stopped
        litellm()  # here, since the import takes longer than an attempt may
        guard_logs(self.secrets)
        try:
            answer, cost_usd = event_loop.run(self._complete(request), timeout_s=self._timeout_s, stop=self._stop)
            return read_turn(self.secrets.redact_all(answer), self.info, used_ids, cost_usd)
        except Stopped:
            raise
        except Exception as error:  # whatever litellm raises: judged by type, and by default a failure of the server
            failure = self._judge(error)
        if isinstance(failure, Failure):
            return failure
        raise failure

    def _judge(self, error: Exception) -> Failure | Exception:
        message = f"no answer within {self._timeout_s:g} s" if isinstance(error, TimeoutError) else str(error)
        try:
            return failure_of(error, self.secrets.redact(message))
        except ContextExceeded:
            return ContextExceeded("the conversation no longer fits the model")
        except ContentFiltered:
            return ContentFiltered("the provider's content filter refused the conversation")

    async def _complete(self, request: dict[str, Any]) -> tuple[dict[str, Any], float | None]:
        door = litellm()
        answer = await door.acompletion(
            model=self.info.name,
            api_key=self._key,
            api_base=self._api_base,
            timeout=self._timeout_s,
            max_retries=0,
            num_retries=0,
            stream=self._stream,
            client=redirectless_client(self.info.provider),
            **request,
            **self._options,
        )
        if self._stream:
            answer = await self._whole(door, answer)
        return answer.model_dump(), _cost(door, answer)

    async def _whole(self, door: Any, stream: Any) -> Any:
        """All of a stream or an error: litellm ends one that broke off as if the model had finished."""
        chunks = [chunk async for chunk in stream]
        if getattr(stream, "received_finish_reason", None) is None:
            raise ConnectionError("the stream ended before the answer did")
        return door.stream_chunk_builder(chunks)

    def _request_options(
        self,
        effort: str | None,
        temperature: float | None,
        max_output_tokens: int | None,
        logprobs: bool,
        extra: Mapping[str, Any] | None,
    ) -> dict[str, Any]:
        options: dict[str, Any] = {}
        if effort is not None:
            options["reasoning_effort"] = reasoning_level(self.info, effort)
            options["allowed_openai_params"] = ["reasoning_effort"]
        if temperature is not None:
            options["temperature"] = temperature
        if max_output_tokens is None and self.info.talk.needs_output_limit:
            max_output_tokens = min(self.info.max_output_tokens or _DEFAULT_OUTPUT_TOKENS, _DEFAULT_OUTPUT_TOKENS)
        if max_output_tokens is not None:
            options["max_tokens"] = max_output_tokens
        if logprobs:
            options["logprobs"] = True
            if self.info.talk.token_ids:
                options["extra_body"] = {"return_token_ids": True}
        if self._stream:
            options["stream_options"] = {"include_usage": True}
        return {**options, **(extra or {})}


def _cost(door: Any, answer: Any) -> float | None:
    """litellm's price, which knows about caches and tiers; None when it does not know the model."""
    try:
        cost = door.completion_cost(completion_response=answer)
    except Exception:  # it raises a plain Exception for a model it has no price for
        return None
    return float(cost) if cost else None
