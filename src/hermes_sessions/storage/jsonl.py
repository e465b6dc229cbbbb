"""Export records as JSON lines: one session per line, readable by any tool.

Text is UTF-8, unescaped where it can be. A session of many megabytes is split over several lines,
so that neither writing nor reading needs a line of unlimited length: the first line and all but the
last of its continuations say ``"more": true``, and a continuation names its session in
``"continues"`` instead of repeating it.

What JSON cannot say is still written without loss: bytes as base64 with the message's
``content_type``, lone surrogates as ``\\u`` escapes, and two surrogates that would read as one
character through the store's own escapes, announced by ``"escaped"``. Numbers that are not finite
are written as Python and JavaScript name them: NaN, Infinity, -Infinity.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from hermes_sessions.errors import ImportRefused
from hermes_sessions.storage.codec import BASE64, decode_text, encode_text

if TYPE_CHECKING:
    from hermes_sessions.storage.records import ImportReport
    from hermes_sessions.storage.sessiondb import SessionDB

Record = dict[str, Any]
#: Called with the work done and the total work, in the same unit.
Progress = Callable[[int, int], None]

#: A longer line is refused unread.
MAX_LINE_BYTES: Final = 256 * 1024 * 1024
#: A session whose line has grown beyond this continues on another line.
_SPLIT_BYTES: Final = 32 * 1024 * 1024
_ESCAPED: Final = "u+fdd0"
_READS_AS_ONE: Final = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_SHOWN_ERRORS: Final = 10
_unescaped: Final = json.JSONEncoder(ensure_ascii=False).encode


# ── writing ───────────────────────────────────────────────────────────────────────────────────


def write_jsonl(
    records: Iterable[Mapping[str, Any]], file: BinaryIO, *, split_bytes: int = _SPLIT_BYTES
) -> int:
    """Write export records and return how many; one message is held as text at a time.

    Raises:
        TypeError: a record holds something JSON has no form for.
    """
    count = 0
    for record in records:
        _write_record(record, file, split_bytes)
        count += 1
    return count


def _write_record(record: Mapping[str, Any], file: BinaryIO, split_bytes: int) -> None:
    head = {name: value for name, value in record.items() if name != "messages"}
    opening = _dump(head)[:-1] + b', "messages": ['
    size = file.write(opening)
    separator = b""
    for message in record.get("messages") or ():
        text = _dump(_without_bytes(message))
        if separator and size + len(text) > split_bytes:
            file.write(b'], "more": true}\n')
            size = file.write(_dump({"continues": record["id"]})[:-1] + b', "messages": [')
            separator = b""
        size += file.write(separator + text)
        separator = b", "
    file.write(b"]}\n")


def _without_bytes(message: Mapping[str, Any]) -> Mapping[str, Any]:
    content = message.get("content")
    if not isinstance(content, (bytes, bytearray)):
        return message
    return {
        **message,
        "content": base64.b64encode(content).decode("ascii"),
        "content_type": BASE64,
    }


def _dump(value: Mapping[str, Any]) -> bytes:
    text = _unescaped(value)
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        if _READS_AS_ONE.search(text):
            value = {"escaped": _ESCAPED, **_each_text(value, encode_text)}
        return json.dumps(value).encode("ascii")


def _each_text(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {_each_text(k, change): _each_text(v, change) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_each_text(item, change) for item in value]
    return value


# ── reading ───────────────────────────────────────────────────────────────────────────────────


def read_jsonl(file: BinaryIO, *, max_line_bytes: int = MAX_LINE_BYTES) -> Iterator[Record]:
    """Yield the records of a file, one at a time, continuations joined.

    Only the format is checked here; the import checks the content of the records.

    Raises:
        ImportRefused: a line cannot be read; the message gives its number and what is wrong.
    """
    for _, record in _numbered_records(file, max_line_bytes):
        yield record


def _numbered_records(file: BinaryIO, max_line_bytes: int) -> Iterator[tuple[int, Record]]:
    """Yield records with the number of the line they begin on."""
    record: Record | None = None
    begins = 0
    more = False
    for number, line in _lines(file, max_line_bytes):
        value = _parse(number, line)
        continues = value.pop("continues", None)
        if more and record is not None:
            if continues is None or continues != record.get("id"):
                raise _refused(number, f"session {record.get('id')!r:.100} must continue here")
            record["messages"] += _messages(number, value)
        elif continues is not None:
            raise _refused(number, f"nothing before it belongs to session {continues!r:.100}")
        else:
            if record is not None:
                yield begins, record
            record, begins = value, number
        more = bool(value.pop("more", False))
        if more:
            record["messages"] = _messages(begins, record)
    if more and record is not None:
        raise ImportRefused(
            f"The file ends within session {record.get('id')!r:.100}, which begins on line "
            f"{begins}: it was cut off. Export it again."
        )
    if record is not None:
        yield begins, record


def _messages(number: int, value: Record) -> list[Any]:
    messages = value.get("messages")
    if not isinstance(messages, list):
        raise _refused(number, "messages must be a list")
    return messages


def _lines(file: BinaryIO, limit: int) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that hold something, with their numbers."""
    number = 0
    while line := file.readline(limit + 1):
        number += 1
        if len(line) > limit:
            raise _refused(number, f"it is longer than {limit:,} bytes")
        if number == 1:
            line = line.removeprefix(_BYTE_ORDER_MARK)
        if not line.strip():
            continue
        if not line.endswith(b"\n") and not line.rstrip().endswith(b"}"):
            raise _refused(number, "the file ends in the middle of it. Export it again")
        yield number, line


