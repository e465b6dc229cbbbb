"""Notes of sessions that other programs changed, and reads that wait for none of them.

Programs that know only the documented columns insert, update and delete rows by themselves.
Triggers complete their rows and note the session in ``stale_sessions``, and do nothing more: so
they are cheap, work with any client and wait for no other writer. Before something depends on
derived columns, such as a list, a resume or a prune, they are worked out for what is noted.
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
from hermes_sessions.storage.store import Store

#: Sessions that are settled before a reader gets its answer.
_FOR_A_READER: Final = 200
#: Seconds that a reader waits for a writer.
_PATIENCE: Final = 0.05
_COPIED_AT_ONCE: Final = 1000
_ANY: Final = "SELECT seq FROM stale_sessions LIMIT 1"


@contextmanager
def settled_read(store: Store) -> Iterator[ReadTransaction]:
    """Open a read that sees derived columns as they should be.

    It does not wait for writers: what cannot be settled in a moment, or only by a handle that may
    write, is read as it is.
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
                raise  # By what the caller reads.
        # Also where another program has dropped the table: it is made again.
        settle_first(store)
    with store.provider.read() as tx:
        yield tx


def settled_rows(store: Store, select: str, source: str, params: Params) -> list[Row]:
    """Return the rows of one query, *select* and the rest of it from FROM on, as `settled_read`
    sees them. It asks for notes in the query itself: lists are frequent, and servers far away.
    """
    if not store.provider.read_only:
        with suppress(StatementRefused), store.provider.read() as tx:
            rows = tx.all(f"{select}, EXISTS (SELECT 1 FROM stale_sessions) {source}", params)
            if rows and not rows[0][-1]:
                return [row[:-1] for row in rows]
        settle_first(store)
    with store.provider.read() as tx:
        return tx.all(f"{select} {source}", params)


def has_notes(store: Store) -> bool:
    """Return whether other programs changed sessions whose derived columns are not settled yet."""
    try:
        with store.provider.read() as tx:
            return tx.one(_ANY) is not None
    except StatementRefused:
        return False  # A store without that table: an older one, or another program dropped it.


def settle_first(store: Store, *, limit: int | None = _FOR_A_READER) -> None:
    """Settle up to *limit* noted sessions (all without one), unless other writers are in the way,
    the store commits nothing now, or this handle may only read. What is left stays noted.
    """

    def work() -> None:
        # Hardly any process meets a note.
        from hermes_sessions.storage.repositories.derived_columns import settle

        settle(store, limit=limit, patience=_PATIENCE, step_seconds=step_seconds)

    # What asks for all of them is about to write, and depends on them.
    is_reader = limit is not None
    step_seconds = STEP_SECONDS if is_reader else math.inf
    run_before_read(store.provider, work, "derived columns of sessions", pauses=is_reader)


def unsettled_conversations(tx: ReadTransaction) -> set[str]:
    """Return the conversations of sessions that are still noted, and those of their parents, which
    they may have come to.
    """
    rows = tx.all(
        "SELECT DISTINCT s.conversation_id, p.conversation_id FROM stale_sessions n "
        "JOIN sessions s ON s.id = n.session_id "
        "LEFT JOIN sessions p ON p.id = s.parent_session_id"
    )
    return {conversation_id for row in rows for conversation_id in row}


def note_all(tx: WriteTransaction) -> None:
    """Have the derived columns of every session worked out again."""
    tx.run("INSERT INTO stale_sessions (session_id) SELECT id FROM sessions")


def forget_notes(tx: WriteTransaction, session_ids: Iterable[str]) -> None:
    """Take the derived columns of these sessions for true."""
    tx.run_many("DELETE FROM stale_sessions WHERE session_id = ?", [(one,) for one in session_ids])


def copy_notes(source: SessionDBProvider, target: SessionDBProvider) -> None:
    """Note in *target* what is noted in *source*, whose derived columns were copied as they are."""
    with source.read() as tx:
        noted = iter(tx.stream("SELECT DISTINCT session_id FROM stale_sessions"))
        while rows := list(islice(noted, _COPIED_AT_ONCE)):
            target.write(
                partial(bulk_insert, table="stale_sessions", columns=("session_id",), rows=rows)
            )
