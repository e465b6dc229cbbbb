"""Converts single values of a Hermes database to our layout and to export records; pure."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from hermes_sessions.model.ids import MAX_ID_LENGTH, shortened_id, stored_length
from hermes_sessions.storage.codec import (
    JSON,
    decode_content,
    decode_text,
    encode_content,
    encode_text,
    to_json,
)
from hermes_sessions.storage.sqlite import hermes_schema
from hermes_sessions.storage.tables import MESSAGES, SESSIONS

#: Marks lists and objects inside the text of the old layout.
_MARK: Final = "\x00json:"
_NUL: Final = "\x00"
_ESCAPE: Final = "\ufdd0"
Value = str | bytes | int | float | None


def decode_lossless(raw: bytes) -> str:
    """Decode bytes; invalid UTF-8 becomes lone surrogates, which can be encoded back."""
    return raw.decode("utf-8", "surrogateescape")


def needs_conversion(value: Value, *, undecodable: bool) -> bool:
    """Return whether a value of a text column is stored differently in our layout.

    *undecodable* says that the row holds text that is not valid UTF-8.
    """
    if isinstance(value, str):
        return undecodable or _NUL in value or (not value.isascii() and _ESCAPE in value)
    return isinstance(value, bytes)


def stored_text(value: Value) -> Value:
    """Return a value of a text column as our layout stores it."""
    if isinstance(value, bytes):
        value = decode_lossless(value)
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
        # The text only looks like marked JSON; keep it as text.
        return None
    return unescaped_json(marked)


def unescaped_json(text: str) -> str:
    """Return JSON with characters instead of their escapes, so that it can be searched.

    JSON that could not be restored exactly is returned unchanged.
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
    """Return seconds since the epoch for a number or an ISO date; *otherwise* if unreadable."""
    if isinstance(value, (int, float)):
        return float(value) if math.isfinite(value) else otherwise
    if isinstance(value, bytes):
        value = decode_lossless(value)
    try:
        moment = datetime.fromisoformat(value or "")
    except ValueError:
        return otherwise
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def set_aside(values: Mapping[str, Value]) -> str:
    """Return the JSON for ``extra`` of values that have no column."""
    texts = {k: decode_lossless(v) if isinstance(v, bytes) else v for k, v in values.items()}
    # JSON has no infinite numbers.
    texts = {k: str(v) if isinstance(v, float) else v for k, v in texts.items()}
    return encode_text(to_json(texts))


def tool_calls_in(column: Value) -> Any:
    """Return the decoded tool calls, or None if they cannot be read."""
    try:
        return json.loads(column) if isinstance(column, (str, bytes)) and column else None
    except (ValueError, RecursionError):
        return None


Record = dict[str, Any]

#: Columns of ``session_model_usage`` that have another name here.
USAGE_NAMES: Final = {"first_seen": "first_at", "last_seen": "last_at"}
FOREIGN_ROW: Final = ("origin", "table_name", "row_key", "row")
#: Columns that appear in records; below, grouped by type.
_COLUMNS: Final = [
    column for column in (*SESSIONS.columns, *MESSAGES.columns) if column.access != "hidden"
]
_NUMBERS: Final = frozenset(c.name for c in _COLUMNS if c.holds in ("count", "amount"))
_FLAGS: Final = frozenset(c.name for c in _COLUMNS if c.holds == "flag")
_TEXTS: Final = frozenset(
    c.name for c in _COLUMNS if c.access == "given" and c.holds in ("text", "json")
) - {"tool_calls"}
#: Times that may be missing; the others have rules of their own.
_OPTIONAL_TIMES: Final = frozenset(
    c.name for c in _COLUMNS if c.holds == "time" and not c.documented and not c.required
)
#: Keys of our records that no release of Hermes has. A column of the same name in a later layout
#: means something else.
_NOT_THEIRS: Final = (
    frozenset(c.name for c in _COLUMNS)
    - frozenset(hermes_schema.names(hermes_schema.SESSIONS, 22))
    - frozenset(hermes_schema.names(hermes_schema.MESSAGES, 22))
) | frozenset("messages model_usage rewinds preview _lineage_root_id".split())


def message_record(raw: Mapping[str, Any], before: float) -> Record:
    """Return a message in the documented shape; *before* replaces a missing time."""
    odd: dict[str, Any] = {}
    message = typed_row(raw, odd)
    message["role"] = message.get("role") or "unknown"
    message["timestamp"] = time_or_default("timestamp", raw.get("timestamp"), odd, before)
    column, content_type = stored_content(raw.get("content"))
    if isinstance(column, str):
        message["content"] = decode_content(decode_text(column), content_type)
    if content_type is not None:
        message["content_type"] = content_type
    message["tool_calls"] = _decoded_calls(plain_text(raw.get("tool_calls")))
    return with_rejected_values(message, odd)


