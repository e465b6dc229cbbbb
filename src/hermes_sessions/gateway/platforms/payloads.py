"""Read JSON of platforms, describe attached files, and limit from where they are fetched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from hermes_sessions.gateway.events import Attachment
from hermes_sessions.gateway.platforms.port import Undeliverable, UnreadablePayload

Kind = Literal["photo", "audio", "video", "document", "other"]


_KINDS: Final[Mapping[str, Kind]] = {"image": "photo", "audio": "audio", "video": "video"}


def kind_of(mime_type: str | None) -> Kind:
    """Return the kind of a file, by its MIME type."""
    return _KINDS.get((mime_type or "").partition("/")[0], "document")


def size_of(value: object) -> int | None:
    """Return a number of bytes, None if it is not one."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def within(limit: int, files: Sequence[Attachment]) -> tuple[tuple[Attachment, ...], list[str]]:
    """Return the files within *limit*, and notes for the agent about the others."""
    kept = tuple(file for file in files if (file.size or 0) <= limit)
    return kept, [left_out(file, limit) for file in files if file not in kept]


def left_out(file: Attachment, limit: int) -> str:
    """Return the note for the agent about a file that is too large."""
    name = f" {file.name!r}" if file.name else ""
    return (
        f"[A {file.kind}{name} of {file.size:,} bytes was skipped: the limit is {limit:,} bytes.]"
    )


def too_large(size: int, limit: int) -> Undeliverable:
    """Return the error for a file of *size* bytes or more."""
    return Undeliverable(f"The file has {size:,} bytes or more, over {limit:,}.")


def is_trusted_address(address: str, base_url: str, file_hosts: tuple[str, ...]) -> bool:
    """Tell whether the credentials may be sent to *address*: it has the origin of *base_url*, or is
    an HTTPS URL below one of *file_hosts*, which begin with a dot.
    """
    try:
        parts, base = urlsplit(address), urlsplit(base_url)
        has_same_origin = (parts.scheme, parts.hostname, parts.port) == (
            base.scheme,
            base.hostname,
            base.port,
        )
    except ValueError:
        return False
    return has_same_origin or (
        parts.scheme == "https" and f".{parts.hostname}".endswith(file_hosts)
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
    """Return *value* if it is text or None.

    Raises:
        UnreadablePayload: it is something else.
    """
    if value is not None and not isinstance(value, str):
        raise UnreadablePayload(f"{what} is not text.")
    return value


def short(value: object) -> str | None:
    """Return a name on one line; None if it is not text, because names are only shown."""
    return (" ".join(value[:_MAX_NAME].split()) or None) if isinstance(value, str) else None
