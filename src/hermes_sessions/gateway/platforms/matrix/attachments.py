"""Convert files of Matrix events to attachments, and back. Pure.

A file in an encrypted room has its own key, which arrives with the message. The reference of an
attachment contains it, so that the file can be decrypted later.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from hermes_sessions.gateway.events import Attachment
from hermes_sessions.gateway.platforms.matrix.identifiers import file_parts
from hermes_sessions.gateway.platforms.payloads import Kind, short, size_of
from hermes_sessions.gateway.platforms.port import Undeliverable, UnreadablePayload

Record = Mapping[str, Any]

#: Message types that are files.
FILE_TYPES: Final[Mapping[str, Kind]] = {
    "m.image": "photo",
    "m.audio": "audio",
    "m.video": "video",
    "m.file": "document",
}
_MAX_SECRET: Final = 256


class FileKey(NamedTuple):
    """Decrypts an encrypted file."""

    key: str
    iv: str
    sha256: str


class MediaReference(NamedTuple):
    """The location and the key of a file."""

    server: str
    media_id: str
    lock: FileKey | None = None


def attachment_of(kind: Kind, content: Record) -> Attachment:
    """Return the file of a message.

    Raises:
        UnreadablePayload: its location is missing.
    """
    info = content.get("info")
    info = info if isinstance(info, Mapping) else {}
    encrypted, address = content.get("file"), content.get("url")
    if isinstance(encrypted, Mapping):
        reference = _file_key(encrypted)
    elif file_parts(address) is not None:
        reference = str(address)
    else:
        raise UnreadablePayload("A file has no usable URL.")
    return Attachment(
        kind=kind,
        reference=reference,
        name=short(content.get("filename")) or short(content.get("body")),
        mime_type=short(info.get("mimetype")),
        size=size_of(info.get("size")) or None,
    )


def reference_of(attachment: Attachment) -> MediaReference:
    """Return the location of an attachment's file.

    Raises:
        Undeliverable: it is not a file on Matrix.
    """
    try:
        values = json.loads(attachment.reference)
    except (ValueError, RecursionError):
        values = {"url": attachment.reference}
    parts = file_parts(values.get("url")) if isinstance(values, dict) else None
    if parts is None:
        raise Undeliverable(f"{attachment.reference[:80]!r} is not a file on Matrix.")
    if "key" not in values:
        return MediaReference(*parts)
    return MediaReference(
        *parts, FileKey(str(values["key"]), str(values["iv"]), str(values["sha256"]))
    )


def caption_of(content: Record) -> str:
    """Return the caption of a file: its body, unless that is its name."""
    body, name = content.get("body"), content.get("filename")
    return body if isinstance(body, str) and isinstance(name, str) and body != name else ""


def _file_key(file: Record) -> str:
    key, hashes = file.get("key"), file.get("hashes")
    parts = (
        file.get("url"),
        key.get("k") if isinstance(key, Mapping) else None,
        file.get("iv"),
        hashes.get("sha256") if isinstance(hashes, Mapping) else None,
    )
    texts = [part for part in parts if isinstance(part, str) and 0 < len(part) <= _MAX_SECRET]
    if len(texts) != len(parts) or file_parts(parts[0]) is None:
        raise UnreadablePayload("An encrypted file has no usable URL or key.")
    return json.dumps(dict(zip(("url", "key", "iv", "sha256"), texts, strict=True)))
