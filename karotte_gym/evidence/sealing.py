"""The record's own digest: `sealed` puts it in, `broken_seal` says what of it no longer holds.

Without a key a seal finds accidents and careless edits; who can write the directory can make another. With a key in
``KAROTTE_GYM_RECORD_KEY`` it takes that key to make one, so a record that was changed where the key is not is noticed.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from pathlib import Path

from pydantic import ValidationError

from karotte_gym.errors import ConfigError, EvidenceError
from karotte_gym.record import FORMAT, CompletionRecord, Seal
from karotte_gym.run_files import json_text, read_bounded
from karotte_gym.strict_json import strict_json

__all__ = ["KEY_VARIABLE", "MAX_RECORD_BYTES", "broken_seal", "key_from_environment", "read_record", "sealed"]

KEY_VARIABLE = "KAROTTE_GYM_RECORD_KEY"
MIN_KEY_CHARS = 16  # fewer can be guessed by who has one record
MAX_RECORD_BYTES = 128 * 1024 * 1024  # 10,000 submitted entries of the longest names that custody takes


def key_from_environment() -> bytes | None:
    """The key, or None when none is set. ConfigError when it is too short to be one."""
    key = os.environ.get(KEY_VARIABLE)
    if not key:
        return None
    if len(key) < MIN_KEY_CHARS:
        raise ConfigError(f"{KEY_VARIABLE} has {len(key)} characters; give it {MIN_KEY_CHARS} random ones or more")
    return os.fsencode(key)


def sealed(record: CompletionRecord, key: bytes | None) -> CompletionRecord:
    """The record with its seal."""
    return record.model_copy(update={"seal": _seal(record, key)})


def broken_seal(record: CompletionRecord, key: bytes | None) -> str | None:
    """What the seal shows to be wrong, as a sentence; None when it holds as far as can be told with or without the key."""
    if record.seal is None:
        return "the record has no seal"
    expected = _seal(record, key)
    if not hmac.compare_digest(record.seal.sha256, expected.sha256):
        return "the record was changed after it was sealed"
    if key is None:
        return None
    if record.seal.hmac_sha256 is None:
        return f"the record is not signed, though {KEY_VARIABLE} is set"
    if not hmac.compare_digest(record.seal.hmac_sha256, expected.hmac_sha256 or ""):
        return f"the record was not signed with the key in {KEY_VARIABLE}"
    return None


def read_record(path: Path) -> CompletionRecord:
    """Of a ``record.json``. EvidenceError says in a sentence why a file is none; no byte of it is passed over."""
    data = read_bounded(path, MAX_RECORD_BYTES)
    try:
        values = strict_json(data)
        if not isinstance(values, dict):
            raise ValueError("it is no JSON object")
        if values.get("format") != FORMAT:
            raise ValueError(f"its format is {values.get('format')!r:.50}, this version reads {FORMAT}")
        record = CompletionRecord.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        raise EvidenceError(f"{path} is no completion record: {name[:200]}: {first['msg'][:200]}") from error
    except (ValueError, RecursionError) as error:
        raise EvidenceError(f"{path} is no completion record: {error}") from error
    if data != json_text(values).encode():
        raise EvidenceError(f"{path} was changed: it is not as karotte-gym writes it")
    return record


def _seal(record: CompletionRecord, key: bytes | None) -> Seal:
    content = record.model_dump(mode="json", exclude={"seal"})
    data = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode()
    signature = None if key is None else hmac.new(key, data, hashlib.sha256).hexdigest()
    return Seal(sha256=hashlib.sha256(data).hexdigest(), hmac_sha256=signature)
