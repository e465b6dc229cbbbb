"""Write the rows of a portable backup into an empty store, including ids.

On a server this is one transaction: no other process sees a part of it, and a lost connection
leaves nothing behind. A SQLite file under construction has no final name yet, so many short
transactions are enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

from hermes_sessions.errors import BackupRefused
from hermes_sessions.storage.care.backups.container import Container
from hermes_sessions.storage.care.backups.portable_format import (
    INCLUDED_TABLES,
    BackedUpSession,
    count,
    names,
    present,
    read_rows,
)
from hermes_sessions.storage.provider import (
    ReadTransaction,
    Row,
    SessionDBProvider,
    WriteTransaction,
    bulk_insert,
)
from hermes_sessions.storage.repositories.lineage import restore_parents
from hermes_sessions.storage.repositories.stale_sessions import note_all
from hermes_sessions.storage.tables import SESSIONS

#: Rows and characters of one batch.
_BATCH: Final = 2000
_BATCH_CHARACTERS: Final = 4_000_000
_PARENT: Final = names(SESSIONS).index("parent_session_id")

#: Called with the number of messages done.
Advance = Callable[[int], None]
Check = Callable[[ReadTransaction], None]
_Batch = dict[str, list[Row]]


def fill(
    target: SessionDBProvider,
    container: Container,
    *,
    at_once: bool,
    check: Check,
    advance: Advance = lambda _: None,
) -> None:
    """Write all rows of a backup into an empty store; with *at_once* in a single transaction.

    *check* examines the result before a single transaction is committed.

    Raises:
        BackupRefused: the store is not empty; nothing was written.
        BackupDamaged: the backup is damaged. With *at_once*, nothing was written.
    """
    container.check_digests()
    if at_once:
        target.write(
            partial(_fill, target=target, container=container, check=check, advance=advance)
        )
        return
    target.write(partial(require_empty, tables_query=target.dialect.tables_query))
    for batch in _batches(container):
        target.write(partial(_insert, batch=batch))
        advance(len(batch.get("messages", ())))
    for edges in _parents(container):
        target.write(partial(restore_parents, edges=edges))
    target.write(partial(_continue_ids_above, target=target))
    with target.read() as tx:
        check(tx)


def _fill(
    tx: WriteTransaction,
    target: SessionDBProvider,
    container: Container,
    check: Check,
    advance: Advance,
) -> None:
    require_empty(tx, target.dialect.tables_query)
    for batch in _batches(container):
        _insert(tx, batch)
        advance(len(batch.get("messages", ())))
    for edges in _parents(container):
        restore_parents(tx, edges)
    _continue_ids_above(tx, target)
    check(tx)


def require_empty(tx: WriteTransaction, tables_query: str | None) -> None:
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


def _batches(container: Container) -> Iterator[_Batch]:
    """Yield rows by table; a session's own row never follows the rows that belong to it."""
    batch: _Batch = {}
    rows = characters = 0
    for found in read_rows(container):
        if isinstance(found, BackedUpSession):
            continue
        table, row = found
        if table is SESSIONS:
            # Parents may come later; they are all linked at the end.
            row = (*row[:_PARENT], None, *row[_PARENT + 1 :])
        batch.setdefault(table.name, []).append(row)
        rows += 1
        characters += sum(len(value) for value in row if isinstance(value, (str, bytes)))
        if rows >= _BATCH or characters >= _BATCH_CHARACTERS:
            yield batch
            batch, rows, characters = {}, 0, 0
    if batch:
        yield batch


def _parents(container: Container) -> Iterator[list[tuple[Any, Any]]]:
    edges = []
    for found in read_rows(container):
        if isinstance(found, BackedUpSession) or found[0] is not SESSIONS:
            continue
        row = found[1]
        if row[_PARENT] is not None:
            edges.append((row[_PARENT], row[0]))
            if len(edges) == _BATCH:
                yield edges
                edges = []
    if edges:
        yield edges


def _insert(tx: WriteTransaction, batch: _Batch) -> None:
    for table in INCLUDED_TABLES:
        bulk_insert(tx, table.name, names(table), batch.get(table.name, []))


def _continue_ids_above(tx: WriteTransaction, target: SessionDBProvider) -> None:
    note_all(tx)
    for table in INCLUDED_TABLES:
        if any(column.kind == "serial" for column in table.columns):
            target.after_explicit_ids(tx, table.name)
