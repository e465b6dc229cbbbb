"""Messages: appending, replacing, reading.

Each message gets its place (ordinal) under the session's row lock, in the same transaction that
updates the session's counters and summary columns, so that lists never read messages and order
never depends on a clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from hermes_sessions.errors import UnknownSession
from hermes_sessions.model.message import preview_of
from hermes_sessions.model.scope import OWNER, Scope
from hermes_sessions.storage.codec import decode_searchable
from hermes_sessions.storage.provider import (
    NewRow,
    ReadTransaction,
    Row,
    WriteTransaction,
    placeholders,
)
from hermes_sessions.storage.repositories.attachments import message_records, store_attachments
from hermes_sessions.storage.repositories.blobs import NewBlob
from hermes_sessions.storage.repositories.leases import (
    fence_condition,
    release_expired_lease_or_raise,
)
from hermes_sessions.storage.repositories.new_message import (
    NewMessage,
    calls_in,
    prepare,
    prepare_batch,
    prepare_replacement,
)
from hermes_sessions.storage.repositories.revisions import lock_revision, raise_revision
from hermes_sessions.storage.repositories.rows import (
    SELECT_MESSAGE,
    STORED_FIELDS,
    VISIBLE,
    Record,
    names,
    scope_condition,
)
from hermes_sessions.storage.store_context import StoreContext

if TYPE_CHECKING:
    from hermes_sessions.storage.records import MessageRecord

# Appending updates the summary columns of a session. Code that hides, removes or restores messages
# calls `refresh_summary` to recompute them.


#: The messages of a session that are neither rewound nor replaced by a summary.
IN_FORCE: Final = "session_id = ? AND active = 1 AND compacted = 0"


def refresh_summary(tx: WriteTransaction, session_id: str) -> None:
    """Recompute a session's counters, preview and activity from its messages in force, and the
    activity of the thread it is part of.
    """
    # One pass over the messages: every rewind and pop of a long transcript needs it.
    row = tx.one(
        f"SELECT COUNT(*), COUNT(tool_calls), MAX(timestamp) FROM messages WHERE {IN_FORCE}",
        (session_id,),
    )
    total, with_calls, newest = row or (0, 0, None)
    calls = "SELECT tool_calls FROM messages WHERE tool_calls IS NOT NULL"
    counts = tx.all(f"{calls} AND {IN_FORCE}", (session_id,)) if with_calls else []
    tx.run(
        "UPDATE sessions SET message_count = ?, tool_call_count = ? WHERE id = ?",
        (total, sum(calls_in(row[0]) for row in counts), session_id),
    )
    _refresh_derived(tx, session_id, newest)
    refresh_thread(tx, session_id)


def refresh_derived(tx: WriteTransaction, session_id: str) -> None:
    """Recompute a session's preview and its own activity; the documented counters are left to
    the program that changed the messages.
    """
    _refresh_derived(tx, session_id, _newest(tx, session_id))


def _refresh_derived(tx: WriteTransaction, session_id: str, newest: float | None) -> None:
    first = tx.one(
        "SELECT content, content_type FROM messages WHERE session_id = ? AND active = 1 "
        "AND role = ? AND content IS NOT NULL ORDER BY ordinal LIMIT 1",
        (session_id, "user"),
    )
    tx.run(
        "UPDATE sessions SET preview = ?, last_active = COALESCE(?, started_at) WHERE id = ?",
        (
            preview_of(decode_searchable(first[0], first[1])) if first else None,
            newest,
            session_id,
        ),
    )


def refresh_thread(tx: WriteTransaction, session_id: str) -> None:
    """Set the activity of the thread's tip to the latest activity in its chain."""
    row = tx.one(
        "SELECT part.conversation_id, part.chain_id, head.tip_id "
        "FROM sessions part JOIN sessions head ON head.id = part.chain_id WHERE part.id = ?",
        (session_id,),
    )
    if row is None:
        return
    conversation_id, chain_id, tip_id = row
    if tip_id is None or chain_id == tip_id:
        return
    others = tx.one(
        f"SELECT MAX(last_active) FROM sessions WHERE conversation_id = ? AND chain_id = ? "
        f"AND id <> ? AND {VISIBLE}",
        (conversation_id, chain_id, tip_id),
    )
    tx.run(
        "UPDATE sessions SET last_active = COALESCE(?, started_at) WHERE id = ?",
        (_newest(tx, tip_id), tip_id),
    )
    if others is not None:
        tx.run(
            "UPDATE sessions SET last_active = ? WHERE id = ? AND last_active < ?",
            (others[0], tip_id, others[0]),
        )


