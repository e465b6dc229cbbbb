"""Type checks of single values in import records."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from hermes_sessions.errors import InvalidInput
from hermes_sessions.model import labels
from hermes_sessions.storage.codec import from_json, to_json

_MAX_INTEGER: Final = 2**63 - 1


def first_known(*times: float | None) -> Any:
    """Return the first value that is not None, or None."""
    return next((time for time in times if time is not None), None)


def _shown(value: Any) -> str:
    try:
        return f"{value!r:.50}"
    except (ValueError, RecursionError):  # Python refuses to format very long numbers.
        return type(value).__name__


def text(name: str, value: Any) -> str | None:
    """Return *value* if it is text or None, else raise `InvalidInput`."""
    if value is None or isinstance(value, str):
        return value
    raise InvalidInput(f"{name} must be text, not {type(value).__name__}.")


def number(name: str, value: Any) -> int | float | None:
    """Return *value* if it is a number or None, else raise `InvalidInput`."""
    if isinstance(value, float) and not math.isnan(value):
        return value
    try:
        return integer(name, value)
    except InvalidInput as error:
        raise InvalidInput(f"{name} must be a number, not {_shown(value)}.") from error


def integer(name: str, value: Any) -> int | None:
    """Return *value* if it is a whole number of 64 bits or None, else raise `InvalidInput`."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidInput(f"{name} must be a whole number, not {_shown(value)}.")
    return _bounded(name, value)


def _bounded(name: str, value: int) -> int:
    if not -_MAX_INTEGER <= value <= _MAX_INTEGER:
        raise InvalidInput(f"{name} is out of range.")
    return value


def flag(name: str, value: Any, default: int = 0) -> int:
    """Return *value* as 0 or 1, *default* for None."""
    if value is None:
        return default
    if value not in (0, 1):
        raise InvalidInput(f"{name} must be 0 or 1, not {_shown(value)}.")
    return int(value)


def time(name: str, value: Any) -> float | None:
    """Return seconds since the epoch or None; raise `InvalidInput` for anything else."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not _finite(value):
        raise InvalidInput(f"{name} must be seconds since the epoch, not {_shown(value)}.")
    return float(value)


def _finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def json_text(name: str, value: Any) -> str | None:
    """Return *value* as JSON text; a string is assumed to be JSON."""
    if value is None or isinstance(value, str):
        return value
    try:
        return to_json(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"{name} cannot be stored as JSON: {error}.") from error


def metadata(_name: str, value: Any) -> str | None:
    """Return the column of a session's metadata, given as an object or as its JSON."""
    return labels.metadata_text(_decoded(value) or {})


def tags(_name: str, value: Any) -> str | None:
    """Return the column of a session's tags, given as a list or as its JSON."""
    return labels.tags_text(labels.normalize_tags(_decoded(value) or []))


def _decoded(value: Any) -> Any:
    return from_json(value, value) if isinstance(value, str) else value


def extra_text(raw: Mapping[str, Any], known: frozenset[str]) -> str | None:
    """Return the values without a column as JSON text, or None without any."""
    extra = raw.get("extra")
    if extra is not None and not isinstance(extra, Mapping):
        raise InvalidInput(f"extra must be an object, not {type(extra).__name__}.")
    kept = dict(extra or {}) | {
        name: value for name, value in raw.items() if name not in known and value is not None
    }
    return json_text("extra", kept) if kept else None
