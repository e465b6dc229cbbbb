"""Empty sessions: those in which nothing was said, and how they are deleted."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from hermes_sessions.storage.provider import ReadTransaction, WriteTransaction
from hermes_sessions.storage.repositories.deletion import Deletion
from hermes_sessions.storage.repositories.holds import conversations_on_hold
from hermes_sessions.storage.repositories.leases import leased_conversations
from hermes_sessions.storage.repositories.rows import VISIBLE
from hermes_sessions.storage.repositories.trash import DAY
from hermes_sessions.storage.store_context import StoreContext

#: No message of any kind: rewound and compacted ones are history. Other programs may add messages
#: without counting them.
_WITHOUT_MESSAGES: Final = (
    f"NOT EXISTS (SELECT 1 FROM messages m WHERE m.session_id = sessions.id) AND {VISIBLE}"
)
_ENDED: Final = (
    f"ended_at IS NOT NULL AND archived_at IS NULL AND pinned_at IS NULL AND {_WITHOUT_MESSAGES}"
)


class EmptySessions:
    """Sessions without messages."""

    def __init__(self, store: StoreContext) -> None:
        self._store = store
        self._deletion = Deletion(store)

    def delete_if_empty(self, session_id: str, sessions_dir: str | Path | None) -> bool:
        """See `SessionDB.delete_session_if_empty`."""
        gone = self._deletion.delete([session_id], sessions_dir, only_if=_is_untitled_and_empty)
        return bool(gone)

    def count(self) -> int:
        """See `SessionDB.count_empty_sessions`."""
        with self._store.provider.read() as tx:
            return len(self._ended(tx))

    def delete_ended(self, sessions_dir: str | Path | None) -> int:
        """See `SessionDB.delete_empty_sessions`."""
        with self._store.provider.read() as tx:
            empty = self._ended(tx)
        return self._deletion.delete(empty, sessions_dir, only_if=_is_empty)

    def delete_ghosts(self, sessions_dir: str | Path | None) -> int:
        """See `SessionDB.prune_empty_ghost_sessions`."""
        with self._store.provider.read() as tx:
            rows = tx.all(
                f"SELECT id, conversation_id FROM sessions WHERE source = ? AND title IS NULL "
                f"AND ended_at IS NOT NULL AND started_at < ? AND message_count = 0 "
                f"AND pinned_at IS NULL AND {VISIBLE} "
                # Other programs may add messages without counting them.
                f"AND NOT EXISTS (SELECT 1 FROM messages m WHERE m.session_id = sessions.id "
                f"AND m.active = 1 AND m.compacted = 0)",
                ("tui", self._store.clock() - DAY),
            )
            empty = self._free(tx, rows)
        return self._deletion.delete(empty, sessions_dir)

    def _ended(self, tx: ReadTransaction) -> list[str]:
        rows = tx.all(f"SELECT id, conversation_id FROM sessions WHERE {_ENDED}")
        return self._free(tx, rows)

    def _free(self, tx: ReadTransaction, rows: list[tuple[str, str]]) -> list[str]:
        """Return the ids of the sessions whose conversation is neither leased nor on hold."""
        held = leased_conversations(tx, self._store.clock())
        held |= conversations_on_hold(tx, self._store)
        return [session_id for session_id, conversation_id in rows if conversation_id not in held]


def _is_empty(tx: WriteTransaction, session_id: str) -> bool:
    found = tx.one(f"SELECT 1 FROM sessions WHERE id = ? AND {_ENDED}", (session_id,))
    return found is not None


def _is_untitled_and_empty(tx: WriteTransaction, session_id: str) -> bool:
    found = tx.one(
        f"SELECT 1 FROM sessions WHERE id = ? AND title IS NULL AND {_WITHOUT_MESSAGES} "
        f"AND NOT EXISTS (SELECT 1 FROM sessions c WHERE c.parent_session_id = ?)",
        (session_id, session_id),
    )
    return found is not None
