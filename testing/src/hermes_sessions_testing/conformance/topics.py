"""Topics: bindings of sessions to topics of private Telegram chats."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from hermes_sessions.errors import UnknownSession
from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions_testing.clock import FrozenClock


def _bind(db: SessionDB, thread_id: str | int, session_id: str, **changes: Any) -> None:
    values: dict[str, Any] = {"chat_id": "7", "user_id": "7", "session_key": f"key:{thread_id}"}
    db.bind_telegram_topic(thread_id=thread_id, session_id=session_id, **(values | changes))


def _topic(db: SessionDB, thread_id: str | int) -> Mapping[str, Any] | None:
    return db.get_telegram_topic_binding(chat_id="7", thread_id=thread_id)


def _is_enabled(db: SessionDB, chat_id: str | int = "7", user_id: str | int = "7") -> bool:
    return db.is_telegram_topic_mode_enabled(chat_id=chat_id, user_id=user_id)


def _unlinked(db: SessionDB, limit: int = 10) -> list[str]:
    rows = db.list_unlinked_telegram_sessions_for_user(chat_id="7", user_id="7", limit=limit)
    return [row["id"] for row in rows]


class TestTopics:
    """A topic has a session, a session has at most one topic."""

    def test_before_anybody_uses_topics(self, db: SessionDB) -> None:
        """Behaviour 82: everything is off, and nothing has to be prepared."""
        assert _is_enabled(db) is False
        assert _topic(db, "1") is None
        assert db.get_telegram_topic_binding_by_session(session_id="s") is None
        assert db.is_telegram_session_linked_to_topic(session_id="s") is False
        assert db.list_telegram_topic_bindings_for_chat(chat_id="7") == []
        assert db.delete_telegram_topic_binding(chat_id="7", thread_id="1") is False
        assert _unlinked(db) == []
        db.disable_telegram_topic_mode(chat_id="7")
        assert _is_enabled(db) is False

    def test_the_documented_mark(self, db: SessionDB) -> None:
        """Behaviour 82: preparing, or the first use, says so in the meta values."""
        assert db.get_meta("telegram_dm_topic_schema_version") is None
        db.apply_telegram_topic_migration()
        db.apply_telegram_topic_migration()
        assert db.get_meta("telegram_dm_topic_schema_version") == "2"

    def test_enabling(self, db: SessionDB) -> None:
        """Behaviour 82: for a chat and its person; ids may be numbers."""
        db.enable_telegram_topic_mode(chat_id=7, user_id=7, has_topics_enabled=True)
        assert _is_enabled(db) is True
        assert _is_enabled(db, 7, 7) is True
        assert _is_enabled(db, user_id="8") is False
        assert _is_enabled(db, chat_id="8") is False
        assert db.get_meta("telegram_dm_topic_schema_version") == "2"
        db.disable_telegram_topic_mode(chat_id=7)
        assert _is_enabled(db) is False
        db.enable_telegram_topic_mode(chat_id="7", user_id="7")
        assert _is_enabled(db) is True

    def test_a_binding(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 83: it has the documented values and is found from both sides."""
        db.create_session("s", "telegram")
        _bind(db, 5, "s")
        expected = {
            "chat_id": "7",
            "thread_id": "5",
            "user_id": "7",
            "session_key": "key:5",
            "session_id": "s",
            "managed_mode": "auto",
            "linked_at": clock(),
            "updated_at": clock(),
        }
        assert _topic(db, "5") == expected
        assert _topic(db, 5) == expected
        assert db.get_telegram_topic_binding_by_session(session_id="s") == expected
        assert db.is_telegram_session_linked_to_topic(session_id="s") is True
        assert db.get_telegram_topic_binding(chat_id="8", thread_id="5") is None

    def test_a_topic_may_change_its_session(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 83: the time of the first binding stays."""
        for name in ("s", "t"):
            db.create_session(name, "telegram")
        _bind(db, "5", "s")
        began = clock()
        clock.advance(60)
        _bind(db, "5", "t", managed_mode="manual")
        topic = _topic(db, "5")
        assert topic is not None
        assert (topic["session_id"], topic["managed_mode"]) == ("t", "manual")
        assert (topic["linked_at"], topic["updated_at"]) == (began, clock())
        assert db.is_telegram_session_linked_to_topic(session_id="s") is False
        _bind(db, "6", "s")

    def test_a_session_has_one_topic(self, db: SessionDB) -> None:
        """Behaviour 83: a second topic is a ValueError; binding the same again succeeds."""
        db.create_session("s", "telegram")
        _bind(db, "5", "s")
        _bind(db, "5", "s")
        with pytest.raises(ValueError, match="topic 5"):
            _bind(db, "6", "s")
        with pytest.raises(ValueError, match="topic 5"):
            _bind(db, "5", "s", chat_id="8")
        assert _topic(db, "6") is None

    def test_a_session_that_does_not_exist(self, db: SessionDB) -> None:
        """Behaviour 83: is an IntegrityError, and stores nothing."""
        with pytest.raises(UnknownSession):
            _bind(db, "5", "nobody")
        assert _topic(db, "5") is None

    def test_deleting_a_session_removes_its_binding(self, db: SessionDB) -> None:
        """Behaviour 83: also when the session is pruned or purged from the trash."""
        for name in ("s", "t", "u"):
            db.create_session(name, "telegram")
            _bind(db, name, name)
        db.delete_session("s")
        db.end_session("t", "done")
        db.prune_sessions(older_than_days=0)
        db.trash_sessions(["u"])
        db.purge_trash(older_than_days=0)
        assert db.list_telegram_topic_bindings_for_chat(chat_id="7") == []
        db.create_session("s", "telegram")
        assert _topic(db, "s") is None

    def test_the_trash_keeps_the_binding(self, db: SessionDB) -> None:
        """Behaviour 83: it is hidden with its session, and comes back with it."""
        db.create_session("s", "telegram")
        _bind(db, "5", "s")
        db.trash_sessions(["s"])
        assert _topic(db, "5") is None
        assert db.list_telegram_topic_bindings_for_chat(chat_id="7") == []
        with pytest.raises(UnknownSession):
            _bind(db, "5", "s")
        db.restore_sessions(["s"])
        assert db.is_telegram_session_linked_to_topic(session_id="s") is True

    def test_a_topic_of_a_session_in_the_trash_is_free(self, db: SessionDB) -> None:
        """Behaviour 83: another session may have it; the first then comes back without."""
        for name in ("s", "t"):
            db.create_session(name, "telegram")
        _bind(db, "5", "s")
        db.trash_sessions(["s"])
        _bind(db, "5", "t")
        db.restore_sessions(["s"])
        topic = _topic(db, "5")
        assert topic is not None
        assert topic["session_id"] == "t"
        assert db.is_telegram_session_linked_to_topic(session_id="s") is False

    def test_the_bindings_of_a_chat(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 83: the oldest first, of that chat alone."""
        for thread_id in ("9", "5"):
            db.create_session(f"s{thread_id}", "telegram")
            _bind(db, thread_id, f"s{thread_id}")
            clock.advance(1)
        db.create_session("other", "telegram")
        _bind(db, "5", "other", chat_id="8")
        found = db.list_telegram_topic_bindings_for_chat(chat_id=7)
        assert [topic["thread_id"] for topic in found] == ["9", "5"]

    def test_deleting_a_binding(self, db: SessionDB) -> None:
        """Behaviour 83: the last one of a chat ends its topic mode."""
        db.enable_telegram_topic_mode(chat_id="7", user_id="7")
        for thread_id in ("5", "6"):
            db.create_session(thread_id, "telegram")
            _bind(db, thread_id, thread_id)
        assert db.delete_telegram_topic_binding(chat_id="7", thread_id="5") is True
        assert db.delete_telegram_topic_binding(chat_id="7", thread_id="5") is False
        assert _is_enabled(db) is True
        assert db.delete_telegram_topic_binding(chat_id=7, thread_id=6) is True
        assert _is_enabled(db) is False
        assert db.get_session("5") is not None

    @pytest.mark.parametrize("clear", [True, False])
    def test_disabling_forgets_bindings_if_wanted(self, db: SessionDB, clear: bool) -> None:
        """Behaviour 83: those of that chat."""
        for thread_id, chat_id in (("5", "7"), ("6", "8")):
            db.create_session(thread_id, "telegram")
            _bind(db, thread_id, thread_id, chat_id=chat_id)
        db.disable_telegram_topic_mode(chat_id="7", clear_bindings=clear)
        assert (_topic(db, "5") is None) is clear
        assert db.is_telegram_session_linked_to_topic(session_id="6") is True

    def test_sessions_without_a_topic(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 83: of that person on Telegram, newest activity first, a chain as one."""
        for name in ("first", "second", "bound", "chained"):
            db.create_session(name, "telegram", user_id="7")
            clock.advance(1)
        db.create_session("cli", "cli", user_id="7")
        db.create_session("theirs", "telegram", user_id="8")
        db.append_message("first", role="user", content="Hello there")
        _bind(db, "5", "bound")
        db.end_session("chained", "compression")
        db.create_session("tip", "telegram", user_id="7", parent_session_id="chained")
        assert _unlinked(db) == ["tip", "first", "second"]
        assert _unlinked(db, limit=1) == ["tip"]
        first = db.list_unlinked_telegram_sessions_for_user(chat_id="7", user_id=7)[1]
        assert (first["preview"], first["last_active"]) == ("Hello there", clock())
        _bind(db, "6", "chained")
        assert _unlinked(db) == ["first", "second"]

    @pytest.mark.parametrize("wrong", ["", None, "x" * 4000])
    def test_ids_that_cannot_be_used(self, db: SessionDB, wrong: Any) -> None:
        """A topic without a chat or person is a ValueError, and stores nothing."""
        db.create_session("s", "telegram")
        with pytest.raises(ValueError, match="chat id"):
            _bind(db, "5", "s", chat_id=wrong)
        with pytest.raises(ValueError, match="user id"):
            db.enable_telegram_topic_mode(chat_id="7", user_id=wrong)
        assert db.is_telegram_session_linked_to_topic(session_id="s") is False
        assert _is_enabled(db) is False