def _decoded_calls(text: str | None) -> Any:
    """Return decoded tool calls, so that they are stored unescaped; other text unchanged."""
    try:
        value = json.loads(text) if text else None
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, (list, dict)) else text


def typed_row(raw: Mapping[str, Any], odd: dict[str, Any]) -> Record:
    """Return a row as a record; values that its columns cannot hold are moved to *odd*."""
    record = {name: typed(name, value, odd) for name, value in raw.items()}
    return {name: value for name, value in record.items() if name not in _NOT_THEIRS}


def typed(name: str, value: Any, odd: dict[str, Any]) -> Any:
    """Return the value if its column can hold it; else move it to *odd* and return None."""
    if name in _NOT_THEIRS or (name in _NUMBERS and not isinstance(value, (int, float))):
        if value is not None:
            odd[name] = _jsonable_value(value)
        return None
    if name in _TEXTS:
        return plain_text(value)
    if name in _FLAGS:
        if value is not None and value not in (0, 1):
            odd[name] = _jsonable_value(value)
        return value if value in (0, 1) else None
    if name in _OPTIONAL_TIMES:
        return time_or_default(name, value, odd, None)
    return _jsonable_value(value)


def time_or_default(
    name: str, value: Any, odd: dict[str, Any], otherwise: float | None
) -> float | None:
    """Return a time; move one that is not a number to *odd*, and use *otherwise* if unreadable."""
    if is_finite(value):
        return float(value)
    if value is None:
        return otherwise
    odd[name] = _jsonable_value(value)
    found = time_from(value, math.nan) if not isinstance(value, float) else math.nan
    return otherwise if math.isnan(found) else found


def is_finite(value: Any) -> bool:
    """Return whether a value is a number that can be a time."""
    return isinstance(value, (int, float)) and math.isfinite(value)


def with_rejected_values(record: Record, odd: dict[str, Any]) -> Record:
    """Return a record with the rejected values in ``extra``."""
    return record | {"extra": odd} if odd else record


def plain_text(value: Any) -> str | None:
    """Return a value of a text column; invalid UTF-8 becomes lone surrogates."""
    if isinstance(value, bytes):
        return decode_lossless(value)
    return value if value is None or isinstance(value, str) else str(value)


def decoded(value: Any) -> Any:
    """Return a value of our own store without the escapes of the codec."""
    return decode_text(value) if isinstance(value, str) else value


def jsonable(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row as JSON can hold it; bytes become ``{"$bytes": base64}``."""
    return {name: _jsonable_value(value) for name, value in values.items()}


def _jsonable_value(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"$bytes": base64.b64encode(value).decode("ascii")}
    return value


def object_in(text: Any) -> dict[str, Any] | None:
    """Return the JSON object in a text, or None."""
    try:
        value = json.loads(text) if isinstance(text, str) and text else None
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def usable_id(key: Any) -> str | None:
    """Return a session's key as an id, shortened by a digest if it is too long; None if it is
    blank.
    """
    text = plain_text(key)
    if text is None or not text.strip():
        return None
    return shortened_id(text)


def row_key(key_columns: Sequence[str], values: Mapping[str, Any]) -> str:
    """Return the key of a row in ``foreign_rows``; of all its values if its table has no key."""
    names = key_columns or list(values)
    key = to_json(list(jsonable({name: values[name] for name in names}).values()))
    if stored_length(key) <= MAX_ID_LENGTH:
        return key
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def routing_row(values: Mapping[str, Any]) -> tuple[str, str, str, float] | None:
    """Return a row of ``gateway_routing`` as our table holds it, or None if it cannot."""
    texts = [plain_text(values.get(name)) for name in ("scope", "session_key", "entry_json")]
    scope, session_key, entry = texts
    updated_at = values.get("updated_at")
    if scope is None or session_key is None or entry is None or not is_finite(updated_at):
        return None
    if max(stored_length(scope), stored_length(session_key)) > MAX_ID_LENGTH:
        return None
    return scope, session_key, entry, float(updated_at or 0.0)


def key_placeholder(key: Any) -> str:
    """Return the placeholder that makes a key equal the stored text or bytes."""
    return "CAST(? AS TEXT)" if isinstance(key, str) else "?"


def key_value(key: Any) -> Any:
    """Return the value to bind for a key; see `key_placeholder`."""
    return key.encode("utf-8", "surrogateescape") if isinstance(key, str) else key
