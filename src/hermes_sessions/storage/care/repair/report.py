"""What a repair found, saved and could not save."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from hermes_sessions.storage.sqlite.repair.file_check import FileFinding

# What is asked of a repair.

#: auto: the tool where there is one that can do it, row by row otherwise.
Way = Literal["auto", "tool", "rows"]


DEFAULT_KEEP: Final = 3


def _say_nothing(_step: str, _count: int) -> None:
    pass


class RepairOptions(NamedTuple):
    """How a file is to be repaired."""

    #: Where the new file is to be; None: in the place of the damaged one, which is kept.
    to: Path | None = None
    #: How many damaged files are kept.
    keep: int = DEFAULT_KEEP
    way: Way = "auto"
    clock: Callable[[], float] = time.time
    on_progress: Callable[[str, int], None] = _say_nothing


#: sound: nothing to do. damaged: only looked at. rebuilt: the search index, in its place.
State = Literal["sound", "damaged", "rebuilt", "repaired"]
Ranges = list[tuple[int, int]]


class TableReport(NamedTuple):
    """What became of the rows of one table."""

    name: str
    #: Rows that could be read, those found without their table included.
    read: int
    #: Rows in the new file.
    written: int
    #: Of these, found on pages that had lost their table.
    put_back: int = 0
    duplicates: int = 0
    #: Ids of rows that indexes know and nobody could read; both ends included.
    lost: Ranges = []  # noqa: RUF012 - never changed


class IncompleteSession(NamedTuple):
    """A session that lost messages."""

    id: str
    title: str | None
    #: How many messages it had, as far as it is known, and how many it has.
    expected: int
    found: int
    #: Places of the lost ones in the session; both ends included.
    missing: Ranges


@dataclass
class RepairReport:
    """Everything there is to say about a repair."""

    path: str
    state: State = "sound"
    findings: list[FileFinding] = field(default_factory=list)
    #: ``sqlite3 .recover`` or ``row by row``.
    way: str | None = None
    #: Where the saved store is.
    target: str | None = None
    #: Where the damaged file is kept.
    kept: str | None = None
    tables: list[TableReport] = field(default_factory=list)
    incomplete: list[IncompleteSession] = field(default_factory=list)
    #: Sessions of which nothing but the id is known any more.
    lost_sessions: list[str] = field(default_factory=list)
    #: Sessions that were made for messages whose own is lost, with the number of messages.
    adopted: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    #: Rows found without their table that nobody can put anywhere.
    unknown_rows: int = 0
    #: Tables whose very names are lost, and with them the rows that they had, if any.
    lost_tables: list[str] = field(default_factory=list)
    #: By table: how many rows are lost, of those that are not told otherwise; None where the table
    #: is damaged and nothing says how many it had.
    lost_rows: dict[str, int | None] = field(default_factory=dict)
    #: Rows with a text of which a part is no text that was ever written.
    damaged_texts: int = 0
    #: Bytes that the disk could not read.
    unreadable_bytes: int = 0
    #: Older damaged files that were removed.
    removed: list[str] = field(default_factory=list)

    @property
    def lost_messages(self) -> int:
        """How many messages are lost, as far as it is known."""
        return sum(max(session.expected - session.found, 0) for session in self.incomplete)

    @property
    def is_everything_saved(self) -> bool:
        """Whether nothing is known to be lost. SQLite keeps no checksums: a changed letter inside
        a text cannot be seen.
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
