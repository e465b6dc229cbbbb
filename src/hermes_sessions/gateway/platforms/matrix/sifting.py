"""Answers of a homeserver without the events that the library cannot read.

Over one of them it would refuse the whole answer, again and again, and never see what comes after.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from nio import AccountDataEvent, EphemeralEvent, Event, InviteEvent, PresenceEvent, ToDeviceEvent

#: What the library raises when something is not what is documented.
UNREADABLE: Final = (AttributeError, LookupError, TypeError, ValueError)

#: How it reads the events in the parts of an answer; a page of a history has them at the top.
_READERS: Final[Mapping[str, Callable[[Any], object]]] = {
    "": Event.parse_event,
    "account_data": AccountDataEvent.parse_event,
    "ephemeral": EphemeralEvent.parse_event,
    "invite_state": InviteEvent.parse_event,
    "presence": PresenceEvent.from_dict,
    "state": Event.parse_event,
    "timeline": Event.parse_event,
    "to_device": ToDeviceEvent.parse_event,
}


def sifted(answer: object, part: str = "") -> tuple[Any, int]:
    """Return an answer without unreadable events, and how many those were."""
    if not isinstance(answer, Mapping):
        return answer, 0
    found: dict[str, Any] = {}
    dropped = 0
    for name, value in answer.items():
        if name in ("events", "chunk") and isinstance(value, list) and part in _READERS:
            found[name] = [event for event in value if _is_readable(event, _READERS[part])]
            dropped += len(value) - len(found[name])
        else:
            found[name], missing = sifted(value, name)
            dropped += missing
    return found, dropped


def _is_readable(event: object, read: Callable[[Any], object]) -> bool:
    if not isinstance(event, Mapping):
        return False
    try:
        read(event)
    except UNREADABLE:
        return False
    return True
