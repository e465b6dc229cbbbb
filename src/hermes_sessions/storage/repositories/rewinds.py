"""Rewinds: hide the end of a transcript in a way that can be undone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, cast

from hermes_sessions.errors import InvalidInput
from hermes_sessions.model.message import text_of
from hermes_sessions.storage.provider import ReadTransaction, WriteTransaction
from hermes_sessions.storage.repositories.attachments import message_records
from hermes_sessions.storage.repositories.leases import lock_session
from hermes_sessions.storage.repositories.messages import IN_FORCE, refresh_summary
from hermes_sessions.storage.repositories.revisions import lock_revision, raise_revision
from hermes_sessions.storage.repositories.rows import (
    SELECT_MESSAGE,
    VISIBLE,
)
from hermes_sessions.storage.store_context import StoreContext
from hermes_sessions.storage.tables import REWINDS, names_of

if TYPE_CHECKING:
    from hermes_sessions.storage.records import MessageRecord, RewindRecord, RewindResult

_COLUMNS: Final = names_of(REWINDS, "given", "shown")


class Rewinds:
    """The rows of ``rewinds`` and the messages they hide."""

    def __init__(self, store: StoreContext) -> None:
        self._store = store

    def rewind(
        self,
        session_id: str,
        message_id: int,
        *,
        fence: int | None,
        expected_revision: int | None,
    ) -> RewindResult:
        """See `SessionDB.rewind_to_message`."""
        now = self._store.clock()

        def work(tx: WriteTransaction) -> RewindResult:
            lock_revision(tx, self._store, session_id, fence, expected_revision)
            return self._rewind(tx, session_id, message_id, now)

        return self._store.provider.write(work)

    def rewind_turns(
        self, session_id: str, turns: int, *, fence: int | None
    ) -> tuple[RewindResult, list[MessageRecord]] | None:
        """Rewind the last *turns* user messages, or all there are, in one transaction.

        Returns the result of `rewind` and these messages, newest first; None without any.
        """
        now = self._store.clock()

        def work(tx: WriteTransaction) -> tuple[RewindResult, list[MessageRecord]] | None:
            # Locks the session: no message is added from here on.
            lock_session(tx, self._store, session_id, fence)
            recent = _recent_user_messages(tx, session_id, turns)
            if not recent:
                return None
            return self._rewind(tx, session_id, recent[-1]["id"], now), recent

        return self._store.provider.write(work)

    @staticmethod
    def _rewind(tx: WriteTransaction, session_id: str, message_id: int, now: float) -> RewindResult:
        # Updating the counter first locks the session against appends until commit.
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
        [target] = message_records(tx, [row])
        if target["role"] != "user":
            raise InvalidInput(
                f"Message {message_id} is from {target['role']!r}; a rewind goes to a user "
                f"message. Choose one from list_recent_user_messages()."
            )
        done = hide_from(tx, session_id, message_id, target["ordinal"], now)
        return {
            "rewind_id": done.rewind_id,
            "rewound_count": done.hidden_count,
            "target_text": text_of(target["content"]),
            "new_head_id": done.head_id,
        }

    def restore_since(self, session_id: str, message_id: int, *, fence: int | None) -> int:
        """Undo every rewind in force that goes back to a message or a later one, newest first;
        return how many messages came back.
        """
        now = self._store.clock()

        def work(tx: WriteTransaction) -> int:
            lock_session(tx, self._store, session_id, fence)
            rows = tx.all(
                "SELECT id FROM rewinds WHERE session_id = ? AND target_message_id >= ? "
                "AND restored_at IS NULL AND hidden_count > 0 ORDER BY id DESC",
                (session_id, message_id),
            )
            return sum(self._restore(tx, session_id, row[0], now) for row in rows)

        return self._store.provider.write(work)

    def restore(
        self,
        session_id: str,
        rewind_id: int | None,
        *,
        fence: int | None,
        expected_revision: int | None,
    ) -> int:
        """See `SessionDB.restore_rewound`."""
        now = self._store.clock()

        def work(tx: WriteTransaction) -> int:
            lock_revision(tx, self._store, session_id, fence, expected_revision)
            return self._restore(tx, session_id, rewind_id, now)

        return self._store.provider.write(work)

    @staticmethod
    def _restore(tx: WriteTransaction, session_id: str, wanted: int | None, now: float) -> int:
        known = tx.run(
            f"UPDATE sessions SET rewind_count = rewind_count WHERE id = ? AND {VISIBLE}",
            (session_id,),
        )
        if not known:
            return 0
        rewind = _in_force(tx, session_id, wanted)
        if rewind is None:
            return 0
        _require_same_transcript(tx, session_id, rewind)
        restored = tx.run(
            "UPDATE messages SET active = 1, rewind_id = NULL "
            "WHERE session_id = ? AND rewind_id = ?",
            (session_id, rewind.id),
        )
        tx.run("UPDATE rewinds SET restored_at = ? WHERE id = ?", (now, rewind.id))
        raise_revision(tx, session_id)
        refresh_summary(tx, session_id)
        return restored

    def history(self, session_id: str) -> list[RewindRecord]:
        """See `SessionDB.list_rewinds`."""
        with self._store.provider.read() as tx:
            rows = tx.all(
                f"SELECT {', '.join(_COLUMNS)} FROM rewinds WHERE session_id = ? "
                f"AND EXISTS (SELECT 1 FROM sessions s WHERE s.id = ? AND s.{VISIBLE}) ORDER BY id",
                (session_id, session_id),
            )
        return [cast("RewindRecord", dict(zip(_COLUMNS, row, strict=True))) for row in rows]

    def recent_user_messages(
        self, session_id: str, limit: int, *, include_inactive: bool = False
    ) -> list[MessageRecord]:
        """See `SessionDB.list_recent_user_messages`."""
        with self._store.provider.read() as tx:
            return _recent_user_messages(tx, session_id, limit, include_inactive=include_inactive)


class Hidden(NamedTuple):
    """Messages that were hidden, by the rewind that restores them."""

    rewind_id: int
    hidden_count: int
    #: The message that is last now.
    head_id: int | None


def hide_from(
    tx: WriteTransaction, session_id: str, message_id: int, ordinal: int, now: float
) -> Hidden:
    """Hide a message in force and everything after it, and record that as a rewind."""
    head_id, head_ordinal = _head(tx, session_id, before=ordinal)
    rewind_id = tx.insert(
        "INSERT INTO rewinds (session_id, target_message_id, target_ordinal, hidden_count, "
        "head_ordinal, rewound_at) VALUES (?, ?, ?, 0, ?, ?)",
        (session_id, message_id, ordinal, head_ordinal, now),
    )
    hidden = tx.run(
        f"UPDATE messages SET active = 0, rewind_id = ? WHERE {IN_FORCE} AND ordinal >= ?",
        (rewind_id, session_id, ordinal),
    )
    tx.run("UPDATE rewinds SET hidden_count = ? WHERE id = ?", (hidden, rewind_id))
    if hidden:
        refresh_summary(tx, session_id)
    return Hidden(rewind_id, hidden, head_id)


def _recent_user_messages(
    tx: ReadTransaction, session_id: str, limit: int, *, include_inactive: bool = False
) -> list[MessageRecord]:
    shown = "session_id = ?" if include_inactive else IN_FORCE
    rows = tx.all(
        f"{SELECT_MESSAGE} WHERE {shown} AND role = ? "
        f"AND EXISTS (SELECT 1 FROM sessions s WHERE s.id = ? AND s.{VISIBLE}) "
        f"ORDER BY ordinal DESC LIMIT ?",
        (session_id, "user", session_id, max(limit, 0)),
    )
    return message_records(tx, rows)


class _Rewind(NamedTuple):
    id: int
    #: Ordinal of the last message after the rewind; 0 if none was left.
    head_ordinal: int


def _in_force(tx: ReadTransaction, session_id: str, wanted: int | None) -> _Rewind | None:
    """Return the rewind to undo, the newest unless one is *wanted*; None when it hides nothing."""
    if wanted is not None and not tx.one(
        "SELECT 1 FROM rewinds WHERE id = ? AND session_id = ?", (wanted, session_id)
    ):
        raise InvalidInput(
            f"There is no rewind {wanted} of session {session_id!r}; choose one from "
            f"list_rewinds()."
        )
    chosen, params = ("", ()) if wanted is None else (" AND id = ?", (wanted,))
    row = tx.one(
        f"SELECT id, head_ordinal FROM rewinds WHERE session_id = ? "
        f"AND restored_at IS NULL AND hidden_count > 0{chosen} ORDER BY id DESC LIMIT 1",
        (session_id, *params),
    )
    return _Rewind(*row) if row else None


def _require_same_transcript(tx: ReadTransaction, session_id: str, rewind: _Rewind) -> None:
    """Raise if a restore would join messages that never followed each other.

    A message follows the one that was last when it was added, so the last message identifies the
    transcript in force. A rewind can be undone only on the transcript that it left.
    """
    later = tx.one(
        f"SELECT COUNT(*), MIN(ordinal) FROM messages WHERE {IN_FORCE} AND ordinal > ?",
        (session_id, rewind.head_ordinal),
    )
    if later and later[0]:
        # Rewinding to the first user message after the rewind leads back to where it left off; if
        # there is none, hiding the messages after it does.
        back = tx.one(
            "SELECT id FROM messages WHERE session_id = ? AND role = ? AND ordinal > ? "
            "AND ordinal <= ? ORDER BY ordinal DESC LIMIT 1",
            (session_id, "user", rewind.head_ordinal, later[1]),
        )
        kept = tx.one(
            "SELECT COUNT(*) FROM messages WHERE session_id = ? AND ordinal <= ? "
            "AND active = 1 AND compacted = 0",
            (session_id, rewind.head_ordinal),
        )
        way_back = (
            f"rewind_to_message({session_id!r}, {back[0]})"
            if back
            else f"replace_suffix({session_id!r}, expected_revision=None, "
            f"keep={kept[0] if kept else 0}, messages=[])"
        )
        raise InvalidInput(
            f"Session {session_id!r} has {later[0]} new messages since rewind {rewind.id}. To "
            f"restore what it hid instead: {way_back}, then "
            f"restore_rewound({session_id!r}, rewind_id={rewind.id})."
        )
    head = tx.one(
        "SELECT rewind_id, compacted FROM messages WHERE session_id = ? AND ordinal = ? "
        "AND (active = 0 OR compacted = 1)",
        (session_id, rewind.head_ordinal),
    )
    if head is not None and head[1]:
        raise InvalidInput(
            f"Session {session_id!r} was compacted after rewind {rewind.id}, so what it hid can "
            f"no longer be restored. To read it: get_messages({session_id!r}, "
            f"include_inactive=True)."
        )
    if head is not None:
        raise InvalidInput(
            f"Session {session_id!r} was rewound further after rewind {rewind.id}. First: "
            f"restore_rewound({session_id!r}, rewind_id={head[0]})."
        )


def _head(tx: ReadTransaction, session_id: str, before: int) -> tuple[int | None, int]:
    """Return (id, ordinal) of the last message in force before an ordinal, else (None, 0)."""
    row = tx.one(
        f"SELECT id, ordinal FROM messages WHERE {IN_FORCE} AND ordinal < ? "
        f"ORDER BY ordinal DESC LIMIT 1",
        (session_id, before),
    )
    return (row[0], row[1]) if row else (None, 0)
