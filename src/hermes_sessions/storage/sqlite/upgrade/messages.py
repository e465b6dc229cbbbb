"""Messages of the old layout: their ordinals, and their content in our form.

One pass in id order, which is the order of writing, in batches, so that memory does not grow with
the file. Each row is rewritten once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final

import apsw

from hermes_sessions.model.message import preview_of
from hermes_sessions.storage.codec import decode_content, decode_text, encode_text
from hermes_sessions.storage.logs import Logger
from hermes_sessions.storage.sqlite.hermes_values import (
    Value,
    is_time,
    needs_conversion,
    set_aside,
    stored_content,
    stored_text,
    time_from,
    unescaped_json,
)
from hermes_sessions.storage.sqlite.row_scan import ScannedRow, scan
from hermes_sessions.storage.sqlite.upgrade.layout import MESSAGE_TEXTS

logger = Logger(__name__)

_ROWS_AT_ONCE: Final = 5_000
#: A batch ends early when its changing rows have this many characters.
_TEXT_AT_ONCE: Final = 4_000_000

#: Specially handled columns come first; session ids are already converted.
_COLUMNS: Final = [
    "session_id",
    "timestamp",
    "content",
    *(name for name in MESSAGE_TEXTS if name != "content"),
]
_ROLE: Final = _COLUMNS.index("role")
_TOOL_CALLS: Final = _COLUMNS.index("tool_calls")


@dataclass(slots=True)
class MessageTotals:
    """Totals of one session's messages."""

    count: int = 0
    oldest: float = 0.0
    newest: float = 0.0
    #: The preview in listings: from the first user message with content.
    preview: str | None = None

    def add(self, timestamp: float) -> int:
        """Count one more message; return its ordinal."""
        self.oldest = timestamp if not self.count else min(self.oldest, timestamp)
        self.newest = timestamp if not self.count else max(self.newest, timestamp)
        self.count += 1
        return self.count


@dataclass(slots=True)
class _Batch:
    #: (ordinal, id) of rows that keep their values.
    ordinals: list[tuple[int, int]]
    #: (id, columns) of rows that change.
    changes: list[tuple[int, dict[str, Any]]]
    last_id: int


def convert_messages(connection: apsw.Connection) -> dict[str, MessageTotals]:
    """Set the ordinal and convert the content of every message; return totals per session."""
    totals: dict[str, MessageTotals] = {}
    converted = 0
    for batch in _batches(connection, totals):
        connection.executemany("UPDATE messages SET ordinal = ? WHERE id = ?", batch.ordinals)
        for message_id, columns in batch.changes:
            assignments = ", ".join(f"{name} = ?" for name in columns)
            connection.execute(
                f"UPDATE messages SET {assignments} WHERE id = ?", (*columns.values(), message_id)
            )
        before, converted = converted, converted + len(batch.ordinals) + len(batch.changes)
        if before // 100_000 != converted // 100_000:
            logger.info("%d messages converted", converted)
    return totals


def _batches(connection: apsw.Connection, totals: dict[str, MessageTotals]) -> Iterator[_Batch]:
    after: int | None = None
    while True:
        batch = _Batch([], [], 0)
        size = 0
        with closing(scan(connection, "messages", _COLUMNS, after, _ROWS_AT_ONCE)) as rows:
            for row in rows:
                changes = _convert(row, totals)
                batch.last_id = row.rowid
                if len(changes) == 1:
                    batch.ordinals.append((changes["ordinal"], row.rowid))
                    continue
                batch.changes.append((row.rowid, changes))
                size += sum(len(value) for value in changes.values() if isinstance(value, str))
                if size > _TEXT_AT_ONCE:
                    break
        if not batch.ordinals and not batch.changes:
            return
        yield batch
        after = batch.last_id


def _convert(row: ScannedRow, totals: dict[str, MessageTotals]) -> dict[str, Any]:
    """Return the columns of one message that change, including the ordinal."""
    session_id, timestamp, content = row.values[:3]
    total = totals.setdefault(str(session_id), MessageTotals())
    changes: dict[str, Any] = {}
    if not is_time(timestamp):
        changes["extra"] = set_aside({"timestamp": timestamp})
        timestamp = changes["timestamp"] = time_from(timestamp, otherwise=total.newest)
    changes["ordinal"] = total.add(float(timestamp or 0.0))
    content_type: str | None = None
    for name, value in zip(_COLUMNS[3:], row.values[3:], strict=True):
        if value is not None and needs_conversion(value, undecodable=row.undecodable):
            changes[name] = stored_text(value)
    calls = row.values[_TOOL_CALLS]
    if isinstance(calls, str) and (unescaped := unescaped_json(calls)) != calls:
        changes["tool_calls"] = encode_text(unescaped)
    if needs_conversion(content, undecodable=row.undecodable):
        content, content_type = stored_content(content)
        changes.update(content=content, content_type=content_type)
    if row.values[_ROLE] is None:
        changes["role"] = "unknown"
    if total.preview is None and row.values[_ROLE] == "user" and content is not None:
        total.preview = preview_of(_readable(content, content_type))
    return changes


def _readable(column: Value, content_type: str | None) -> Any:
    return decode_content(decode_text(str(column)), content_type)
