"""The only place that imports litellm: lazily, with its network look-ups, telemetry, retries and chatter switched off.

The import takes seconds and, left alone, fetches price lists from the network, loads a ``.env`` of the working
directory and prints advertisements on errors. None of that belongs into a training run.
"""

from __future__ import annotations

import functools
import importlib
import os
import threading
from typing import Any

from karotte_gym.errors import ConfigError
from karotte_gym.models.keys import Secrets

__all__ = ["guard_logs", "litellm", "redirectless_client"]

_ENVIRONMENT = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",
    "LITELLM_LOCAL_BLOG_POSTS": "True",
    "LITELLM_LOCAL_POLICY_TEMPLATES": "True",
    "LITELLM_OFFLINE_MODE": "true",  # its own look-ups only, not the requests that we make
    "LITELLM_MODE": "PRODUCTION",  # "DEV" loads a .env of the working directory
}
_LOGGERS = ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy", "httpx", "httpcore", "openai", "asyncio")
# Providers whose key travels in a header that httpx does not take off when it follows a redirect to another host.
# (vLLM's does come off, but litellm takes a client for it, so there no redirect is followed at all.)
_TAKE_A_CLIENT = frozenset({"anthropic", "gemini", "hosted_vllm"})
_lock = threading.Lock()  # many episodes may begin at once, and a half-imported litellm is no litellm


def litellm() -> Any:
    """The module, set up once per process. Takes seconds the first time, so not first inside the event loop."""
    with _lock:
        return _set_up()


@functools.cache
def _set_up() -> Any:
    os.environ.update(_ENVIRONMENT)
    try:
        module: Any = importlib.import_module("litellm")
    except ImportError as error:
        raise ConfigError(f"litellm can't be imported ({error}); it is a dependency: pip install litellm") from error
    import httpx

    module.suppress_debug_info = True
    module.telemetry = False
    module.drop_params = False  # an option that a model does not take is the user's to know about
    module.disable_aiohttp_transport = True  # one HTTP stack, whose errors `failures.py` knows by type
    module.aclient_session = httpx.AsyncClient(follow_redirects=False, timeout=None, limits=_limits())
    return module


def _limits() -> Any:
    import httpx

    return httpx.Limits(max_connections=None, max_keepalive_connections=200)


@functools.cache
def redirectless_client(provider: str | None) -> Any:
    """A client to hand to litellm for providers whose key would otherwise follow a redirect to anybody; else None."""
    if provider not in _TAKE_A_CLIENT:
        return None
    litellm()
    handler = importlib.import_module("litellm.llms.custom_httpx.http_handler")
    return handler.AsyncHTTPHandler(follow_redirects=False)


def guard_logs(secrets: Secrets) -> None:
    """Keys out of the logs of everything that sees a request, at whatever level somebody turns them on."""
    for name in _LOGGERS:
        secrets.guard_logger(name)
