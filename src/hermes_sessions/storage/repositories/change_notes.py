"""Notes of sessions that other programs changed, and reads that wait for none of them.

Programs that know only the documented columns insert, update and delete rows by themselves.
Triggers complete their rows and note the session in ``stale_sessions``, and do nothing more: so
they are cheap, work with any client and wait for no other writer. Before something depends on
derived columns, such as a list, a resume or a prune, they are worked out for what is noted.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from hermes_sessions.errors import StoreUnavailable
from hermes_sessions.storage.logs import Logger
from hermes_sessions.storage.provider import ReadTransaction
from hermes_sessions.storage.store import Store

logger = Logger(__name__)

#: Sessions that are settled before a reader gets its answer.
_FOR_A_READER: Final = 500
#: Seconds that a reader waits for a writer.
_PATIENCE: Final = 0.05
_ANY: Final = "SELECT seq FROM stale_sessions LIMIT 1"


@contextmanager
def settled_read(store: Store) -> Iterator[ReadTransaction]:
    """Open a read that sees derived columns as they should be.

    It does not wait for writers: what cannot be settled in a moment, or only by a handle that may
    write, is read as it is.
    """
    if not store.provider.read_only:
        with store.provider.read() as tx:
            if tx.one(_ANY) is None:
                yield tx
                return
        _settle_some(store)
    with store.provider.read() as tx:
        yield tx


def settle_first(store: Store) -> None:
    """Settle what can be settled in a moment, for a verb that is about to change something."""
    if not store.provider.read_only:
        with settled_read(store):
            pass


def unsettled_conversations(tx: ReadTransaction) -> set[str]:
    """Return the conversations of sessions that are still noted."""
    rows = tx.all(
        "SELECT DISTINCT s.conversation_id FROM stale_sessions n "
        "JOIN sessions s ON s.id = n.session_id"
    )
    return {row[0] for row in rows}


def _settle_some(store: Store) -> None:
    # Hardly any process meets a note.
    from hermes_sessions.storage.repositories.foreign_changes import settle

    try:
        settle(store, limit=_FOR_A_READER, patience=_PATIENCE)
    except StoreUnavailable as error:
        logger.info("changes of other programs could not be taken in now: %s", error)
