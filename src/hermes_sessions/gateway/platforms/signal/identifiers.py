"""Identifiers of users, groups and messages on Signal. Pure.

A user has a UUID that never changes, and often a number, which may change or be hidden. A group has
32 random bytes (16 in old groups), in one of several Base64 forms; here it is the standard alphabet
with padding. A message is identified by its sender and the millisecond in which it was sent.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from typing import Final, NamedTuple, TypeGuard

GROUP_PREFIX: Final = "group:"

_NUMBER: Final = re.compile(r"\+[1-9][0-9]{4,14}")
_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_BASE64: Final = re.compile(r"[A-Za-z0-9+/_-]{20,64}={0,2}")
#: Signal exists since 2014: smaller or much larger numbers are not timestamps in milliseconds.
_EARLIEST: Final = 1_388_534_400_000
_LATEST: Final = 2**53


def person_id(text: object) -> str | None:
    """Return a number or UUID in its canonical form, None if *text* is neither."""
    if not isinstance(text, str):
        return None
    text = text.strip()
    if _UUID.fullmatch(text):
        return text.lower()
    return text if _NUMBER.fullmatch(text) else None


def group_id(text: object) -> str | None:
    """Return the id of a group in its canonical form, None if *text* is not one.

    Accepts Base64 in either alphabet, with or without padding, after an optional ``group:``, and
    the form of signal-cli-rest-api: ``group.`` and the Base64 of the Base64.
    """
    if not isinstance(text, str):
        return None
    text = text.strip().removeprefix(GROUP_PREFIX)
    if text.startswith("group."):
        inner = _decoded(text.removeprefix("group."))
        if inner is None or not inner.isascii():
            return None
        text = inner.decode()
    raw = _decoded(text) if _BASE64.fullmatch(text) else None
    return b64encode(raw).decode() if raw is not None and len(raw) in {16, 32} else None


def _decoded(text: str) -> bytes | None:
    standard = text.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return b64decode(standard + "=" * (-len(standard) % 4), validate=True)
    except (NotBase64, ValueError):
        return None


class MessageRef(NamedTuple):
    """Identifies a message."""

    #: When it was sent, in milliseconds since the epoch.
    timestamp: int
    #: The sender; None for the account itself.
    author: str | None = None

    def render(self) -> str:
        """Return the id that the gateway stores."""
        return f"{self.timestamp}" if self.author is None else f"{self.timestamp}-{self.author}"


def parse_message_ref(text: str | None) -> MessageRef | None:
    """Parse an id from `MessageRef.render`, None if *text* is not one."""
    number, has_author, author = (text or "").partition("-")
    if not (number.isascii() and number.isdigit() and len(number) <= 16):
        return None
    if not is_timestamp(int(number)) or (has_author and person_id(author) is None):
        return None
    return MessageRef(int(number), author or None)


def is_timestamp(value: object) -> TypeGuard[int]:
    """Return whether *value* is a plausible timestamp of a message in milliseconds."""
    return type(value) is int and _EARLIEST < value < _LATEST