def _newest(tx: ReadTransaction, session_id: str) -> float | None:
    row = tx.one(f"SELECT MAX(timestamp) FROM messages WHERE {IN_FORCE}", (session_id,))
    return row[0] if row else None


_INSERT: Final = (
    f"INSERT INTO messages (session_id, ordinal, {names(STORED_FIELDS)}) "
    f"VALUES (?, ?, {placeholders(len(STORED_FIELDS))})"
)
_INSERT_ATTACHED: Final = (
    f"INSERT INTO messages (session_id, ordinal, {names(STORED_FIELDS)}, attachments) "
    f"VALUES (?, ?, {placeholders(len(STORED_FIELDS) + 1)})"
)


class Messages:
    """The rows of ``messages``."""

    def __init__(
        self, store: StoreContext, on_change: Callable[[int], None] = lambda _: None
    ) -> None:
        """*on_change* is called after the commit, with the number of stored messages, or 1 after a
        removal.
        """
        self._store = store
        self._on_change = on_change

    # ── writing ───────────────────────────────────────────────────────────────────────────────

    def append(
        self, session_id: str, message: Record, *, fence: int | None, expected_revision: int | None
    ) -> int:
        """See `SessionDB.append_message`."""
        prepared = self._prepare(message, self._store.clock())
        provider = self._store.provider
        stored: int | None = None
        is_plain = prepared.external_id is None and expected_revision is None
        if provider.dialect.appends_in_one_step and is_plain and not prepared.blobs:
            stored = provider.append_one(
                NewRow(
                    session_id=session_id,
                    columns=STORED_FIELDS,
                    values=prepared.values,
                    timestamp=prepared.timestamp,
                    tool_calls=prepared.tool_calls,
                    preview=prepared.preview,
                    fence=fence,
                )
            )
        if stored is None:
            # The general path also finds out why the fast path was refused.
            stored = self._append(session_id, [prepared], fence, expected_revision)[0]
        self._on_change(1)
        return stored

    def append_many(
        self,
        session_id: str,
        messages: Iterable[Mapping[str, Any]],
        *,
        fence: int | None,
        expected_revision: int | None,
    ) -> list[int]:
        """See `SessionDB.append_messages`."""
        prepared = prepare_batch(self._store, messages)
        if not prepared and expected_revision is None:
            return []
        stored = self._append(session_id, prepared, fence, expected_revision)
        self._on_change(len(prepared))
        return stored

    def _append(
        self,
        session_id: str,
        messages: Sequence[NewMessage],
        fence: int | None,
        expected_revision: int | None,
    ) -> list[int]:
        def work(tx: WriteTransaction) -> list[int]:
            if expected_revision is not None:
                lock_revision(tx, self._store, session_id, fence, expected_revision)
            return append_prepared(tx, self._store, session_id, messages, fence)

        return self._store.provider.write(work, isolated=False)

    def replace(
        self,
        session_id: str,
        messages: Iterable[Mapping[str, Any]],
        *,
        active_only: bool,
        fence: int | None,
        expected_revision: int | None,
    ) -> None:
        """See `SessionDB.replace_messages`."""
        prepared = prepare_replacement(messages, self._store)

        def work(tx: WriteTransaction) -> None:
            lock_revision(tx, self._store, session_id, fence, expected_revision)
            raise_revision(tx, session_id)
            if active_only:
                delete_in_force(tx, session_id)
            else:
                delete_messages(tx, session_id)
            if prepared:
                append_prepared(tx, self._store, session_id, prepared, fence)

        self._store.provider.write(work)
        self._on_change(max(1, len(prepared)))

    def clear(self, session_id: str, *, fence: int | None, expected_revision: int | None) -> None:
        """See `SessionDB.clear_messages`."""

        def work(tx: WriteTransaction) -> None:
            lock_revision(tx, self._store, session_id, fence, expected_revision)
            raise_revision(tx, session_id)
            delete_messages(tx, session_id)

        self._store.provider.write(work)
        self._on_change(1)

    def has_platform_message_id(self, session_id: str, platform_message_id: object) -> bool:
        """See `SessionDB.has_platform_message_id`."""
        if platform_message_id is None:
            return False
        with self._store.provider.read() as tx:
            row = tx.one(
                "SELECT 1 FROM messages WHERE session_id = ? AND platform_message_id = ? LIMIT 1",
                (session_id, str(platform_message_id)),
            )
            return row is not None and is_visible(tx, session_id)

    def _prepare(self, message: Mapping[str, Any], now: float) -> NewMessage:
        return prepare(message, now=now, store=self._store)

    # ── reading ───────────────────────────────────────────────────────────────────────────────

    def list(
        self,
        session_id: str,
        *,
        limit: int | None,
        offset: int,
        include_inactive: bool,
        scope: Scope = OWNER,
    ) -> list[MessageRecord]:
        """See `SessionDB.get_messages`."""
        with self._store.provider.read() as tx:
            if not is_visible(tx, session_id, scope):
                return []
            shown = "" if include_inactive else " AND active = 1 AND compacted = 0"
            rows = tx.all(
                f"{SELECT_MESSAGE} WHERE session_id = ?{shown} ORDER BY ordinal LIMIT ? OFFSET ?",
                (session_id, _ALL if limit is None or limit < 0 else limit, max(offset, 0)),
            )
            return message_records(tx, rows)

    def find(self, session_id: str, message_id: int) -> MessageRecord | None:
        """Return one message of a session, rewound or not, or None."""
        with self._store.provider.read() as tx:
            row = tx.one(
                f"{SELECT_MESSAGE} WHERE id = ? AND session_id = ?", (message_id, session_id)
            )
            found = [row] if row and is_visible(tx, session_id) else []
            return next(iter(message_records(tx, found)), None)

    def has_external_id(self, session_id: str, external_id: str) -> bool:
        """See `SessionDB.has_external_id`."""
        with self._store.provider.read() as tx:
            return is_visible(tx, session_id) and (
                tx.one(
                    "SELECT 1 FROM messages WHERE session_id = ? AND external_id = ?",
                    (session_id, external_id),
                )
                is not None
            )


