"""`ChatModel`: one model behind litellm, asked once or as often as its retries allow. Agents and judges talk through it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from karotte_gym.errors import ConfigError
from karotte_gym.models import event_loop
from karotte_gym.models.catalogue import ModelInfo, model_info, reasoning_level
from karotte_gym.models.errors import ContextExceeded, Stopped
from karotte_gym.models.failures import ContentFiltered, failure_of
from karotte_gym.models.keys import Secrets, find_key, hidden_in
from karotte_gym.models.litellm_door import guard_logs, litellm, redirectless_client
from karotte_gym.models.retry import Failure, Retrying, RetryPolicy
from karotte_gym.models.stopping import StopSignal

__all__ = ["ChatModel"]

T = TypeVar("T")
Read = Callable[[dict[str, Any], float | None], T]
_DEFAULT_OUTPUT_TOKENS = 32_000  # where a limit has to be sent; some models' own is their whole context
_NO_KEY = "no-key"  # OpenAI's client wants some text, and local servers read none


class ChatModel:
    """A model by litellm's name, e.g. ``anthropic/claude-sonnet-5`` or ``openai/<any>`` with an `api_base`.

    `api_key`: the key, ``$NAME``, or None for the provider's usual variable. `timeout_s` bounds one attempt from first
    byte sent to last byte read, whatever the server does in between. `extra` goes into the request as it is. Nothing
    that comes back holds a key. The network is first touched by `ask`.
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

    def retrying(self) -> Retrying:
        """Fresh budgets, and where a call's failures are noted."""
        return Retrying(self._retries, self._stop.wait)

    def ask(self, request: Mapping[str, Any], read: Read[T], retrying: Retrying | None = None) -> T:
        """What `read` makes of the answer (plain data, secrets taken out) and of its price.

        `read` raises for an answer that is none, which is then a failure of the server's and retried; the
        ContentFiltered that it may raise passes through. Raises
        ProviderError when retries are used up, Stopped, ContextExceeded, ContentFiltered.
        """
        return (retrying or self.retrying()).run(lambda: self._attempt(request, read))

    def _attempt(self, request: Mapping[str, Any], read: Read[T]) -> T | Failure:
        """A result, or why there is none. The exception is left behind here: its chain may hold the key."""
        if self._stop.is_set():
            raise Stopped
        litellm()  # here, since the import takes longer than an attempt may
        guard_logs(self.secrets)
        try:
            answer, cost_usd = event_loop.run(self._complete(request), timeout_s=self._timeout_s, stop=self._stop)
            return read(self.secrets.redact_all(answer), cost_usd)
        except (Stopped, ContentFiltered):
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

    async def _complete(self, request: Mapping[str, Any]) -> tuple[dict[str, Any], float | None]:
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
