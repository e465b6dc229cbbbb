"""Messages of the old layout: their ordinals, and their content in our form.

One pass in id order, which is the order of writing, in batches, so that memory does not grow with
the file. Each row is rewritten once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
from hermes_sessions.storage.sqlite.upgrade.layout import text_columns
from hermes_sessions.storage.tables import MESSAGES

logger = Logger(__name__)

_ROWS_AT_ONCE: Final = 5_000
#: A batch ends early when its changing rows have this many characters.
_TEXT_AT_ONCE: Final = 4_000_000

#: Specially handled columns come first; session ids are already converted.
_SPECIAL: Final = ("session_id", "timestamp", "content", "active", "compacted", "role")
_TEXTS_FROM: Final = _SPECIAL.index("role")


@dataclass(slots=True)
class MessageTotals:
    """Totals of one session's messages."""

    #: All messages, and those that are neither rewound nor compacted.
    count: int = 0
    in_force: int = 0
    oldest: float = 0.0
    newest: float = 0.0
    #: The time of the newest message in force.
    active: float | None = None
    #: The preview in listings: from the first user message with content.
    preview: str | None = None

    def add(self, timestamp: float, *, in_force: bool) -> int:
        """Count one more message; return its ordinal."""
        self.oldest = timestamp if not self.count else min(self.oldest, timestamp)
        self.newest = timestamp if not self.count else max(self.newest, timestamp)
        self.count += 1
        if in_force:
            self.active = timestamp if self.active is None else max(self.active, timestamp)
            self.in_force += 1
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
    texts = [name for name in text_columns(connection, MESSAGES) if name not in _SPECIAL]
    converted = 0
    for batch in _batches(connection, (*_SPECIAL, *texts), totals):
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


def _batches(
    connection: apsw.Connection, columns: Sequence[str], totals: dict[str, MessageTotals]
) -> Iterator[_Batch]:
    after: int | None = None
    while True:
        batch = _Batch([], [], 0)
        size = 0
        with closing(scan(connection, "messages", columns, after, _ROWS_AT_ONCE)) as rows:
            for row in rows:
                changes = _convert(row, columns, totals)
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


def _convert(
    row: ScannedRow, columns: Sequence[str], totals: dict[str, MessageTotals]
) -> dict[str, Any]:
    """Return the columns of one message that change, including the ordinal."""
    session_id, timestamp, content, active, compacted, role = row.values[: len(_SPECIAL)]
    total = totals.setdefault(str(session_id), MessageTotals())
    changes: dict[str, Any] = {}
    if not is_time(timestamp):
        changes["extra"] = set_aside({"timestamp": timestamp})
        timestamp = changes["timestamp"] = time_from(timestamp, otherwise=total.newest)
    in_force = bool(active) and not compacted
    changes["ordinal"] = total.add(float(timestamp or 0.0), in_force=in_force)
    content_type: str | None = None
    for name, value in zip(columns[_TEXTS_FROM:], row.values[_TEXTS_FROM:], strict=True):
        if value is not None and needs_conversion(value, undecodable=row.undecodable):
            changes[name] = stored_text(value)
        if (
            name == "tool_calls"
            and isinstance(value, str)
            and (unescaped := unescaped_json(value)) != value
        ):
            changes[name] = encode_text(unescaped)
    if needs_conversion(content, undecodable=row.undecodable):
        content, content_type = stored_content(content)
        changes.update(content=content, content_type=content_type)
    if role is None:
        changes["role"] = "unknown"
    if total.preview is None and role == "user" and active and content is not None:
        total.preview = preview_of(_readable(content, content_type))
    return changes


def _readable(column: Value, content_type: str | None) -> Any:
    return decode_content(decode_text(str(column)), content_type)