#: A LIMIT that means "no limit" on every database.
_ALL: Final = 2**62


def append_prepared(
    tx: WriteTransaction,
    store: StoreContext,
    session_id: str,
    messages: Sequence[NewMessage],
    fence: int | None,
) -> list[int]:
    """Write checked messages at the end of a session and return their ids, in order.

    A message whose external id is already stored is not written again; its stored id is returned.

    Raises:
        UnknownSession: there is no such session.
        StaleFence, ConversationHeld: *fence* is not the token that holds it.
    """
    known = _stored_external_ids(tx, store, session_id, messages)
    fresh: list[NewMessage] = []
    seen = set(known)
    for message in messages:
        if message.external_id is None or message.external_id not in seen:
            fresh.append(message)
            seen.add(message.external_id or "")
    ordinal = _reserve_ordinals(tx, store, session_id, fresh, fence) if fresh else 0
    waiting = iter(fresh)
    upcoming = next(waiting, None)
    ids: list[int] = []
    blobs: dict[int, Sequence[NewBlob]] = {}
    for message in messages:
        if message is upcoming:
            row = (session_id, ordinal, *message.values)
            if message.blobs:
                new_id = tx.insert(_INSERT_ATTACHED, (*row, message.attachments))
                blobs[ordinal] = message.blobs
            else:
                new_id = tx.insert(_INSERT, row)
            ordinal += 1
            upcoming = next(waiting, None)
            if message.external_id is not None:
                known[message.external_id] = new_id
            ids.append(new_id)
        else:
            ids.append(known[message.external_id or ""])
    store_attachments(tx, store, session_id, blobs)
    return ids


