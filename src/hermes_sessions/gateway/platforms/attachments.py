"""What platforms say of files, as the gateway does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal

from hermes_sessions.gateway.events import Attachment

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
