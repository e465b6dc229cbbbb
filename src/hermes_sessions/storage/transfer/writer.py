"""Writes pieces of sessions to the target, several per transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from hermes_sessions.storage.provider import (
    Row,
    SessionDBProvider,
    WriteTransaction,
    bulk_insert,
    placeholders,
)
from hermes_sessions.storage.repositories.stale_sessions import forget_notes
from hermes_sessions.storage.session_copy.reader import (
    Piece,
    checksum_sessions,
    sessions_among,
)
from hermes_sessions.storage.session_copy.row_ids import (
    highest_id,
    is_any_id_taken,
    reserve_ids,
)
from hermes_sessions.storage.session_copy.writer import (
    edges_of,
    insert_rows,
    link_parents,
    without_parent,
)
from hermes_sessions.storage.tables import MESSAGES, REWINDS, SESSIONS, USAGE, Table
from hermes_sessions.storage.transfer.copy_ledger import BEGUN, Ledger, is_as_copied

_TITLE: Final = SESSIONS.copied_names.index("title")
#: Columns that hold an id, and the table whose shift applies to it.
_IDS: Final = {
    "messages": {"id": "messages", "rewind_id": "rewinds"},
    "rewinds": {"id": "rewinds", "target_message_id": "messages"},
}


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The result of one transaction."""

    #: Sessions written without their title, because another session of the target has it.
    untitled: list[str] = field(default_factory=list)
    #: By session and table: the distance by which ids were moved.
    shifts: dict[str, dict[str, int]] = field(default_factory=dict)