def _reserve_ordinals(
    tx: WriteTransaction,
    store: StoreContext,
    session_id: str,
    messages: Sequence[NewMessage],
    fence: int | None,
) -> int:
    """Update the session's counters and summaries; return the first ordinal of the messages."""
    count = len(messages)
    newest = max(message.timestamp for message in messages)
    preview = next((m.preview for m in messages if m.preview is not None), None)
    may_write, token = fence_condition(fence)
    update = (
        # Some databases assign in order, so the old message_count must be read first. Without
        # messages, a session was last active at its start. The first message replaces that time,
        # unless a late message in an earlier session of the thread has raised it.
        f"UPDATE sessions SET last_active = CASE WHEN last_active > ? "
        f"AND (message_count > 0 OR last_active > started_at) THEN last_active ELSE ? END, "
        f"message_count = COALESCE(message_count, 0) + ?, "
        f"tool_call_count = COALESCE(tool_call_count, 0) + ?, "
        f"next_ordinal = next_ordinal + ?, "
        f"preview = COALESCE(preview, ?) WHERE id = ? AND {VISIBLE} AND {may_write}"
    )
    params = (
        newest,
        newest,
        count,
        sum(message.tool_calls for message in messages),
        count,
        preview,
        session_id,
        *token,
    )

    def reserved() -> Row | None:
        facts = "next_ordinal, listed, chain_id"
        if store.provider.dialect.update_returning:
            return tx.one(f"{update} RETURNING {facts}", params)
        if tx.run(update, params):
            return tx.one(f"SELECT {facts} FROM sessions WHERE id = ?", (session_id,))
        return None

    row = reserved()
    if row is None:
        release_expired_lease_or_raise(tx, store, session_id, fence)
        row = reserved()
    if row is None:
        raise UnknownSession(session_id)
    next_ordinal, listed, chain_id = row
    if not listed:
        # A late message in a continued session makes the whole thread recent.
        tx.run(
            "UPDATE sessions SET last_active = ? WHERE last_active < ? "
            "AND id = (SELECT tip_id FROM (SELECT tip_id FROM sessions WHERE id = ?) AS head)",
            (newest, newest, chain_id),
        )
    return int(next_ordinal) - count


def _stored_external_ids(
    tx: WriteTransaction, store: StoreContext, session_id: str, messages: Sequence[NewMessage]
) -> dict[str, int]:
    wanted = {m.external_id for m in messages if m.external_id is not None}
    if not wanted:
        return {}
    # Rivals with the same external id wait here.
    for_update = store.provider.dialect.for_update
    session = tx.one(
        f"SELECT id FROM sessions WHERE id = ? AND {VISIBLE}{for_update}", (session_id,)
    )
    if session is None:
        raise UnknownSession(session_id)
    known: dict[str, int] = {}
    for external_id in wanted:
        row = tx.one(
            "SELECT id FROM messages WHERE session_id = ? AND external_id = ?",
            (session_id, external_id),
        )
        if row is not None:
            known[external_id] = row[0]
    return known


def delete_messages(tx: WriteTransaction, session_id: str) -> None:
    """Delete all messages and rewinds of a session, and reset its summary columns."""
    if not is_visible(tx, session_id):
        return
    tx.run("DELETE FROM rewinds WHERE session_id = ?", (session_id,))
    # NULL keeps the triggers from noting the session once per message.
    tx.run("UPDATE sessions SET last_active = NULL WHERE id = ?", (session_id,))
    tx.run("DELETE FROM messages WHERE session_id = ?", (session_id,))
    refresh_summary(tx, session_id)


def delete_in_force(tx: WriteTransaction, session_id: str) -> None:
    """Delete the messages in force, and reset the summary columns; others stay as they are."""
    if not is_visible(tx, session_id):
        return
    tx.run("UPDATE sessions SET last_active = NULL WHERE id = ?", (session_id,))
    tx.run(f"DELETE FROM messages WHERE {IN_FORCE}", (session_id,))
    refresh_summary(tx, session_id)


def is_visible(tx: ReadTransaction, session_id: str, scope: Scope = OWNER) -> bool:
    """Return whether a session exists in the scope and is not in the trash."""
    seen, params = scope_condition(scope)
    found = f"SELECT 1 FROM sessions WHERE id = ? AND {VISIBLE} AND {seen}"
    return tx.one(found, (session_id, *params)) is not None
