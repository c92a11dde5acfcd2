"""The page: one HTML file with its script, style and data, which loads nothing from anywhere.

Everything in it came from models and machines that will try everything. Three layers keep it text: data stands in
blocks that no browser runs, escaped so that none can end early; the script puts it on the page as text only; and a
policy lets this script and this style run and nothing else, neither inline handlers nor anything from the network.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

from karotte_gym.errors import ConfigError
from karotte_gym.report.store import Store

__all__ = ["page", "policy", "write_report"]

_SCRIPTS = ("dom.js", "source.js", "filter.js", "charts.js", "table.js", "record.js", "conversation.js", "main.js")
_GZIP_LEVEL = 6


def write_report(directory: str | Path, output: str | Path) -> int:
    """Write everything below `directory` into the file `output`; returns its size. ConfigError when it can't be."""
    store, output = Store(directory), Path(output)
    try:
        handle, temporary = tempfile.mkstemp(dir=output.parent, prefix=f".{output.name}.")
    except OSError as error:
        raise ConfigError(f"{output} can't be written: {error.strerror}") from error
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as stream:
            for piece in page(store):
                stream.write(piece)
            os.fchmod(stream.fileno(), 0o644)
        os.replace(temporary, output)
    except BaseException:
        os.unlink(temporary)
        raise
    return output.stat().st_size


def page(store: Store | None) -> Iterator[str]:
    """The page in pieces, for an episode may be large. Without a store: the page that asks its server for all."""
    script, style = _script(), _asset("page.css")
    head, tail = _asset("page.html").split("{{data}}")
    values = {"policy": policy(served=store is None), "style": style, "script": script}
    yield _filled(head, values)
    if store is not None:
        overview = store.overview()
        yield _block("overview", "application/json", _inert(overview))
        for number, each in enumerate(overview["rows"]):
            yield _block(f"episode-{number}", "text/plain", _packed(store.episode(each["id"])))
    yield _filled(tail, values)


def policy(*, served: bool) -> str:
    """The content security policy, by digest of the one script and the one style."""
    parts = [
        "default-src 'none'",
        f"script-src {_digest(_script())}",
        f"style-src {_digest(_asset('page.css'))}",
        "img-src data:",  # pictures that a tool showed to the model
        "base-uri 'none'",
        "form-action 'none'",
        *(["connect-src 'self'"] if served else []),
    ]
    return "; ".join(parts)


def _script() -> str:
    return "\n".join(['"use strict";', *(_asset(name) for name in _SCRIPTS)])


def _asset(name: str) -> str:
    return resources.files("karotte_gym.report").joinpath("assets", name).read_text("utf-8")


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _filled(template: str, values: dict[str, str]) -> str:
    for name, value in values.items():
        template = template.replace("{{" + name + "}}", value)
    return template


def _block(identity: str, kind: str, content: str) -> str:
    return f'<script type="{kind}" id="{identity}">{content}</script>\n'


def _inert(value: Any) -> str:
    """JSON that can end no element and open no comment: every < > & is written as an escape of JSON's own."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _packed(value: Any) -> str:
    """Compressed, in letters and digits: small enough for thousands, unpacked by the page when it is looked at."""
    text = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
    return base64.b64encode(gzip.compress(text, _GZIP_LEVEL, mtime=0)).decode()
