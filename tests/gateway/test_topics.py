"""Topics of private Telegram chats: one session each, which can be looked up."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hermes_sessions import SessionDB
from hermes_sessions.gateway.turn_transcript import note_topic
from hermes_sessions.model.source import Platform, SessionSource
from hermes_sessions.storage.sqlite.hermes_database import import_database
from tests.fixtures.hermes import stored
from tests.gateway.harness import TelegramHarness


@pytest.fixture
def db() -> Iterator[SessionDB]:
    with SessionDB(":memory:") as db:
        for name in ("s", "t"):
            db.create_session(name, "telegram", user_id="7")
        yield db


def topic(thread_id: str | None = "5", chat_type: str = "dm") -> SessionSource:
    return SessionSource(
        Platform.TELEGRAM, "7", chat_type=chat_type, user_id="7", thread_id=thread_id
    )


def bound(db: SessionDB) -> dict[str, str]:
    rows = db.list_telegram_topic_bindings_for_chat(chat_id="7")
    return {row["thread_id"]: row["session_id"] for row in rows}


def test_a_topic_is_bound_to_its_session(db: SessionDB) -> None:
    note_topic(db, topic(), "key", "s")
    assert bound(db) == {"5": "s"}
    assert db.is_telegram_topic_mode_enabled(chat_id="7", user_id="7") is True


def test_what_is_bound_is_not_written_again(db: SessionDB) -> None:
    note_topic(db, topic(), "key", "s")
    before = db.get_telegram_topic_binding(chat_id="7", thread_id="5")
    note_topic(db, topic(), "key", "s")
    assert db.get_telegram_topic_binding(chat_id="7", thread_id="5") == before


def test_a_topic_that_is_reset_has_another_session(db: SessionDB) -> None:
    note_topic(db, topic(), "key", "s")
    note_topic(db, topic(), "key", "t")
    assert bound(db) == {"5": "t"}


def test_a_session_that_is_resumed_elsewhere_leaves_its_topic(db: SessionDB) -> None:
    note_topic(db, topic("5"), "key", "s")
    note_topic(db, topic("6"), "key", "s")
    assert bound(db) == {"6": "s"}
    assert db.is_telegram_topic_mode_enabled(chat_id="7", user_id="7") is True


@pytest.mark.parametrize(
    "source",
    [
        topic(None),
        topic(chat_type="group"),
        SessionSource(Platform.TELEGRAM, "7", thread_id="5"),
        SessionSource(Platform.DISCORD, "7", user_id="7", thread_id="5"),
    ],
)
def test_other_conversations_have_no_topic(db: SessionDB, source: SessionSource) -> None:
    note_topic(db, source, "key", "s")
    assert bound(db) == {}


def test_topics_are_answered_apart(tmp_path: Path) -> None:
    with TelegramHarness(tmp_path) as harness:
        running = harness.start()
        for count, (thread_id, text) in enumerate([(5, "First"), (6, "Second")], start=1):
            harness.telegram.write(text, thread_id=thread_id)
            harness.wait_for_replies(count)
        running.stop()
        assert [sent.thread_id for sent in harness.telegram.sent] == [5, 6]
        with SessionDB(tmp_path / "state.db") as db:
            sessions = bound(db)
            assert sessions.keys() == {"5", "6"}
            texts = [db.get_messages(sessions[name])[0]["content"] for name in ("5", "6")]
            assert texts == ["First", "Second"]


def hermes_file(path: Path, *, user_id: str = "7", ended: bool = False) -> Path:
    """A database as hermes-agent 0.19.0 leaves it, with a session bound to a topic."""
    stored.unpack("v22", path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "INSERT INTO sessions (id, source, user_id, started_at, ended_at) "
            "VALUES ('theirs', 'telegram', '7', 5.5, ?)",
            (6.5 if ended else None,),
        )
        connection.execute(
            "INSERT INTO messages (session_id, role, content, timestamp) "
            "VALUES ('theirs', 'assistant', 'Said before', 5.5)"
        )
        connection.execute(
            "INSERT INTO telegram_dm_topic_bindings (chat_id, thread_id, user_id, session_key, "
            "session_id, managed_mode, linked_at, updated_at) "
            "VALUES ('7', '5', ?, 'agent:main:telegram:dm:7:5', 'theirs', 'auto', 5.5, 5.5)",
            (user_id,),
        )
    return path


@pytest.mark.parametrize(
    ("file", "goes_on"), [({}, True), ({"user_id": "8"}, False), ({"ended": True}, False)]
)
def test_an_imported_topic_continues_in_its_session(
    tmp_path: Path, file: dict[str, Any], goes_on: bool
) -> None:
    theirs = hermes_file(tmp_path / "theirs.db", **file)
    with SessionDB(tmp_path / "state.db") as db:
        assert import_database(db, theirs)["topics"] == 3
        assert bound(db) == {"5": "theirs"}
    with TelegramHarness(tmp_path) as harness:
        running = harness.start()
        harness.telegram.write("Said now", thread_id=5)
        harness.wait_for_replies(1)
        running.stop()
        with SessionDB(tmp_path / "state.db") as db:
            assert (bound(db)["5"] == "theirs") is goes_on
            texts = [m["content"] for m in db.get_messages("theirs")]
            expected = ["Said before", "Said now", "You said: Said now"]
            assert texts == (expected if goes_on else expected[:1])


def test_a_topic_that_is_bound_here_stays_as_it_is(tmp_path: Path, db: SessionDB) -> None:
    theirs = hermes_file(tmp_path / "theirs.db")
    note_topic(db, topic(), "key", "s")
    report = import_database(db, theirs)
    assert (report["topics"], bound(db)) == (2, {"5": "s"})
    assert any("topic 5 of chat 7" in note["note"] for note in report["notes"])
    with SessionDB(":memory:") as other:
        assert import_database(other, theirs)["topics"] == 3
        assert import_database(other, theirs)["topics"] == 0
