"""Reading JSON that somebody else wrote."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from hermes_sessions.gateway.events import Attachment
from hermes_sessions.gateway.platforms.port import UnreadablePayload

# What platforms say of files, as the gateway does.


Kind = Literal["photo", "audio", "video", "document", "other"]


_KINDS: Final[Mapping[str, Kind]] = {"image": "photo", "audio": "audio", "video": "video"}


def kind_of(mime_type: str | None) -> Kind:
    """Return what kind of file something is, by its type."""
    return _KINDS.get((mime_type or "").partition("/")[0], "document")


def size_of(value: object) -> int | None:
    """Return a number of bytes, None for what is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def within(limit: int, files: Sequence[Attachment]) -> tuple[tuple[Attachment, ...], list[str]]:
    """Return the files that are not too large, and what the agent is told of the others."""
    kept = tuple(file for file in files if (file.size or 0) <= limit)
    return kept, [left_out(file, limit) for file in files if file not in kept]


def left_out(file: Attachment, limit: int) -> str:
    """Return what the agent is told of a file that is too large for it."""
    name = f" {file.name!r}" if file.name else ""
    return (
        f"[A {file.kind}{name} of {file.size:,} bytes was left out: the limit is {limit:,} bytes.]"
    )


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
