"""Tolerant parsing of the arguments that a model sends.

Numbers are clamped, unusable values get the default, and changes of meaning are noted. Only
arguments without a possible meaning are rejected.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import tzinfo
from typing import Any, Final, Literal

from hermes_sessions.errors import InvalidInput
from hermes_sessions.text.query.filters import read_time

Mode = Literal["browse", "discover", "scroll", "read"]

DEFAULT_LIMIT: Final = 3
DEFAULT_WINDOW: Final = 5
DEFAULT_TOKENS: Final = 8_000
LIMITS: Final = (1, 10)
WINDOWS: Final = (1, 20)
TOKENS: Final = (500, 50_000)
DEFAULT_ROLES: Final = ("user", "assistant")
SORTS: Final = ("relevance", "newest", "oldest")
#: The workspace of the current conversation.
CURRENT: Final = "current"
#: Longer queries are cut.
LONGEST_QUERY: Final = 1_000
_MOST_NAMES: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallArguments:
    """The validated arguments of one call."""

    query: str = ""
    limit: int = DEFAULT_LIMIT
    sort: str = SORTS[0]
    #: None means the default roles, empty means any role.
    roles: tuple[str, ...] | None = None
    sources: tuple[str, ...] | None = None
    #: Seconds since the epoch.
    after: float | None = None
    before: float | None = None
    #: The id or name of a workspace, or `CURRENT`.
    workspace: str | None = None
    session_id: str | None = None
    around_message_id: int | None = None
    window: int = DEFAULT_WINDOW
    #: Sessions whose conversations are excluded.
    exclude: tuple[str, ...] = ()
    max_tokens: int = DEFAULT_TOKENS
    #: What was ignored or cut, in words for the model.
    notes: tuple[str, ...] = ()

    @property
    def mode(self) -> Mode:
        """The mode that the arguments select."""
        if self.session_id is not None:
            return "read" if self.around_message_id is None else "scroll"
        return "discover" if self.query else "browse"

    def opening(self) -> dict[str, Any]:
        """Return the fields that every result of this call starts with."""
        opening: dict[str, Any] = {"success": True, "mode": self.mode}
        return opening | ({"notes": list(self.notes)} if self.notes else {})


def read_arguments(
    raw: Mapping[str, Any] | str | None, *, now: float, zone: tzinfo | None = None
) -> RecallArguments:
    """Return the arguments of a call, given as an object or as its JSON text.

    Raises:
        InvalidInput: not an object, or an invalid session or message id.
    """
    given = _object(raw)
    notes: list[str] = []
    session_id = _session_id(given.get("session_id"))
    around = _message_id(given.get("around_message_id"))
    if around is not None and session_id is None:
        notes.append("around_message_id needs session_id, so it was ignored.")
        around = None
    return RecallArguments(
        query=_query(given.get("query"), notes),
        limit=_whole(given.get("limit"), DEFAULT_LIMIT, LIMITS),
        sort=_sort(given.get("sort")),
        roles=_roles(given.get("role_filter")),
        sources=_sources(given.get("source")),
        after=_moment("after", given.get("after"), now, zone, notes),
        before=_moment("before", given.get("before"), now, zone, notes),
        workspace=_text(given.get("workspace")) or None,
        session_id=session_id,
        around_message_id=around,
        window=_whole(given.get("window"), DEFAULT_WINDOW, WINDOWS),
        exclude=_names(given.get("exclude_conversations")),
        max_tokens=_whole(given.get("max_tokens"), DEFAULT_TOKENS, TOKENS),
        notes=tuple(notes),
    )


def _object(raw: Mapping[str, Any] | str | None) -> Mapping[str, Any]:
    value: Any = raw
    if isinstance(value, str):
        try:
            value = json.loads(value) if value.strip() else None
        except (ValueError, RecursionError) as error:
            raise InvalidInput("The arguments are not valid JSON.") from error
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidInput("The arguments must be one JSON object.")
    return value


def _text(value: Any) -> str | None:
    """Return text, or a number as text; None for anything else."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            return str(value)
        except ValueError:  # an integer with thousands of digits
            return None
    return None


def _query(value: Any, notes: list[str]) -> str:
    if value is None:
        return ""
    if isinstance(value, (list, tuple)):
        text: str | None = " ".join(filter(None, map(_text, value[:_MOST_NAMES])))
    else:
        text = _text(value)
    if text is None:
        notes.append("query was not text, so it was ignored.")
        return ""
    if len(text) > LONGEST_QUERY:
        notes.append(f"Only the first {LONGEST_QUERY:,} characters of the query were used.")
        text = text[:LONGEST_QUERY].rstrip()
    return text


def _whole(value: Any, default: int, bounds: tuple[int, int]) -> int:
    if isinstance(value, str):
        try:
            value = float(value) if "." in value else int(value)
        except ValueError:
            return default
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return default
    if isinstance(value, float) and not math.isfinite(value):
        return default
    low, high = bounds
    return min(max(int(value), low), high)


def _sort(value: Any) -> str:
    text = (_text(value) or "").lower()
    return text if text in SORTS else SORTS[0]


def _names(value: Any) -> tuple[str, ...]:
    """Return the names in a list or a comma-separated text."""
    if isinstance(value, str):
        value = value.split(",")
    if not isinstance(value, (list, tuple)):
        value = [value]
    names = [_text(item) for item in value[: _MOST_NAMES * 10]]
    return tuple(dict.fromkeys(name for name in names if name))[:_MOST_NAMES]


def _sources(value: Any) -> tuple[str, ...] | None:
    """Return the sources as given and in lower case: models also write Telegram."""
    names = [spelling for name in _names(value) for spelling in (name, name.lower())]
    return tuple(dict.fromkeys(names)) or None


def _roles(value: Any) -> tuple[str, ...] | None:
    names = tuple(name.lower() for name in _names(value))
    if not names:
        return None
    return () if {"all", "*"} & set(names) else names


def _moment(
    name: str, value: Any, now: float, zone: tzinfo | None, notes: list[str]
) -> float | None:
    text = _text(value)
    if value is None or text == "":
        return None
    moment = None if text is None else read_time(text, now, zone)
    if moment is None or not math.isfinite(moment):
        notes.append(f"{name} was not a date such as 2026-05-01 or 7d, so it was ignored.")
        return None
    return moment


def _session_id(value: Any) -> str | None:
    if value is None or value == "":
        return None
    text = _text(value)
    if text is None:
        raise InvalidInput("session_id must be a session id, as text.")
    return text or None


def _message_id(value: Any) -> int | None:
    if value is None or value == "":
        return None
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and value.strip().isascii() and value.strip().isdigit():
        try:
            return int(value)
        except ValueError as error:  # an integer with thousands of digits
            raise InvalidInput(_NO_MESSAGE_ID) from error
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidInput(_NO_MESSAGE_ID)
    return value


_NO_MESSAGE_ID: Final = "around_message_id must be a message id, a whole number."
