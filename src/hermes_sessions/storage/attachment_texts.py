"""Attachments in the texts of a message: base64 that is kept as a blob, and comes back unchanged.

A text is lifted as it stands, JSON or not: each long run of base64 in a data URL, or in a member
of a JSON object that holds data, is replaced by a placeholder with the digest of its bytes. Only
base64 that encodes back to the same characters is lifted, so that putting it back restores the
text.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

from hermes_sessions.model.message import PLACEHOLDER
from hermes_sessions.storage.repositories.blobs import digest_of

#: Members of JSON objects that hold base64, at OpenAI, Anthropic, Google and in MCP.
_MEMBERS: Final = "data|b64_json|file_data|image_base64|base64|bytes|blob|result"
#: What comes before and after base64; in JSON inside of JSON, quotes are escaped. Each pattern
#: begins with a character that `re` searches fast.
_BEFORE: Final = (";base64,", rf'"(?:{_MEMBERS})\\?":\s?\\?"')
_AFTER: Final = r"""(?=["'\s)>]|\\["nrt]|\Z)"""
#: The siblings of data in a JSON object that say what it is.
_TYPES: Final = ("media_type", "mime_type", "mimeType", "mediaType")
_NAMES: Final = ("filename", "file_name", "fileName", "name")
_DATA_URL: Final = re.compile(r"data:([\w.+-]+/[\w.+-]+)(?:;[^,\s]{0,200})?;base64,\Z")
_MAGIC: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"PK\x03\x04", "application/zip"),
)
_IMAGE_TYPE: Final = re.compile(r"image/[\w.+-]+")
_BASE64: Final = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_IMAGE_URL: Final = re.compile(
    rf"data:({_IMAGE_TYPE.pattern})(?:;[\w=.+-]+)*;base64,({_BASE64.pattern})"
)
_UNKNOWN_TYPE: Final = "application/octet-stream"
_MAX_DEPTH: Final = 100
#: The key of an exported message whose attachments are in a zip; see `attachment_archive`.
ZIPPED: Final = "zipped"


class Lifted(NamedTuple):
    """A text without its attachments."""

    text: str
    #: By digest.
    attachments: dict[str, bytes]


def placeholder(digest: str) -> str:
    """Return what stands in a text for the base64 of an attachment."""
    return f"[attachment {digest}]"


def lift(text: str, threshold: int, *, is_base64: bool = False) -> Lifted:
    """Return the text with a placeholder for each long run of base64; all of it if *is_base64*."""
    found: dict[str, bytes] = {}

    def replaced(match: re.Match[str]) -> str:
        data = _decoded(match["data"])
        if data is None:
            return match[0]
        digest = digest_of(data)
        # A text that quotes the placeholder could not be restored.
        if placeholder(digest) in text:
            return match[0]
        found[digest] = data
        return match["before"] + placeholder(digest)

    lifted = text
    for pattern in _patterns(threshold, is_base64):
        lifted = pattern.sub(replaced, lifted)
    return Lifted(lifted, found)


@lru_cache(maxsize=8)
def _patterns(threshold: int, is_base64: bool) -> list[re.Pattern[str]]:
    befores, after = ((r"\A",), r"\Z") if is_base64 else (_BEFORE, _AFTER)
    # Possessive runs: a run that ends in the wrong place is not tried again from its middle.
    run = f"[A-Za-z0-9+/]{{{max(4, threshold - 2)},}}+={{0,2}}+"
    return [re.compile(f"(?P<before>{before})(?P<data>{run}){after}") for before in befores]


def _decoded(text: str) -> bytes | None:
    """Return the bytes, or None for base64 that encodes back differently."""
    if len(text) % 4:
        return None
    try:
        data = b64decode(text, validate=True)
    except ValueError:
        return None
    return data if b64encode(data).decode("ascii") == text else None


def restore(text: str, attachments: Mapping[str, str]) -> str:
    """Return a lifted text with its base64 again, which is given by digest."""
    for digest, encoded in attachments.items():
        text = text.replace(placeholder(digest), encoded)
    return text


def describe(text: str, attachments: Mapping[str, bytes]) -> dict[str, tuple[str, str | None]]:
    """Return media type and name, if there is one, of the attachments of a lifted text."""
    said: dict[str, tuple[str | None, str | None]] = {}
    for value, siblings in _places(_parsed(text), {}, 0):
        for match in PLACEHOLDER.finditer(value):
            if match[1] in attachments and match[1] not in said:
                said[match[1]] = _described(value[: match.start()], siblings)
    described = {}
    for digest, data in attachments.items():
        media_type, name = said.get(digest, (None, None))
        described[digest] = (media_type or media_type_of(data), name)
    return described


def _parsed(text: str) -> Any:
    if text[:1] in ("{", "["):
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return text
    return text


def _places(
    value: Any, siblings: Mapping[str, Any], depth: int
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each text, with the object that it is a member of."""
    if isinstance(value, str):
        yield value, siblings
    elif isinstance(value, list) and depth < _MAX_DEPTH:
        for item in value:
            yield from _places(item, siblings, depth + 1)
    elif isinstance(value, dict) and depth < _MAX_DEPTH:
        for item in value.values():
            yield from _places(item, value, depth + 1)


def _described(before: str, siblings: Mapping[str, Any]) -> tuple[str | None, str | None]:
    url = _DATA_URL.search(before[-300:])
    stated = [siblings[key] for key in _TYPES if isinstance(siblings.get(key), str)]
    names = [siblings[key] for key in _NAMES if isinstance(siblings.get(key), str)]
    media_type = url[1] if url else next(iter(stated), None)
    if media_type is None and isinstance(siblings.get("format"), str):
        media_type = f"audio/{siblings['format'][:20]}"
    return media_type, next(iter(names), None)


def images_in(content: Any) -> Iterator[tuple[str, str]]:
    """Yield media type and base64 of the images in a message's content, in order."""
    if isinstance(content, bytes):
        media_type = media_type_of(content)
        if media_type.startswith("image/"):
            yield media_type, b64encode(content).decode("ascii")
    for value, siblings in _places(
        _parsed(content) if isinstance(content, str) else content, {}, 0
    ):
        if ";base64," in value:
            yield from _IMAGE_URL.findall(value)
        stated = [siblings[key] for key in _TYPES if isinstance(siblings.get(key), str)]
        is_image = bool(stated) and _IMAGE_TYPE.fullmatch(stated[0])
        if is_image and siblings.get("data") is value and _BASE64.fullmatch(value):
            yield stated[0], value


def media_type_of(data: bytes) -> str:
    """Return the media type that the first bytes tell."""
    if data[:4] == b"RIFF" and data[8:12] in (b"WEBP", b"WAVE"):
        return "image/webp" if data[8:12] == b"WEBP" else "audio/wav"
    return next((kind for magic, kind in _MAGIC if data.startswith(magic)), _UNKNOWN_TYPE)