def _parse(number: int, line: bytes) -> Record:
    try:
        value = json.loads(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise _refused(number, f"it is not UTF-8 text ({error.reason} at {error.start})") from error
    except json.JSONDecodeError as error:
        raise _refused(number, f"it is not JSON ({error.msg} at column {error.colno})") from error
    except RecursionError as error:
        raise _refused(number, "it is nested too deeply") from error
    except ValueError as error:
        raise _refused(number, str(error)) from error
    if not isinstance(value, dict):
        raise _refused(
            number, f"a session must be a JSON object, one per line, not {type(value).__name__}"
        )
    try:
        return _restored(value)
    except RecursionError as error:
        raise _refused(number, "it is nested too deeply") from error


def _restored(value: Record) -> Record:
    """Undo what writing did to text and bytes."""
    messages = value.get("messages")
    if value.get("escaped") == _ESCAPED:
        value = _each_text({k: v for k, v in value.items() if k != "messages"}, decode_text)
        del value["escaped"]
        value["messages"] = messages
    if isinstance(messages, list):
        for index, message in enumerate(messages):
            if isinstance(message, dict):
                messages[index] = _restored_message(message)
    return value


def _restored_message(message: Record) -> Record:
    if message.get("escaped") == _ESCAPED:
        message = _each_text(message, decode_text)
        del message["escaped"]
    if message.get("content_type") == BASE64 and isinstance(message.get("content"), str):
        message["content"] = _bytes_of(message["content"])
    return message


def _bytes_of(text: str) -> bytes | str:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return text


def _refused(number: int, problem: str) -> ImportRefused:
    return ImportRefused(f"Line {number}: {problem}. Nothing was imported.")


# ── importing ─────────────────────────────────────────────────────────────────────────────────


class JsonlFile:
    """The records of a file, read again for each iteration."""

    def __init__(self, path: str | Path, on_progress: Progress | None = None) -> None:
        self._path = Path(path)
        self._on_progress = on_progress
        self._passed = 0
        #: The line on which each record begins.
        self.lines = array("Q")

    def __iter__(self) -> Iterator[Record]:
        """Yield the records.

        Raises:
            ImportRefused: the file or one of its lines cannot be read.
        """
        # Commands that read no file start without it.
        from hermes_sessions.storage.attachment_archive import ArchiveReader, archive_of

        try:
            file = self._path.open("rb")
        except OSError as error:
            raise ImportRefused(f"{self._path} cannot be read: {error.strerror}.") from error
        with file, closing(ArchiveReader(archive_of(self._path))) as archive:
            size = os.fstat(file.fileno()).st_size
            self.lines = array("Q")
            for line, record in _numbered_records(file, MAX_LINE_BYTES):
                self.lines.append(line)
                yield archive.restored(record)
                if self._on_progress is not None:
                    # An import reads everything twice: to check it, and to write it.
                    self._on_progress(self._passed * size + file.tell(), 2 * size)
            self._passed += 1


def import_file(
    db: SessionDB, path: str | Path, on_progress: Progress | None = None
) -> ImportReport:
    """Import a file of JSON lines and return the report of `SessionDB.import_sessions`.

    The file is read twice, one session at a time. Importing it again changes nothing; repeating
    an import that was killed completes it.

    Raises:
        ImportRefused: the file, a line or a session in it cannot be used; nothing was written.
    """
    from hermes_sessions.storage.provider_registry import file_care

    if file_care().is_database(Path(path)):
        raise ImportRefused(f"{path} is a database; read it with import_database().")
    file = JsonlFile(path, on_progress)
    report = db.import_sessions(file)
    if report["errors"]:
        shown = [
            f"Line {file.lines[error['index']]}: {error['error']}"
            for error in report["errors"][:_SHOWN_ERRORS]
        ]
        left = len(report["errors"]) - len(shown)
        if left:
            shown.append(f"… and {left} more.")
        raise ImportRefused("\n".join([*shown, "Nothing was imported."]))
    return report