class Writer:
    """Writes pieces that were read from the source."""

    def __init__(self, target: SessionDBProvider, ledger: Ledger, *, merging: bool) -> None:
        """*merging* says that the target has other sessions."""
        self._target = target
        self._merging = merging
        self._ledger = ledger
        self._upsert = target.dialect.upsert(
            "sessions", SESSIONS.copied_names, ("id",), SESSIONS.copied_names[1:]
        )
        #: By session and table: ids of which some are taken, and the highest id of the source.
        self._taken: dict[str, dict[str, tuple[Sequence[int], int]]] = {}
        #: The shifts of sessions that are being written, and the last ones by table.
        self._shifts: dict[str, dict[str, int]] = {}
        self._last_shifts: dict[str, int] = {}
        self._untitled: set[str] = set()

    def write(self, pieces: Sequence[Piece]) -> WriteResult:
        """Write these pieces in one transaction; a first piece replaces the stored session."""
        written = self._target.write(lambda tx: self._write(tx, pieces), isolated=False)
        self._untitled.update(written.untitled)
        self._shifts.update(written.shifts)
        for shifts in written.shifts.values():
            self._last_shifts.update(shifts)
        for piece in pieces:
            if piece.checksum is not None:
                self._taken.pop(piece.session_id, None)
                self._shifts.pop(piece.session_id, None)
                self._untitled.discard(piece.session_id)
        return written

    def renumber(self, session_id: str, table: str, ids: Sequence[int], highest: int) -> None:
        """Move the *ids* of a session in *table*, because other sessions have some of them, above
        all ids of the target and *highest*, the last one of the source.
        """
        self._taken.setdefault(session_id, {})[table] = ids, highest

    def remove(self, ids: Sequence[str]) -> list[str]:
        """Remove these sessions, except those that still have children; return the removed ones."""

        def work(tx: WriteTransaction) -> list[str]:
            marks = placeholders(len(ids))
            rows = tx.all(
                f"SELECT parent_session_id FROM sessions WHERE parent_session_id IN ({marks})", ids
            )
            parents = {row[0] for row in rows}
            removed = [session_id for session_id in ids if session_id not in parents]
            if removed:
                _remove_rows(tx, removed)
                marks = placeholders(len(removed))
                tx.run(f"DELETE FROM sessions WHERE id IN ({marks})", removed)
                self._ledger.forget(tx, "sessions", removed)
            return removed

        return self._target.write(work, isolated=False)

    # ── one transaction ───────────────────────────────────────────────────────────────────────

    def _write(self, tx: WriteTransaction, pieces: Sequence[Piece]) -> WriteResult:
        written = WriteResult()
        firsts = {piece.session_id: piece.session for piece in pieces if piece.session}
        self._write_sessions(tx, firsts, written)
        for session_id in firsts.keys() & self._taken.keys():
            written.shifts[session_id] = self._shifts_of(tx, session_id)
        shifts = self._shifts | written.shifts
        insert_rows(
            tx,
            self._target,
            [
                _moved(piece._replace(session=None), shifts.get(piece.session_id))
                for piece in pieces
            ],
        )
        link_parents(tx, edges_of(pieces))
        # Derived columns are copied unchanged; the notes of the source follow at the end.
        forget_notes(tx, firsts)
        # A session without its title is incomplete, except when merging.
        lacking = set() if self._merging else self._untitled.union(written.untitled)
        entries = {
            piece.session_id: BEGUN if piece.session_id in lacking else str(piece.checksum or BEGUN)
            for piece in pieces
        }
        self._ledger.note(tx, "sessions", entries.items())
        return written

    def _write_sessions(
        self, tx: WriteTransaction, firsts: Mapping[str, Row], written: WriteResult
    ) -> None:
        if not firsts:
            return
        stored = sessions_among(tx, list(firsts))
        if stored:
            _remove_rows(tx, list(stored))
            marks = placeholders(len(stored))
            tx.run(
                f"UPDATE sessions SET title = NULL, parent_session_id = NULL, edge_kind = NULL "
                f"WHERE id IN ({marks})",
                list(stored),
            )
        refused = self._clear_the_way(tx, firsts)
        rows = []
        for session_id, session in firsts.items():
            row = without_parent(session)
            if row[_TITLE] in refused:
                row = (*row[:_TITLE], None, *row[_TITLE + 1 :])
                written.untitled.append(session_id)
            rows.append(row)
        new = [row for row in rows if row[0] not in stored]
        bulk_insert(tx, "sessions", SESSIONS.copied_names, new)
        tx.run_many(self._upsert, [row for row in rows if row[0] in stored])

    def _clear_the_way(self, tx: WriteTransaction, firsts: Mapping[str, Row]) -> set[str]:
        """Clear the titles of copied sessions that lost them in the source; return the titles that
        other sessions of the target keep.
        """
        titles = [row[_TITLE] for row in firsts.values() if row[_TITLE] is not None]
        if not titles:
            return set()
        holders: dict[str, str] = {
            row[0]: row[1]
            for row in tx.all(
                f"SELECT id, title FROM sessions WHERE title IN ({placeholders(len(titles))})",
                titles,
            )
        }
        entries = self._ledger.entries(tx, "sessions", list(holders))
        found = checksum_sessions(tx, list(entries))
        stale = [
            holder
            for holder, entry in entries.items()
            if is_as_copied(found[holder], entry, merging=self._merging)
        ]
        for holder in stale:
            tx.run("UPDATE sessions SET title = NULL WHERE id = ?", (holder,))
        # Their checksums no longer match, so they are copied again.
        self._ledger.note(tx, "sessions", [(holder, BEGUN) for holder in stale])
        return {title for holder, title in holders.items() if holder not in stale}

    def _shifts_of(self, tx: WriteTransaction, session_id: str) -> dict[str, int]:
        shifts = {}
        for table, (ids, highest) in self._taken[session_id].items():
            shift = self._last_shifts.get(table, 0)
            if not shift or is_any_id_taken(tx, table, [number + shift for number in ids]):
                shift = max(highest, highest_id(tx, table))
                reserve_ids(tx, self._target, table, highest + shift, session_id)
            shifts[table] = shift
        return shifts


def _moved(piece: Piece, shifts: Mapping[str, int] | None) -> Piece:
    """Return a piece with its ids moved."""
    if not shifts:
        return piece
    rewinds = [_moved_row(REWINDS, row, shifts) for row in piece.rewinds]
    messages = [_moved_row(MESSAGES, row, shifts) for row in piece.messages]
    return piece._replace(rewinds=rewinds, messages=messages)


def _moved_row(table: Table, row: Row, shifts: Mapping[str, int]) -> Row:
    values = list(row)
    for number, name in enumerate(table.copied_names):
        if (origin := _IDS[table.name].get(name)) and values[number]:
            values[number] += shifts.get(origin, 0)
    return tuple(values)


def _remove_rows(tx: WriteTransaction, ids: Sequence[str]) -> None:
    marks = placeholders(len(ids))
    for table in (MESSAGES, REWINDS, USAGE):
        tx.run(f"DELETE FROM {table.name} WHERE session_id IN ({marks})", ids)
