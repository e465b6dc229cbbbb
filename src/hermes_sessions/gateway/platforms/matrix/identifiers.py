"""Identifiers of users, rooms, events and files on Matrix. Pure."""

from __future__ import annotations

import re
from typing import Final, TypeGuard

#: The limit of the specification.
_MAX_LENGTH: Final = 255

_USER: Final = re.compile(r"@[^\s:\0]*:[^\s\0/?#]+")
#: Since room version 12, ids have no server.
_ROOM: Final = re.compile(r"![^\s:\0/?#]+(?::[^\s\0/?#]+)?")
#: Ids of the oldest rooms contain slashes.
_EVENT: Final = re.compile(r"\$[^\s\0?#]+")
_FILE: Final = re.compile(r"mxc://([A-Za-z0-9.:\[\]-]+)/([A-Za-z0-9_=-]+)")


def is_user_id(value: object) -> TypeGuard[str]:
    """Return whether *value* is a user id: ``@name:server``."""
    return _matches(value, _USER)


def is_room_id(value: object) -> TypeGuard[str]:
    """Return whether *value* is a room id: ``!id:server``, or ``!id``."""
    return _matches(value, _ROOM)


def is_event_id(value: object) -> TypeGuard[str]:
    """Return whether *value* is an event id: ``$id``."""
    return _matches(value, _EVENT)


def file_parts(address: object) -> tuple[str, str] | None:
    """Return the server and the id of a file at ``mxc://server/id``, None if it is not one."""
    found = _FILE.fullmatch(address) if isinstance(address, str) else None
    return (found[1], found[2]) if found and len(found[0]) <= _MAX_LENGTH else None


def local_part(user_id: str) -> str:
    """Return the part before the server."""
    return user_id[1:].partition(":")[0]


def server_of(user_id: str) -> str:
    """Return the server of a user."""
    return user_id.partition(":")[2]


def _matches(value: object, pattern: re.Pattern[str]) -> bool:
    return (
        isinstance(value, str)
        and len(value.encode("utf-8", "replace")) <= _MAX_LENGTH
        and pattern.fullmatch(value) is not None
    )
