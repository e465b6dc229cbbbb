"""The options and the report of a repair."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

# Options

#: auto: the sqlite3 tool if it supports recovery, row by row otherwise.
Way = Literal["auto", "tool", "rows"]
DEFAULT_KEEP: Final = 3


def _say_nothing(_step: str, _count: int) -> None:
    pass


class RepairOptions(NamedTuple):
    """Options of a repair."""

    #: The path of the new file; None replaces the damaged one, which is kept.
    to: Path | None = None
    #: How many damaged files are kept.
    keep: int = DEFAULT_KEEP
    way: Way = "auto"
    clock: Callable[[], float] = time.time
    on_progress: Callable[[str, int], None] = _say_nothing


#: header, file, schema, table, index and log need a salvage; search can be rebuilt in place.
What = Literal["header", "file", "schema", "table", "search", "log"]


class FileFinding(NamedTuple):
    """One problem of a file."""

    what: What
    where: str
    detail: str


#: sound: nothing to do. damaged: only checked. rebuilt: the search index, in place.
State = Literal["sound", "damaged", "rebuilt", "repaired"]
Ranges = list[tuple[int, int]]


class TableReport(NamedTuple):
    """The result for the rows of one table."""

    name: str
    #: Rows that could be read, including those found without their table.
    read: int
    #: Rows in the new file.
    written: int
    #: Rows of these that were found on pages without their table.
    put_back: int = 0
    duplicates: int = 0
    #: Ids of unreadable rows that indexes know, as inclusive ranges.
    lost: Ranges = []  # noqa: RUF012 - never changed


class IncompleteSession(NamedTuple):
    """A session that lost messages."""

    id: str
    title: str | None
    #: How many messages it had, as far as known, and how many it has.
    expected: int
    found: int
    #: Ordinals of the lost ones in the session, as inclusive ranges.
    missing: Ranges


@dataclass
class RepairReport:
    """The complete result of a repair."""

    path: str
    state: State = "sound"
    findings: list[FileFinding] = field(default_factory=list)
    #: ``sqlite3 .recover`` or ``row by row``.
    way: str | None = None
    #: The path of the recovered store.
    target: str | None = None
    #: Where the damaged file is kept.
    kept: str | None = None
    tables: list[TableReport] = field(default_factory=list)
    incomplete: list[IncompleteSession] = field(default_factory=list)
    #: Sessions of which only the id is known.
    lost_sessions: list[str] = field(default_factory=list)
    #: Sessions created for messages whose session is lost, with the number of messages.
    adopted: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    #: Rows found without their table that could not be identified.
    unknown_rows: int = 0
    #: Tables whose names are lost, together with their rows, if any.
    lost_tables: list[str] = field(default_factory=list)
    #: By table: the number of other lost rows; None if the table is damaged and nothing tells how
    #: many it had.
    lost_rows: dict[str, int | None] = field(default_factory=dict)
    #: Rows with a partly damaged text.
    damaged_texts: int = 0
    #: Bytes that the disk could not read.
    unreadable_bytes: int = 0
    #: Older damaged files that were removed.
    removed: list[str] = field(default_factory=list)

    @property
    def lost_messages(self) -> int:
        """The number of lost messages, as far as known."""
        return sum(max(session.expected - session.found, 0) for session in self.incomplete)

    @property
    def is_everything_saved(self) -> bool:
        """Whether nothing is known to be lost. SQLite has no checksums, so a changed letter inside
        a text is not detected.
        """
        return not (
            self.incomplete
            or self.lost_sessions
            or self.adopted
            or self.damaged_texts
            or self.unreadable_bytes
            or self.lost_tables
            or self.lost_rows
            or any(table.lost for table in self.tables)
        )

    def document(self) -> dict[str, Any]:
        """Return the report for JSON."""
        return {
            "path": self.path,
            "state": self.state,
            "complete": self.is_everything_saved,
            "findings": [finding._asdict() for finding in self.findings],
            "way": self.way,
            "target": self.target,
            "kept": self.kept,
            "tables": [table._asdict() for table in self.tables],
            "lost_messages": self.lost_messages,
            "incomplete_sessions": [session._asdict() for session in self.incomplete],
            "lost_sessions": self.lost_sessions,
            "sessions_made_for_messages": self.adopted,
            "damaged_texts": self.damaged_texts,
            "unknown_rows": self.unknown_rows,
            "lost_tables": self.lost_tables,
            "lost_rows": self.lost_rows,
            "unreadable_bytes": self.unreadable_bytes,
            "notes": self.notes,
            "removed_copies": self.removed,
        }
