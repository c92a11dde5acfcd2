"""Digests of what an episode was graded with and no file keeps: what a repeated draw is compared with."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from karotte_gym.store import ProtectedStore

__all__ = ["GradedWith", "digest_of_mapping", "digest_of_store"]


@dataclass(frozen=True, slots=True)
class GradedWith:
    """Of one submission: digests of `Task.grading_data` and of the store; "" for what was empty."""

    data_sha256: str = ""
    store_sha256: str = ""


def digest_of_mapping(data: Mapping[str, bytes]) -> str:
    """Over names and contents, in the order of names; "" when there is none."""
    if not data:
        return ""
    digest = hashlib.sha256()
    for name in sorted(data):
        digest.update(f"{name}\0{hashlib.sha256(data[name]).hexdigest()}\n".encode())
    return digest.hexdigest()


def digest_of_store(store: ProtectedStore) -> str:
    """Over all that hooks and tools have put there; "" when that is nothing."""
    return digest_of_mapping({key: json.dumps(value, sort_keys=True).encode() for key, value in store.items()})
