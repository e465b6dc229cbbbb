"""What single values of the old layout become in ours; pure."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from hermes_sessions.storage.codec import JSON, encode_content, encode_text, to_json

#: Marks lists and objects inside the text of the old layout.
_MARK: Final = "\x00json:"

_NUL: Final = "\x00"
_ESCAPE: Final = "\ufdd0"

Value = str | bytes | int | float | None


def text_of_bytes(raw: bytes) -> str:
    """Return bytes as text; what is no UTF-8 becomes lone surrogates, which can be turned back."""
    return raw.decode("utf-8", "surrogateescape")


def must_change(value: Value, *, undecodable: bool) -> bool:
    """Return whether a value of a text column is stored differently in our layout.

    *undecodable* says that the row holds text that was no UTF-8.
    """
    if isinstance(value, str):
        return undecodable or _NUL in value or (not value.isascii() and _ESCAPE in value)
    return isinstance(value, bytes)


def stored_text(value: Value) -> Value:
    """Return a value of a text column as our layout stores it."""
    if isinstance(value, bytes):
        value = text_of_bytes(value)
    return encode_text(value) if isinstance(value, str) else value


def stored_content(value: Value) -> tuple[Value, str | None]:
    """Return (column value, content type) for the content of a message."""
    if isinstance(value, str):
        marked = _marked_json(value)
        return (encode_text(value), None) if marked is None else (encode_text(marked), JSON)
    if isinstance(value, bytes):
        return encode_content(value)
    return value, None


def _marked_json(text: str) -> str | None:
    if not text.startswith(_MARK):
        return None
    marked = text.removeprefix(_MARK)
    try:
        json.loads(marked)
    except (ValueError, RecursionError):
        # It never was more than a text that looks like it, and it comes back as that text.
        return None
    return unescaped_json(marked)


def unescaped_json(text: str) -> str:
    """Return JSON with characters instead of their escapes, so that it can be searched.

    Only what can be turned back exactly is changed; anything else comes back as it is.
    """
    if "\\u" not in text:
        return text
    try:
        value = json.loads(text)
        return to_json(value) if json.dumps(value) == text else text
    except (ValueError, RecursionError):
        return text


def is_time(value: Value) -> bool:
    """Return whether a value can be compared and sorted as seconds since the epoch."""
    return isinstance(value, (int, float)) and math.isfinite(value)


def time_from(value: Value, otherwise: float) -> float:
    """Return seconds since the epoch for something that is no number, *otherwise* if unreadable."""
    if isinstance(value, (int, float)):
        return float(value) if math.isfinite(value) else otherwise
    if isinstance(value, bytes):
        value = text_of_bytes(value)
    try:
        moment = datetime.fromisoformat(value or "")
    except ValueError:
        return otherwise
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def set_aside(values: Mapping[str, Value]) -> str:
    """Return what our ``extra`` column holds for values that have no other place."""
    texts = {k: text_of_bytes(v) if isinstance(v, bytes) else v for k, v in values.items()}
    # JSON has no infinite numbers.
    texts = {k: str(v) if isinstance(v, float) else v for k, v in texts.items()}
    return encode_text(to_json(texts))


def tool_calls_in(column: Value) -> Any:
    """Return the decoded tool calls, nothing when they cannot be read."""
    try:
        return json.loads(column) if isinstance(column, (str, bytes)) and column else None
    except (ValueError, RecursionError):
        return None
