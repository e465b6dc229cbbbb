"""Compaction: in place or under a new id, and locks that let one caller compact a session.

A lock expires after its time. If its holder's name ends with ``host_processes.this_process_mark``,
the lock also ends with that process, where this host can tell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from hermes_sessions.errors import InvalidInput, UnknownSession
from hermes_sessions.model import title as rules
from hermes_sessions.model.ids import require_bounded, require_new_id
from hermes_sessions.model.lineage import COMPRESSION
from hermes_sessions.storage.codec import encode_content
from hermes_sessions.storage.host_processes import has_ended
from hermes_sessions.storage.provider import WriteTransaction
from hermes_sessions.storage.repositories.attachments import message_records
from hermes_sessions.storage.repositories.lineage import follow_compression
from hermes_sessions.storage.repositories.messages import (
    IN_FORCE,
    append_prepared,
    is_visible,
    refresh_summary,
)
from hermes_sessions.storage.repositories.new_message import (
    MICROSECOND,
    prepare,
    prepare_replacement,
)
from hermes_sessions.storage.repositories.revisions import lock_revision, raise_revision
from hermes_sessions.storage.repositories.rows import SELECT_MESSAGE, VISIBLE, names
from hermes_sessions.storage.repositories.sessions import ORIGIN_COLUMNS, Sessions
from hermes_sessions.storage.repositories.titles import family_titles, free_variant
from hermes_sessions.storage.store_context import StoreContext

#: What a continuation has in common with the session it continues.
_KEPT_COLUMNS: Final = (
    *ORIGIN_COLUMNS,
    "display_name",
    "origin_json",
)


class Continuations:
    """Sessions that continue summarised ones; each is created in one transaction."""

    def __init__(self, store: StoreContext, on_change: Callable[[int], None]) -> None:
        """*on_change* is called with the number of stored messages, after the commit."""
        self._store = store
        self._on_change = on_change

    def start(
        self,
        session_id: str,
        new_session_id: str,
        messages: Iterable[Mapping[str, Any]],
        *,
        system_prompt: str | None,
        fence: int | None,
        expected_revision: int | None,
    ) -> str:
        """See `SessionDB.continue_session`."""
        require_new_id(new_session_id)
        now = self._store.clock()
        prepared = [
            prepare(message, now=now + position * MICROSECOND, store=self._store)
            for position, message in enumerate(messages)
        ]

        def work(tx: WriteTransaction) -> None:
            lock_revision(tx, self._store, session_id, fence, expected_revision)
            row = tx.one(
                f"SELECT source, user_id, model, model_config, system_prompt, title, "
                f"{names(_KEPT_COLUMNS)} FROM sessions WHERE id = ? AND {VISIBLE}",
                (session_id,),
            )
            if row is None:
                raise UnknownSession(session_id)
            source, user_id, model, model_config, prompt, title, *kept = row
            tip = follow_compression(tx, session_id)
            if tip != session_id:
                raise InvalidInput(f"Session {session_id!r} is already continued by {tip!r}.")
            if tx.one("SELECT 1 FROM sessions WHERE id = ?", (new_session_id,)) is not None:
                raise InvalidInput(f"Session {new_session_id!r} already exists.")
            Sessions.insert(
                tx,
                {
                    "id": new_session_id,
                    "source": source,
                    "user_id": user_id,
                    "model": model,
                    "model_config": model_config,
                    "system_prompt": prompt if system_prompt is None else system_prompt,
                    "started_at": now,
                },
                session_id,
                COMPRESSION,
            )
            changes = ", ".join(f"{name} = ?" for name in _KEPT_COLUMNS)
            tx.run(f"UPDATE sessions SET {changes} WHERE id = ?", (*kept, new_session_id))
            if title is not None:
                tx.run(
                    "UPDATE sessions SET title = ? WHERE id = ?",
                    (_next_title(tx, title), new_session_id),
                )
            if prepared:
                append_prepared(tx, self._store, new_session_id, prepared, fence)
            tx.run(
                "UPDATE sessions SET ended_at = ?, end_reason = ? "
                "WHERE id = ? AND ended_at IS NULL",
                (now, COMPRESSION, session_id),
            )

        self._store.provider.write(work)
        self._on_change(len(prepared))
        return new_session_id


def _next_title(tx: WriteTransaction, title: str) -> str:
    numbered = rules.next_in_family(title, family_titles(tx, title))
    return numbered if len(numbered) <= rules.MAX_TITLE_LENGTH else free_variant(tx, title)


class InPlaceCompaction:
    """Replaces the transcript in force by a shorter one under the same id. The former one stays,
    marked as compacted: search finds it, and replay leaves it out.
    """

    def __init__(self, store: StoreContext, on_change: Callable[[int], None]) -> None:
        """*on_change* is called with the number of stored messages, after the commit."""
        self._store = store
        self._on_change = on_change

    def compact(
        self,
        session_id: str,
        messages: Iterable[Mapping[str, Any]],
        *,
        fence: int | None,
        expected_revision: int | None,
    ) -> int:
        """See `SessionDB.archive_and_compact`."""
        prepared = prepare_replacement(messages, self._store)

        def work(tx: WriteTransaction) -> None:
            lock_revision(tx, self._store, session_id, fence, expected_revision)
            if not is_visible(tx, session_id):
                if prepared:
                    raise UnknownSession(session_id)
                return
            tx.run(f"UPDATE messages SET compacted = 1 WHERE {IN_FORCE}", (session_id,))
            raise_revision(tx, session_id)
            refresh_summary(tx, session_id)
            if prepared:
                append_prepared(tx, self._store, session_id, prepared, fence)

        self._store.provider.write(work)
        self._on_change(max(1, len(prepared)))
        return len(prepared)

    def has_archived(self, session_id: str) -> bool:
        """See `SessionDB.has_archived_messages`."""
        with self._store.provider.read() as tx:
            row = tx.one(
                "SELECT 1 FROM messages WHERE session_id = ? AND (active = 0 OR compacted = 1) "
                "LIMIT 1",
                (session_id,),
            )
            return row is not None and is_visible(tx, session_id)

    def set_api_content(
        self, session_id: str, content: Any, api_content: str | None, *, fence: int | None
    ) -> int:
        """See `SessionDB.set_latest_user_api_content`."""
        wanted = encode_content(content)

        def work(tx: WriteTransaction) -> int:
            lock_revision(tx, self._store, session_id, fence, expected_revision=None)
            rows = tx.all(
                f"{SELECT_MESSAGE} WHERE {IN_FORCE} AND role = ? ORDER BY ordinal DESC LIMIT 1",
                (session_id, "user"),
            )
            newest = next(iter(message_records(tx, rows)), None)
            if newest is None or encode_content(newest["content"]) != wanted:
                return 0
            if not is_visible(tx, session_id):
                return 0
            raise_revision(tx, session_id)
            return tx.run(
                "UPDATE messages SET api_content = ? WHERE id = ?", (api_content, newest["id"])
            )

        return self._store.provider.write(work)


class CompressionLocks:
    """The rows of ``compression_locks``."""

    def __init__(self, store: StoreContext) -> None:
        self._store = store

    def acquire(self, session_id: str, holder: str, ttl_seconds: float) -> bool:
        """See `SessionDB.try_acquire_compression_lock`."""
        require_bounded(session_id, "session id")
        now = self._store.clock()
        dialect = self._store.provider.dialect

        def work(tx: WriteTransaction) -> bool:
            row = tx.one("SELECT holder FROM compression_locks WHERE session_id = ?", (session_id,))
            ended = row[0] if row is not None and has_ended(row[0]) else holder
            # An update renews the caller's own lock or takes over an expired one; an insert
            # succeeds only for the first caller. The row lock decides between rivals.
            if tx.run(
                "UPDATE compression_locks SET holder = ?, acquired_at = ?, expires_at = ? "
                "WHERE session_id = ? AND (holder IN (?, ?) OR expires_at <= ?)",
                (holder, now, now + ttl_seconds, session_id, holder, ended, now),
            ):
                return True
            return bool(
                tx.run(
                    dialect.insert_if_absent(
                        "compression_locks",
                        ("session_id", "holder", "acquired_at", "expires_at"),
                        ("session_id",),
                    ),
                    (session_id, holder, now, now + ttl_seconds),
                )
            )

        return self._store.provider.write(work)

    def refresh(self, session_id: str, holder: str, ttl_seconds: float) -> bool:
        """See `SessionDB.refresh_compression_lock`."""
        now = self._store.clock()
        return bool(
            self._store.provider.write(
                lambda tx: tx.run(
                    "UPDATE compression_locks SET expires_at = ? "
                    "WHERE session_id = ? AND holder = ? AND expires_at > ?",
                    (now + ttl_seconds, session_id, holder, now),
                )
            )
        )

    def release(self, session_id: str, holder: str) -> bool:
        """See `SessionDB.release_compression_lock`."""
        return bool(
            self._store.provider.write(
                lambda tx: tx.run(
                    "DELETE FROM compression_locks WHERE session_id = ? AND holder = ?",
                    (session_id, holder),
                )
            )
        )

    def holder(self, session_id: str) -> str | None:
        """See `SessionDB.get_compression_lock_holder`."""
        with self._store.provider.read() as tx:
            row = tx.one(
                "SELECT holder FROM compression_locks WHERE session_id = ? AND expires_at > ?",
                (session_id, self._store.clock()),
            )
        return row[0] if row and not has_ended(row[0]) else None
