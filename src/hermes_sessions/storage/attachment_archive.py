"""A zip beside a file of JSON lines, which has the attachments of its messages.

In the lines, a placeholder stands for the base64 of an attachment, as in the rows of a store, and
``zipped`` of the message lists them. In the zip, each is a file named by its digest.
"""

from __future__ import annotations

import zipfile
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from mimetypes import guess_extension
from pathlib import Path
from typing import Any, BinaryIO, Final

from hermes_sessions.errors import ImportRefused
from hermes_sessions.model.message import PLACEHOLDER
from hermes_sessions.storage.attachment_texts import (
    ZIPPED,
    describe,
    lift,
    media_type_of,
    placeholder,
    restore,
)
from hermes_sessions.storage.codec import BASE64
from hermes_sessions.storage.repositories.blobs import digest_of
from hermes_sessions.storage.store_context import DEFAULT_ATTACHMENT_LIMITS

Record = dict[str, Any]
_THRESHOLD: Final = DEFAULT_ATTACHMENT_LIMITS.threshold or 0
#: A larger file in a zip is not what an export wrote.
_MAX_BYTES: Final = 1024**3


def archive_of(path: str | Path) -> Path:
    """Return the path of the zip that belongs to a file of JSON lines."""
    return Path(path).with_suffix(".attachments.zip")


class ArchiveWriter:
    """Takes attachments out of export records, and writes each once."""

    def __init__(self, file: BinaryIO) -> None:
        self._zip = zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED)
        self._written: set[str] = set()

    def __len__(self) -> int:
        return len(self._written)

    def passing(self, records: Iterable[Mapping[str, Any]]) -> Iterator[Record]:
        """Yield the records without attachments; complete the zip at the end."""
        for record in records:
            yield {**record, "messages": [self._message(m) for m in record["messages"]]}
        self._zip.close()

    def _message(self, message: Mapping[str, Any]) -> Mapping[str, Any]:
        #: Placeholders that the message quotes could not be told from ours.
        quoted = {found for text in _texts(message) for found in PLACEHOLDER.findall(text)}
        taken: dict[str, tuple[bytes, str]] = {}

        def without(text: str) -> str:
            if len(text) < _THRESHOLD:
                return text
            lifted = lift(text, _THRESHOLD, is_base64=True)
            if not lifted.attachments:
                lifted = lift(text, _THRESHOLD)
            described = describe(lifted.text, lifted.attachments)
            kept = {d: data for d, data in lifted.attachments.items() if d not in quoted}
            taken.update((digest, (data, described[digest][0])) for digest, data in kept.items())
            left = {d: _encoded(data) for d, data in lifted.attachments.items() if d in quoted}
            return restore(lifted.text, left)

        changed: Record = _changed(dict(message), without)
        content = message.get("content")
        if isinstance(content, bytes) and len(content) >= _THRESHOLD:
            digest = digest_of(content)
            if digest not in quoted:
                taken[digest] = content, media_type_of(content)
                changed |= {"content": placeholder(digest), "content_type": BASE64}
        if not taken:
            return message
        for digest, (data, media_type) in taken.items():
            self._write(digest, data, media_type)
        return {**changed, ZIPPED: sorted(taken)}

    def _write(self, digest: str, data: bytes, media_type: str) -> None:
        if digest not in self._written:
            self._written.add(digest)
            self._zip.writestr(f"{digest}{guess_extension(media_type) or '.bin'}", data)


class ArchiveReader:
    """Puts the attachments of a zip back into records; opens it when a record needs it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._zip: zipfile.ZipFile | None = None
        self._names: dict[str, zipfile.ZipInfo] = {}

    def restored(self, record: Record) -> Record:
        """Return the record as it was before it was written.

        Raises:
            ImportRefused: the zip, or an attachment in it, is missing or damaged.
        """
        messages = record.get("messages")
        if isinstance(messages, list):
            record["messages"] = [self._message(message) for message in messages]
        return record

    def close(self) -> None:
        """Close the zip."""
        if self._zip is not None:
            self._zip.close()

    def _message(self, message: Any) -> Any:
        if not isinstance(message, dict) or not message.get(ZIPPED):
            return message
        found = {digest: self._data(digest) for digest in message[ZIPPED]}
        content = message.get("content")
        encoded = {digest: _encoded(data) for digest, data in found.items()}
        changed = _changed(message, lambda text: restore(text, encoded))
        del changed[ZIPPED]
        for digest, data in found.items():
            if message.get("content_type") == BASE64 and content == placeholder(digest):
                changed["content"] = data
        return changed

    def _data(self, digest: object) -> bytes:
        if self._zip is None:
            self._open()
        entry = self._names.get(str(digest))
        if self._zip is None or entry is None or entry.file_size > _MAX_BYTES:
            raise ImportRefused(f"{self._path} lacks the attachment {digest}. {_AGAIN}")
        try:
            data = self._zip.read(entry)
        except (OSError, zipfile.BadZipFile, ValueError) as error:
            raise ImportRefused(f"{self._path} is damaged ({error}). {_AGAIN}") from error
        if digest_of(data) != digest:
            raise ImportRefused(f"{self._path}: the attachment {digest} was changed. {_AGAIN}")
        return data

    def _open(self) -> None:
        try:
            self._zip = zipfile.ZipFile(self._path)
        except FileNotFoundError as error:
            raise ImportRefused(
                f"The attachments of these sessions are in {self._path}, which does not exist. "
                f"Put it beside the file, then import again."
            ) from error
        except (OSError, zipfile.BadZipFile) as error:
            raise ImportRefused(f"{self._path} cannot be read: {error}. {_AGAIN}") from error
        self._names = {info.filename.partition(".")[0]: info for info in self._zip.infolist()}


_AGAIN: Final = "Export the sessions again; nothing was imported from here on."


def _encoded(data: bytes) -> str:
    return b64encode(data).decode("ascii")


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _texts(item)


def _changed(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {key: _changed(item, change) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_changed(item, change) for item in value]
    return value
