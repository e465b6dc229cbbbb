"""Writes pieces of sessions to the target, several per transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from hermes_sessions.storage.provider import (
    ReadTransaction,
    Row,
    SessionDBProvider,
    WriteTransaction,
    bulk_insert,
    placeholders,
)
from hermes_sessions.storage.repositories.lineage import restore_parents
from hermes_sessions.storage.repositories.stale_sessions import forget_notes
from hermes_sessions.storage.tables import MESSAGES, REWINDS, SESSIONS, USAGE, Table
from hermes_sessions.storage.transfer.checksums import Checksum, is_same
from hermes_sessions.storage.transfer.copy_ledger import BEGUN, Ledger
from hermes_sessions.storage.transfer.reader import (
    ChecksummedSession,
    Piece,
    checksum_sessions,
    sessions_among,
)

_IDS_PER_QUERY: Final = 500


def _names(table: Table) -> list[str]:
    return [column.name for column in table.copied]


_SESSION_NAMES: Final = _names(SESSIONS)
_PARENT: Final = _SESSION_NAMES.index("parent_session_id")
_TITLE: Final = _SESSION_NAMES.index("title")
#: Values of rows that exist only within a transaction.
_PLACEHOLDERS: Final[dict[str, dict[str, Any]]] = {
    "messages": {"role": "system", "timestamp": 0.0, "ordinal": -1},
    "rewinds": {
        "target_message_id": 0,
        "target_ordinal": 0,
        "hidden_count": 0,
        "head_ordinal": 0,
        "rewound_at": 0.0,
    },
}
_REWIND_ID: Final = _names(MESSAGES).index("rewind_id")


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The result of one transaction."""

    #: Sessions written without their title, because another session of the target has it.
    untitled: list[str] = field(default_factory=list)
    #: New ids of renumbered rewinds.
    rewind_ids: dict[str, dict[int, int]] = field(default_factory=dict)


