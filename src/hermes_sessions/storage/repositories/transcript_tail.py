"""The end of a transcript: take the newest message off, hide everything, replace the last part.

Nothing is deleted: what is taken off is hidden by a recorded rewind, which `Rewinds` restores. Each
operation locks the session's row first, so that concurrent ones happen one after another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from hermes_sessions.errors import InvalidInput, UnknownSession
from hermes_sessions.storage.provider import ReadTransaction, WriteTransaction
from hermes_sessions.storage.repositories.attachments import message_records
from hermes_sessions.storage.repositories.messages import append_prepared
from hermes_sessions.storage.repositories.new_message import NewMessage, prepare_batch
from hermes_sessions.storage.repositories.revisions import lock_revision, raise_revision
from hermes_sessions.storage.repositories.rewinds import Hidden, hide_from
from hermes_sessions.storage.repositories.rows import SELECT_MESSAGE, VISIBLE
from hermes_sessions.storage.store_context import StoreContext

if TYPE_CHECKING:
    from hermes_sessions.storage.records import MessageRecord, SuffixReplacement

#: Messages in force, of a session that is not in the trash; takes the session's id twice.
_IN_FORCE: Final = (
    f"session_id = ? AND active = 1 AND compacted = 0 "
    f"AND EXISTS (SELECT 1 FROM sessions s WHERE s.id = ? AND s.{VISIBLE})"
)


class TranscriptTail:
    """Changes the end of transcripts."""

    def __init__(self, store: StoreContext, on_change: Callable[[int], None]) -> None:
        """*on_change* is called with the number of stored messages, after the commit."""
        self._store = store
        self._on_change = on_change

    def pop(
        self, session_id: str, *, fence: int | None, expected_revision: int | None
    ) -> MessageRecord | None:
        """See `SessionDB.pop_message`."""
        now = self._store.clock()

        def work(tx: WriteTransaction) -> MessageRecord | None:
            lock_revision(tx, self._store, session_id, fence, expected_revision)
            row = tx.one(
                f"{SELECT_MESSAGE} WHERE {_IN_FORCE} ORDER BY ordinal DESC LIMIT 1",
                (session_id, session_id),
            )
            if row is None:
                return None
            [newest] = message_records(tx, [row])
            hide_from(tx, session_id, newest["id"], newest["ordinal"], now)
            raise_revision(tx, session_id)
            return newest

        return self._store.provider.write(work, isolated=False)

    def hide_all(
        self, session_id: str, *, fence: int | None, expected_revision: int | None
    ) -> None:
        """See `SessionDB.clear_messages`."""
        now = self._store.clock()

        def work(tx: WriteTransaction) -> None:
            lock_revision(tx, self._store, session_id, fence, expected_revision)
            if _hide_after(tx, session_id, 0, now):
                raise_revision(tx, session_id)

        self._store.provider.write(work, isolated=False)

    def replace_suffix(
        self,
        session_id: str,
        messages: Iterable[Mapping[str, Any]],
        *,
        keep: int,
        fence: int | None,
        expected_revision: int | None,
    ) -> SuffixReplacement:
        """See `SessionDB.replace_suffix`."""
        if isinstance(keep, bool) or not isinstance(keep, int) or keep < 0:
            raise InvalidInput(
                f"keep must be the number of messages to keep, 0 or more, not {keep!r:.50}."
            )
        prepared = prepare_batch(self._store, messages)
        now = self._store.clock()

        def work(tx: WriteTransaction) -> SuffixReplacement:
            lock_revision(tx, self._store, session_id, fence, expected_revision)
            _require_messages(tx, session_id, keep)
            _require_new_ids(tx, session_id, prepared)
            hidden = _hide_after(tx, session_id, keep, now)
            if hidden:
                raise_revision(tx, session_id)
            stored = append_prepared(tx, self._store, session_id, prepared, fence)
            row = tx.one("SELECT revision FROM sessions WHERE id = ?", (session_id,))
            return {
                "rewind_id": hidden.rewind_id if hidden else None,
                "hidden_count": hidden.hidden_count if hidden else 0,
                "message_ids": stored,
                "revision": int(row[0]) if row else 0,
            }

        done = self._store.provider.write(work, isolated=False)
        self._on_change(len(prepared))
        return done


def _hide_after(tx: WriteTransaction, session_id: str, keep: int, now: float) -> Hidden | None:
    """Hide all messages in force but the first *keep*; return None without any."""
    row = tx.one(
        f"SELECT id, ordinal FROM messages WHERE {_IN_FORCE} ORDER BY ordinal LIMIT 1 OFFSET ?",
        (session_id, session_id, keep),
    )
    return hide_from(tx, session_id, row[0], row[1], now) if row else None


def _require_messages(tx: ReadTransaction, session_id: str, keep: int) -> None:
    if tx.one(f"SELECT 1 FROM sessions WHERE id = ? AND {VISIBLE}", (session_id,)) is None:
        raise UnknownSession(session_id)
    row = tx.one(f"SELECT COUNT(*) FROM messages WHERE {_IN_FORCE}", (session_id, session_id))
    stored = int(row[0]) if row else 0
    if keep > stored:
        raise InvalidInput(
            f"Session {session_id!r} has {stored} messages in force, so {keep} cannot be kept. "
            f"Read it again with get_messages()."
        )


def _require_new_ids(tx: ReadTransaction, session_id: str, messages: Iterable[NewMessage]) -> None:
    """Raise if an external id is taken: that message would not be stored again at the end."""
    seen: set[str] = set()
    for message in messages:
        external_id = message.external_id
        if external_id is None:
            continue
        if external_id in seen or tx.one(
            "SELECT 1 FROM messages WHERE session_id = ? AND external_id = ?",
            (session_id, external_id),
        ):
            raise InvalidInput(
                f"The external id {external_id!r:.100} is used by another message of session "
                f"{session_id!r}. Leave it out, or choose another."
            )
        seen.add(external_id)
