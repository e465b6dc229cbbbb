"""Writes rows of whole sessions; parents are linked once both ends are stored."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from hermes_sessions.storage.provider import Row, SessionDBProvider, WriteTransaction, bulk_insert
from hermes_sessions.storage.repositories.attachments import require_readers_of
from hermes_sessions.storage.repositories.lineage import restore_parents
from hermes_sessions.storage.session_copy.reader import Piece, SideRows, sessions_among
from hermes_sessions.storage.tables import MESSAGES, SESSIONS, Table

_PARENT: Final = SESSIONS.copied_names.index("parent_session_id")

#: A child and its parent.
Edge = tuple[str, str]


def without_parent(session: Row) -> Row:
    """Return a row of ``sessions`` without its parent, which may not be stored yet."""
    return (*session[:_PARENT], None, *session[_PARENT + 1 :])


def edges_of(parts: Iterable[Piece | SideRows]) -> list[Edge]:
    """Return the edges of the sessions that begin in these pieces."""
    firsts = [part.session for part in parts if isinstance(part, Piece) and part.session]
    return [(session[0], session[_PARENT]) for session in firsts if session[_PARENT] is not None]


def insert_rows(
    tx: WriteTransaction, target: SessionDBProvider, parts: Iterable[Piece | SideRows]
) -> None:
    """Insert the rows of pieces with their ids; sessions get no parent yet."""
    found: dict[str, tuple[Table, list[Row]]] = {}
    for part in parts:
        for table, rows in part.rows():
            some = [without_parent(row) for row in rows] if table is SESSIONS else rows
            found.setdefault(table.name, (table, []))[1].extend(some)
    for table, rows in found.values():
        if table is MESSAGES:
            require_readers_of(tx, target, rows)
        bulk_insert(tx, table.name, table.copied_names, rows)
        if rows and any(column.kind == "serial" for column in table.columns):
            target.after_explicit_ids(tx, table.name)


def link_parents(tx: WriteTransaction, edges: Sequence[Edge]) -> list[Edge]:
    """Set the parents of stored sessions that have none; return the edges whose parent is not
    stored.
    """
    if not edges:
        return []
    stored = sessions_among(tx, sorted({parent for _, parent in edges}))
    restore_parents(tx, [(parent, child) for child, parent in edges if parent in stored])
    return [edge for edge in edges if edge[1] not in stored]
