"""Write what a backup holds into an empty store, including ids.

On a server this is one transaction: no other process sees a part of it, and a lost connection
leaves nothing behind. A SQLite file under construction has no final name yet, so many short
transactions are enough.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from hermes_sessions.errors import BackupRefused
from hermes_sessions.storage.care.backups.portable_format import count, present
from hermes_sessions.storage.provider import ReadTransaction, SessionDBProvider, WriteTransaction
from hermes_sessions.storage.repositories.stale_sessions import note_all
from hermes_sessions.storage.session_copy.reader import Piece, SideRows, batches
from hermes_sessions.storage.session_copy.writer import Edge, edges_of, insert_rows, link_parents

#: Called with the number of messages done.
Advance = Callable[[int], None]
#: Examines the result, given the number of rows that were written, by table.
Check = Callable[[ReadTransaction, Counter[str]], None]
_Run = Callable[[Callable[[WriteTransaction], Any]], Any]


def fill(
    target: SessionDBProvider,
    read: Callable[[], Iterable[Piece | SideRows]],
    *,
    at_once: bool,
    check: Check = lambda _tx, _written: None,
    advance: Advance = lambda _: None,
) -> None:
    """Write all that *read* yields into an empty store; with *at_once* in a single transaction.

    *check* examines the result before a single transaction is committed.

    Raises:
        BackupRefused: the store is not empty; nothing was written.
        BackupDamaged: the backup is damaged. With *at_once*, nothing was written.
    """
    if at_once:
        target.write(lambda tx: check(tx, _fill(target, read, advance, lambda step: step(tx))))
        return
    written = _fill(target, read, advance, target.write)
    with target.read() as tx:
        check(tx, written)


def _fill(
    target: SessionDBProvider,
    read: Callable[[], Iterable[Piece | SideRows]],
    advance: Advance,
    run: _Run,
) -> Counter[str]:
    run(lambda tx: _require_empty(tx, target.dialect.tables_query))
    written = Counter[str]()
    #: Edges by the parent that is not stored yet.
    waiting: dict[str, list[Edge]] = {}
    for batch in batches(read()):
        edges = edges_of(batch)
        for part in batch:
            if isinstance(part, Piece) and part.session is not None:
                edges += waiting.pop(part.session_id, ())

        def work(
            tx: WriteTransaction,
            batch: list[Piece | SideRows] = batch,
            edges: list[Edge] = edges,
        ) -> list[Edge]:
            insert_rows(tx, target, batch)
            return link_parents(tx, edges)

        for edge in run(work):
            waiting.setdefault(edge[1], []).append(edge)
        for part in batch:
            written.update({table.name: len(rows) for table, rows in part.rows()})
            advance(len(part.messages) if isinstance(part, Piece) else 0)
    run(note_all)
    return written


def _require_empty(tx: WriteTransaction, tables_query: str | None) -> None:
    """Refuse a store that is not empty.

    Raises:
        BackupRefused: the message says what it contains, and what to do.
    """
    held = {table.name: rows for table in present(tx, tables_query) if (rows := count(tx, table))}
    if held:
        some = ", ".join(f"{number} in {name}" for name, number in list(held.items())[:3])
        raise BackupRefused(
            f"The store is not empty (rows: {some}); nothing was changed. On a server, a backup "
            f"can only be restored into an empty database or schema: create one, restore into it "
            f"with --into, and point sessiondb in config.yaml to it. The old one stays."
        )
