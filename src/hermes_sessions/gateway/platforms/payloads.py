"""Reading JSON that somebody else wrote."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hermes_sessions.gateway.platforms.port import UnreadablePayload

_MAX_NAME: Final = 256


def record(value: object, what: str) -> Mapping[str, Any]:
    """Return *value* if it is an object.

    Raises:
        UnreadablePayload: it is not.
    """
    if not isinstance(value, Mapping):
        raise UnreadablePayload(f"{what} is not an object.")
    return value


def text_of(value: object, what: str) -> str | None:
    """Return *value* if it is text, or nothing at all.

    Raises:
        UnreadablePayload: it is something else.
    """
    if value is not None and not isinstance(value, str):
        raise UnreadablePayload(f"{what} is not text.")
    return value


def short(value: object) -> str | None:
    """Return a name in one line; names are for people, and a faulty one does not matter."""
    return (" ".join(value[:_MAX_NAME].split()) or None) if isinstance(value, str) else None
