"""Topics of private Telegram chats, each bound to a session.

A binding belongs to its session: it is hidden and restored with it, and deleted with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from hermes_sessions.errors import InvalidInput, UnknownSession
from hermes_sessions.model.ids import require_bounded
from hermes_sessions.storage.provider import Params, ReadTransaction, WriteTransaction, placeholders
from hermes_sessions.storage.repositories.meta import Meta
from hermes_sessions.storage.repositories.rows import (
    SESSION_COLUMNS,
    VISIBLE,
    Record,
    names,
    session_values,
)
from hermes_sessions.storage.repositories.stale_sessions import settled_read
from hermes_sessions.storage.store_context import StoreContext

if TYPE_CHECKING:
    from hermes_sessions.storage.records import SessionSummary, TopicBinding

_SCHEMA_KEY: Final = "telegram_dm_topic_schema_version"
_SCHEMA: Final = "2"
COLUMNS: Final = (
    "chat_id",
    "thread_id",
    "user_id",
    "session_key",
    "session_id",
    "managed_mode",
    "linked_at",
    "updated_at",
)
MODE_COLUMNS: Final = (
    "chat_id",
    "user_id",
    "enabled",
    "has_topics_enabled",
    "allows_users_to_create_topics",
    "activated_at",
    "updated_at",
)
_SELECT: Final = (
    f"SELECT {names(COLUMNS)} FROM topics WHERE EXISTS "
    f"(SELECT 1 FROM sessions WHERE id = topics.session_id AND {VISIBLE}) AND "
)


class Topics:
    """The rows of ``topic_modes`` and ``topics``."""

    def __init__(self, store: StoreContext) -> None:
        self._store = store
        self._meta = Meta(store)

    def prepare(self) -> None:
        """See `SessionDB.apply_telegram_topic_migration`."""
        self._meta.set(_SCHEMA_KEY, _SCHEMA)

    def enable(
        self,
        chat_id: object,
        user_id: object,
        has_topics_enabled: bool | None,
        allows_users_to_create_topics: bool | None,
    ) -> None:
        """See `SessionDB.enable_telegram_topic_mode`."""
        chat, user = _id(chat_id, "chat id"), _id(user_id, "user id")
        now = self._store.clock()
        told = (_flag(has_topics_enabled), _flag(allows_users_to_create_topics))

        def work(tx: WriteTransaction) -> None:
            self._meta.put(tx, _SCHEMA_KEY, _SCHEMA)
            if not tx.run(
                "UPDATE topic_modes SET user_id = ?, enabled = ?, "
                "has_topics_enabled = COALESCE(?, has_topics_enabled), "
                "allows_users_to_create_topics = COALESCE(?, allows_users_to_create_topics), "
                "updated_at = ? WHERE chat_id = ?",
                (user, 1, *told, now, chat),
            ):
                tx.run(
                    "INSERT INTO topic_modes (chat_id, user_id, enabled, has_topics_enabled, "
                    "allows_users_to_create_topics, activated_at, updated_at) "
                    "VALUES (?, ?, ?, ?, ?, ?, ?)",
                    (chat, user, 1, *told, now, now),
                )

        self._store.provider.write(work)

    def disable(self, chat_id: object, *, clear_bindings: bool) -> None:
        """See `SessionDB.disable_telegram_topic_mode`."""
        chat = _id(chat_id, "chat id")

        def work(tx: WriteTransaction) -> None:
            self._switch_off(tx, chat)
            if clear_bindings:
                tx.run("DELETE FROM topics WHERE chat_id = ?", (chat,))

        self._store.provider.write(work)

    def is_enabled(self, chat_id: object, user_id: object) -> bool:
        """See `SessionDB.is_telegram_topic_mode_enabled`."""
        with self._store.provider.read() as tx:
            row = tx.one(
                "SELECT enabled FROM topic_modes WHERE chat_id = ? AND user_id = ?",
                (str(chat_id), str(user_id)),
            )
        return bool(row and row[0])

    def find(self, chat_id: object, thread_id: object) -> TopicBinding | None:
        """See `SessionDB.get_telegram_topic_binding`."""
        return self._one("chat_id = ? AND thread_id = ?", (str(chat_id), str(thread_id)))

    def find_by_session(self, session_id: object) -> TopicBinding | None:
        """See `SessionDB.get_telegram_topic_binding_by_session`."""
        return self._one("session_id = ?", (str(session_id),))

    def of_chat(self, chat_id: object) -> list[TopicBinding]:
        """See `SessionDB.list_telegram_topic_bindings_for_chat`."""
        with self._store.provider.read() as tx:
            rows = tx.all(f"{_SELECT}chat_id = ? ORDER BY linked_at, thread_id", (str(chat_id),))
        return [cast("TopicBinding", dict(zip(COLUMNS, row, strict=True))) for row in rows]

    def bind(
        self,
        chat_id: object,
        thread_id: object,
        user_id: object,
        session_key: object,
        session_id: object,
        managed_mode: str,
    ) -> None:
        """See `SessionDB.bind_telegram_topic`."""
        topic = (_id(chat_id, "chat id"), _id(thread_id, "thread id"))
        session = str(session_id)
        now = self._store.clock()
        values = (_id(user_id, "user id"), str(session_key), session, str(managed_mode), now)

        def work(tx: WriteTransaction) -> None:
            if not tx.one(f"SELECT 1 FROM sessions WHERE id = ? AND {VISIBLE}", (session,)):
                raise UnknownSession(session)
            bound = tx.one("SELECT chat_id, thread_id FROM topics WHERE session_id = ?", (session,))
            if bound is not None and tuple(bound) != topic:
                raise InvalidInput(
                    f"Session {session!r} is bound to topic {bound[1]} of chat {bound[0]}. A "
                    f"session has one topic: bind another session, or delete that binding first."
                )
            if not tx.run(
                "UPDATE topics SET user_id = ?, session_key = ?, session_id = ?, "
                "managed_mode = ?, updated_at = ? WHERE chat_id = ? AND thread_id = ?",
                (*values, *topic),
            ):
                tx.run(
                    "INSERT INTO topics (user_id, session_key, session_id, managed_mode, "
                    "updated_at, linked_at, chat_id, thread_id) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                    (*values, now, *topic),
                )

        self._store.provider.write(work)

    def delete(self, chat_id: object, thread_id: object) -> bool:
        """See `SessionDB.delete_telegram_topic_binding`."""
        chat = str(chat_id)

        def work(tx: WriteTransaction) -> bool:
            existed = tx.run(
                "DELETE FROM topics WHERE chat_id = ? AND thread_id = ?", (chat, str(thread_id))
            )
            if existed and not tx.one("SELECT 1 FROM topics WHERE chat_id = ?", (chat,)):
                self._switch_off(tx, chat)
            return bool(existed)

        return self._store.provider.write(work)

    def unlinked(self, user_id: object, limit: int) -> list[SessionSummary]:
        """See `SessionDB.list_unlinked_telegram_sessions_for_user`."""
        columns = (*SESSION_COLUMNS, "preview", "last_active")
        with settled_read(self._store) as tx:
            rows = tx.all(
                f"SELECT {names(columns)} FROM sessions WHERE source = ? AND user_id = ? "
                f"AND listed = ? AND archived_at IS NULL AND {VISIBLE} AND NOT EXISTS "
                f"(SELECT 1 FROM topics JOIN sessions bound ON bound.id = topics.session_id "
                f"WHERE bound.chain_id = sessions.chain_id) "
                f"ORDER BY last_active DESC, started_at DESC, id DESC LIMIT ?",
                ("telegram", str(user_id), 1, max(int(limit), 0)),
            )
        return [cast("SessionSummary", session_values(columns, row)) for row in rows]

    def _one(self, where: str, params: Params) -> TopicBinding | None:
        with self._store.provider.read() as tx:
            row = tx.one(_SELECT + where, params)
        return cast("TopicBinding", dict(zip(COLUMNS, row, strict=True))) if row else None

    def _switch_off(self, tx: WriteTransaction, chat_id: str) -> None:
        tx.run(
            "UPDATE topic_modes SET enabled = ?, updated_at = ? WHERE chat_id = ?",
            (0, self._store.clock(), chat_id),
        )


# ── inside the caller's transaction ────────────────────────────────────────────────────────────


class Added(NamedTuple):
    """The result of adding bindings from another store."""

    added: int
    refused: list[Record]


def add_modes(tx: WriteTransaction, rows: Sequence[Record]) -> None:
    """Add chats with topics, except known ones."""
    for row in rows:
        if not tx.one("SELECT 1 FROM topic_modes WHERE chat_id = ?", (row["chat_id"],)):
            _insert(tx, "topic_modes", MODE_COLUMNS, row)


def add_bindings(tx: WriteTransaction, rows: Sequence[Record]) -> Added:
    """Add bindings whose session exists, unless the session or the topic has another binding."""
    added, refused = 0, []
    for row in rows:
        topic, session = (row["chat_id"], row["thread_id"]), row["session_id"]
        bound = tx.all(
            "SELECT chat_id, thread_id, session_id FROM topics "
            "WHERE (chat_id = ? AND thread_id = ?) OR session_id = ?",
            (*topic, session),
        )
        if [tuple(found) for found in bound] == [(*topic, session)]:
            continue
        if bound or not tx.one("SELECT 1 FROM sessions WHERE id = ?", (session,)):
            refused.append(row)
            continue
        _insert(tx, "topics", COLUMNS, row)
        added += 1
    return Added(added, refused)


def bound_session(tx: ReadTransaction, chat_id: str, thread_id: str, user_id: str) -> str | None:
    """Return the session bound to a topic of this user, or None."""
    row = tx.one(
        "SELECT session_id FROM topics WHERE chat_id = ? AND thread_id = ? AND user_id = ?",
        (chat_id, thread_id, user_id),
    )
    return None if row is None else str(row[0])


def _insert(tx: WriteTransaction, table: str, columns: tuple[str, ...], row: Record) -> None:
    tx.run(
        f"INSERT INTO {table} ({names(columns)}) VALUES ({placeholders(len(columns))})",
        [row[name] for name in columns],
    )


def _id(value: object, what: str) -> str:
    if value is None or not str(value):
        raise InvalidInput(f"A topic needs a {what}.")
    return require_bounded(str(value), what)


def _flag(value: bool | None) -> int | None:
    return None if value is None else int(value)
