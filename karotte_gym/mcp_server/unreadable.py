"""What is answered to a line that the SDK can't read: it says nothing to one, and whoever asked would wait for ever.

A model's half a character (a lone surrogate) in an argument is enough for that, and so is a batch, which the protocol
had once.
"""

from __future__ import annotations

import json
from typing import Any

import mcp_types as types

__all__ = ["refusals"]

_MAX_REASON_CHARS = 200


def refusals(line: str) -> list[str]:
    """Errors to send, each for the request whose id can be made out, else one for none; [] for what the SDK reads."""
    if not line.strip():
        return []
    try:
        read = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
        reason = "the id of a request is a text or a whole number"
    except Exception as error:  # of whatever kind the SDK's reader may raise
        read, reason = None, str(error)
    if read is not None and not isinstance(read, types.JSONRPCNotification):
        return []
    try:
        said = json.loads(line)
    except (ValueError, RecursionError) as error:
        return [_error(None, types.PARSE_ERROR, str(error))]
    if read is not None and "id" not in said:
        return []
    if isinstance(said, list):
        reason = "there are no batches in this protocol; send each message in a line of its own"
    messages = said if isinstance(said, list) and said else [said]
    found = {_identity(message) for message in messages if not _needs_no_answer(message)}
    return [_error(identity, types.INVALID_REQUEST, reason) for identity in found - {None} or found]


def _needs_no_answer(message: Any) -> bool:
    """A notification, or an answer of the other side's: its id is one of ours, and would be taken for one of its own."""
    if not isinstance(message, dict):
        return False
    if "method" in message:
        return "id" not in message
    return "result" in message or "error" in message


def _identity(message: Any) -> int | str | None:
    identity = message.get("id") if isinstance(message, dict) else None
    if isinstance(identity, bool) or not isinstance(identity, int | str):
        return None
    return identity


def _error(identity: int | str | None, code: int, reason: str) -> str:
    """Escaped, so that half a character in an id goes back as it came."""
    error = {"code": code, "message": f"the message can't be read: {' '.join(reason.split())[:_MAX_REASON_CHARS]}"}
    return json.dumps({"jsonrpc": "2.0", "id": identity, "error": error}) + "\n"