class Writer:
    """Writes pieces that were read from the source."""

    def __init__(self, target: SessionDBProvider, ledger: Ledger, *, merging: bool) -> None:
        """*merging* says that the target has other sessions."""
        self._target = target
        self._merging = merging
        self._ledger = ledger
        self._upsert = target.dialect.upsert(
            "sessions", _SESSION_NAMES, ("id",), [name for name in _SESSION_NAMES if name != "id"]
        )
        #: New rewind ids of sessions that are written in several transactions.
        self._renumbered: set[str] = set()
        self._rewind_ids: dict[str, dict[int, int]] = {}
        self._untitled: set[str] = set()
        self._above: Mapping[str, int] = {}

    def write(self, pieces: Sequence[Piece]) -> WriteResult:
        """Write these pieces in one transaction; a first piece replaces the stored session."""
        written = self._target.write(lambda tx: self._write(tx, pieces), isolated=False)
        self._rewind_ids.update(written.rewind_ids)
        self._untitled.update(written.untitled)
        for piece in pieces:
            if piece.checksum is not None:
                self._renumbered.discard(piece.session_id)
                self._rewind_ids.pop(piece.session_id, None)
                self._untitled.discard(piece.session_id)
        return written

    def renumber(self, session_id: str, above: Mapping[str, int]) -> None:
        """Let the database generate ids for the rows of a session, higher than *above* by table,
        because other sessions keep lower ids.
        """
        self._renumbered.add(session_id)
        self._above = above

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
        self._write_sessions(tx, [piece for piece in pieces if piece.session is not None], written)
        for piece in pieces:
            if piece.session is not None and piece.session_id in self._renumbered:
                self._leave_free(tx, piece.session_id)
            if piece.rewinds and piece.session_id in self._renumbered:
                written.rewind_ids[piece.session_id] = _number_rewinds(tx, piece.rewinds)
        kept = [piece for piece in pieces if piece.session_id not in self._renumbered]
        rewinds = [row for piece in kept for row in piece.rewinds]
        messages = [row for piece in kept for row in piece.messages]
        bulk_insert(tx, "rewinds", _names(REWINDS), rewinds)
        bulk_insert(tx, "messages", _names(MESSAGES), messages)
        if rewinds:
            self._target.after_explicit_ids(tx, "rewinds")
        if messages:
            self._target.after_explicit_ids(tx, "messages")
        for piece in pieces:
            if piece.session_id in self._renumbered:
                numbers = written.rewind_ids.get(piece.session_id)
                self._write_renumbered(tx, piece, numbers)
        # A session without its title is incomplete, except when merging.
        lacking = set() if self._merging else self._untitled.union(written.untitled)
        entries = {
            piece.session_id: BEGUN if piece.session_id in lacking else str(piece.checksum or BEGUN)
            for piece in pieces
        }
        self._ledger.note(tx, "sessions", entries.items())
        return written

    def _write_sessions(
        self, tx: WriteTransaction, firsts: Sequence[Piece], written: WriteResult
    ) -> None:
        if not firsts:
            return
        ids = [piece.session_id for piece in firsts]
        stored = sessions_among(tx, ids)
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
        for piece in firsts:
            # Parents may be copied later, so they are set once both exist.
            row = list(piece.session or ())
            row[_PARENT] = None
            if row[_TITLE] in refused:
                row[_TITLE] = None
                written.untitled.append(piece.session_id)
            rows.append(tuple(row))
        bulk_insert(tx, "sessions", _SESSION_NAMES, [row for row in rows if row[0] not in stored])
        tx.run_many(self._upsert, [row for row in rows if row[0] in stored])
        bulk_insert(tx, "session_model_usage", _names(USAGE), [r for p in firsts for r in p.usage])
        tie(
            tx,
            [
                (p.session_id, p.session[_PARENT])
                for p in firsts
                if p.session and p.session[_PARENT]
            ],
        )
        # Derived columns are copied unchanged; the notes of the source follow at the end.
        forget_notes(tx, ids)

    def _clear_the_way(self, tx: WriteTransaction, firsts: Sequence[Piece]) -> set[str]:
        """Clear the titles of copied sessions that lost them in the source; return the titles that
        other sessions of the target keep.
        """
        titles = [piece.session[_TITLE] for piece in firsts if piece.session]
        titles = [title for title in titles if title is not None]
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
        stale = [holder for holder in entries if self._is_stale(found[holder], entries[holder])]
        for holder in stale:
            tx.run("UPDATE sessions SET title = NULL WHERE id = ?", (holder,))
        # Their checksums no longer match, so they are copied again.
        self._ledger.note(tx, "sessions", [(holder, BEGUN) for holder in stale])
        return {title for holder, title in holders.items() if holder not in stale}

    def _is_stale(self, found: ChecksummedSession, entry: str) -> bool:
        """Return whether a session whose title is needed is unchanged since its copy."""
        copied = Checksum.read(entry)
        if copied is None:
            return entry == BEGUN
        return found.checksum.title == copied.title and is_same(
            found.checksum, copied, merging=self._merging
        )

    def _leave_free(self, tx: WriteTransaction, session_id: str) -> None:
        """Raise the generated ids above all ids that other sessions keep."""
        for table, wanted in self._above.items():
            row = tx.one(f"SELECT MAX(id) FROM {table}")
            if row is not None and (row[0] or 0) < wanted:
                names, values = zip(*_PLACEHOLDERS[table].items(), strict=True)
                tx.run(
                    f"INSERT INTO {table} (id, session_id, {', '.join(names)}) "
                    f"VALUES ({placeholders(len(names) + 2)})",
                    (wanted, session_id, *values),
                )
                self._target.after_explicit_ids(tx, table)
                tx.run(f"DELETE FROM {table} WHERE id = ?", (wanted,))

    def _write_renumbered(
        self, tx: WriteTransaction, piece: Piece, numbers: dict[int, int] | None
    ) -> None:
        numbers = numbers or self._rewind_ids.get(piece.session_id, {})
        names = _names(MESSAGES)[1:]
        rows = []
        for row in piece.messages:
            values = list(row)
            values[_REWIND_ID] = numbers.get(values[_REWIND_ID])
            rows.append(tuple(values[1:]))
        bulk_insert(tx, "messages", names, rows)
        if piece.checksum is not None:
            for number, ordinal in tx.all(
                "SELECT id, target_ordinal FROM rewinds WHERE session_id = ?", (piece.session_id,)
            ):
                target = tx.one(
                    "SELECT id FROM messages WHERE session_id = ? AND ordinal = ?",
                    (piece.session_id, ordinal),
                )
                if target is not None:
                    tx.run(
                        "UPDATE rewinds SET target_message_id = ? WHERE id = ?", (target[0], number)
                    )


def _number_rewinds(tx: WriteTransaction, rewinds: Sequence[Row]) -> dict[int, int]:
    names = _names(REWINDS)[1:]
    insert = f"INSERT INTO rewinds ({', '.join(names)}) VALUES ({placeholders(len(names))})"
    return {row[0]: tx.insert(insert, row[1:]) for row in rewinds}


def _remove_rows(tx: WriteTransaction, ids: Sequence[str]) -> None:
    marks = placeholders(len(ids))
    for table in (MESSAGES, REWINDS, USAGE):
        tx.run(f"DELETE FROM {table.name} WHERE session_id IN ({marks})", ids)


def tie(tx: WriteTransaction, edges: Sequence[tuple[str, str]]) -> list[str]:
    """Set the stored parents of sessions that have none; return the changed sessions."""
    if not edges:
        return []
    parents = sessions_among(tx, sorted({parent for _, parent in edges}))
    possible = [(parent, child) for child, parent in edges if parent in parents]
    restore_parents(tx, possible)
    return [child for _, child in possible]


def any_taken(tx: ReadTransaction, table: str, ids: Sequence[int], session_id: str) -> bool:
    """Return whether a row of another session has one of these ids."""
    for start in range(0, len(ids), _IDS_PER_QUERY):
        part = ids[start : start + _IDS_PER_QUERY]
        if tx.one(
            f"SELECT 1 FROM {table} WHERE id IN ({placeholders(len(part))}) "
            f"AND session_id <> ? LIMIT 1",
            (*part, session_id),
        ):
            return True
    return False
