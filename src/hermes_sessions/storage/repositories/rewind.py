"""Rewind: taking back the end of a transcript without losing it."""

from __future__ import annotations

from hermes_sessions.errors import InvalidInput
from hermes_sessions.model.message import text_of
from hermes_sessions.storage.provider import WriteTransaction
from hermes_sessions.storage.repositories.rows import (
    SELECT_MESSAGE,
    VISIBLE,
    Record,
    message_record,
)
from hermes_sessions.storage.repositories.summaries import refresh_summary
from hermes_sessions.storage.store import Store

_COLUMNS = [
    "id",
    "session_id",
    "target_message_id",
    "target_ordinal",
    "hidden_count",
    "rewound_at",
    "restored_at",
]


class Rewinds:
    """The rows of ``rewinds`` and the messages they hide."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def rewind(self, session_id: str, message_id: int) -> Record:
        """See `SessionDB.rewind_to_message`."""
        now = self._store.clock()
        return self._store.provider.write(lambda tx: self._rewind(tx, session_id, message_id, now))

    @staticmethod
    def _rewind(tx: WriteTransaction, session_id: str, message_id: int, now: float) -> Record:
        # The counter is raised first: it locks the session against appends until commit.
        known = tx.run(
            f"UPDATE sessions SET rewind_count = rewind_count + 1 WHERE id = ? AND {VISIBLE}",
            (session_id,),
        )
        row = tx.one(f"{SELECT_MESSAGE} WHERE id = ? AND session_id = ?", (message_id, session_id))
        if not known or row is None:
            raise InvalidInput(
                f"There is no message {message_id} in session {session_id!r}; choose one from "
                f"list_recent_user_messages()."
            )
        target = message_record(row)
        if target["role"] != "user":
            raise InvalidInput(
                f"Message {message_id} is from {target['role']!r}; a rewind goes to a user "
                f"message. Choose one from list_recent_user_messages()."
            )
        rewind_id = tx.insert(
            "INSERT INTO rewinds (session_id, target_message_id, target_ordinal, hidden_count, "
            "rewound_at) VALUES (?, ?, ?, 0, ?)",
            (session_id, message_id, target["ordinal"], now),
        )
        hidden = tx.run(
            "UPDATE messages SET active = 0, rewind_id = ? "
            "WHERE session_id = ? AND ordinal >= ? AND active = 1",
            (rewind_id, session_id, target["ordinal"]),
        )
        tx.run("UPDATE rewinds SET hidden_count = ? WHERE id = ?", (hidden, rewind_id))
        if hidden:
            refresh_summary(tx, session_id)
        head = tx.one(
            "SELECT id FROM messages WHERE session_id = ? AND active = 1 "
            "ORDER BY ordinal DESC LIMIT 1",
            (session_id,),
        )
        return {
            "rewind_id": rewind_id,
            "rewound_count": hidden,
            "target_text": text_of(target["content"]),
            "new_head_id": head[0] if head else None,
        }

    def restore(self, session_id: str) -> int:
        """See `SessionDB.restore_rewound`."""
        now = self._store.clock()
        return self._store.provider.write(lambda tx: self._restore(tx, session_id, now))

    @staticmethod
    def _restore(tx: WriteTransaction, session_id: str, now: float) -> int:
        known = tx.run(
            f"UPDATE sessions SET rewind_count = rewind_count WHERE id = ? AND {VISIBLE}",
            (session_id,),
        )
        if not known:
            return 0
        newest = tx.one(
            "SELECT id, target_ordinal FROM rewinds WHERE session_id = ? AND restored_at IS NULL "
            "AND hidden_count > 0 ORDER BY id DESC LIMIT 1",
            (session_id,),
        )
        if newest is None:
            return 0
        rewind_id, target_ordinal = newest
        later = tx.one(
            "SELECT COUNT(*) FROM messages WHERE session_id = ? AND ordinal >= ? AND active = 1",
            (session_id, target_ordinal),
        )
        if later and later[0]:
            raise InvalidInput(
                f"Session {session_id!r} went on with {later[0]} messages since it was rewound. "
                f"Rewind those first, then restore."
            )
        restored = tx.run(
            "UPDATE messages SET active = 1, rewind_id = NULL "
            "WHERE session_id = ? AND rewind_id = ?",
            (session_id, rewind_id),
        )
        tx.run("UPDATE rewinds SET restored_at = ? WHERE id = ?", (now, rewind_id))
        refresh_summary(tx, session_id)
        return restored

    def history(self, session_id: str) -> list[Record]:
        """See `SessionDB.list_rewinds`."""
        with self._store.provider.read() as tx:
            rows = tx.all(
                f"SELECT {', '.join(_COLUMNS)} FROM rewinds WHERE session_id = ? "
                f"AND EXISTS (SELECT 1 FROM sessions s WHERE s.id = ? AND s.{VISIBLE}) ORDER BY id",
                (session_id, session_id),
            )
        return [dict(zip(_COLUMNS, row, strict=True)) for row in rows]

    def recent_user_messages(self, session_id: str, limit: int) -> list[Record]:
        """See `SessionDB.list_recent_user_messages`."""
        with self._store.provider.read() as tx:
            rows = tx.all(
                f"{SELECT_MESSAGE} WHERE session_id = ? AND active = 1 AND role = ? "
                f"AND EXISTS (SELECT 1 FROM sessions s WHERE s.id = ? AND s.{VISIBLE}) "
                f"ORDER BY ordinal DESC LIMIT ?",
                (session_id, "user", session_id, max(limit, 0)),
            )
        return [message_record(row) for row in rows]
