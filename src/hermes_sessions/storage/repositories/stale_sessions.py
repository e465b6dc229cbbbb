"""Notes of sessions that other programs changed, and reads that settle them first.

Programs that know only the documented columns insert, update and delete rows directly. Triggers
complete their rows and note the session in ``stale_sessions``, nothing more: so they are cheap,
work with any client and never wait for other writers. Operations that depend on derived columns,
such as a list, a resume or a prune, first recompute them for the noted sessions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice
from typing import Final

from hermes_sessions.errors import StatementRefused
from hermes_sessions.storage.provider import (
    Params,
    ReadTransaction,
    Row,
    SessionDBProvider,
    WriteTransaction,
    bulk_insert,
)
from hermes_sessions.storage.reader_upkeep import STEP_SECONDS, run_before_read
from hermes_sessions.storage.store_context import StoreContext

#: Sessions that a reader settles before it reads.
_FOR_A_READER: Final = 200
#: Seconds that a reader waits for a writer.
_PATIENCE: Final = 0.05
_COPIED_AT_ONCE: Final = 1000
_ANY: Final = "SELECT seq FROM stale_sessions LIMIT 1"


@contextmanager
def settled_read(store: StoreContext) -> Iterator[ReadTransaction]:
    """Open a read transaction with derived columns brought up to date.

    It hardly waits for writers: sessions that cannot be settled at once, or that a read-only handle
    cannot settle, are read with stale columns.
    """
    if not store.provider.read_only:
        is_settled = False
        try:
            with store.provider.read() as tx:
                is_settled = tx.one(_ANY) is None
                if is_settled:
                    yield tx
                    return
        except StatementRefused:
            if is_settled:
                raise  # The error is from the caller's own read.
        # Also if another program dropped the table: settling recreates it.
        settle_first(store)
    with store.provider.read() as tx:
        yield tx


def settled_rows(store: StoreContext, select: str, source: str, params: Params) -> list[Row]:
    """Return the rows of one query as `settled_read` sees them; *source* is its part from FROM on.
    The query itself checks for notes, which saves a round trip to a server on every list.
    """
    if not store.provider.read_only:
        with suppress(StatementRefused), store.provider.read() as tx:
            rows = tx.all(f"{select}, EXISTS (SELECT 1 FROM stale_sessions) {source}", params)
            if rows and not rows[0][-1]:
                return [row[:-1] for row in rows]
        settle_first(store)
    with store.provider.read() as tx:
        return tx.all(f"{select} {source}", params)


def has_notes(store: StoreContext) -> bool:
    """Return whether other programs changed sessions whose derived columns are not settled yet."""
    try:
        with store.provider.read() as tx:
            return tx.one(_ANY) is not None
    except StatementRefused:
        return False  # No such table: an older store, or another program dropped it.


def settle_first(store: StoreContext, *, limit: int | None = _FOR_A_READER) -> None:
    """Settle up to *limit* noted sessions, all with None, unless other writers block, the store
    cannot commit now, or this handle is read-only. The others stay noted.
    """

    def work() -> None:
        # Imported late: few processes ever meet a note.
        from hermes_sessions.storage.repositories.derived_columns import settle

        settle(store, limit=limit, patience=_PATIENCE, step_seconds=step_seconds)

    # A caller without a limit is about to write, and depends on all of them.
    is_reader = limit is not None
    step_seconds = STEP_SECONDS if is_reader else math.inf
    run_before_read(store.provider, work, "derived columns of sessions", pauses=is_reader)


def unsettled_conversations(tx: ReadTransaction) -> set[str]:
    """Return the conversations of noted sessions and of their parents, to which they may belong
    now.
    """
    rows = tx.all(
        "SELECT DISTINCT s.conversation_id, p.conversation_id FROM stale_sessions n "
        "JOIN sessions s ON s.id = n.session_id "
        "LEFT JOIN sessions p ON p.id = s.parent_session_id"
    )
    return {conversation_id for row in rows for conversation_id in row}


def note_all(tx: WriteTransaction) -> None:
    """Note every session, so that all derived columns are recomputed."""
    tx.run("INSERT INTO stale_sessions (session_id) SELECT id FROM sessions")


def forget_notes(tx: WriteTransaction, session_ids: Iterable[str]) -> None:
    """Delete the notes of these sessions, whose derived columns are up to date."""
    tx.run_many("DELETE FROM stale_sessions WHERE session_id = ?", [(one,) for one in session_ids])


def copy_notes(source: SessionDBProvider, target: SessionDBProvider) -> None:
    """Copy the notes from *source* to *target*, as the stale derived columns were copied, too."""
    with source.read() as tx:
        noted = iter(tx.stream("SELECT DISTINCT session_id FROM stale_sessions"))
        while rows := list(islice(noted, _COPIED_AT_ONCE)):
            target.write(
                partial(bulk_insert, table="stale_sessions", columns=("session_id",), rows=rows)
            )
