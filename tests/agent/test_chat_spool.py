"""Spooled messages are stored later, in order, and once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hermes_sessions import SessionDB
from hermes_sessions.agent.chat_spool import (
    STORE_UNAVAILABLE_ERRORS,
    ChatSpool,
    SpooledMessage,
    chat_spool_directory,
    new_external_id,
)
from hermes_sessions.agent.tools.registry import ToolRegistry
from hermes_sessions.agent.turn import Agent
from hermes_sessions.config import load_settings
from hermes_sessions.errors import (
    ConversationHeld,
    SchemaRefused,
    StaleFence,
    StoreCorrupt,
    StoreLocked,
)
from tests.agent.scripted_client import ScriptedClient

DIES_AFTER_STORING = """
import os, sys
from pathlib import Path
from hermes_sessions import SessionDB
from hermes_sessions.agent import chat_spool
chat_spool.Spool.replay = lambda self, store: (
    [store(entry) for _, entry in self._unread(self._own)][:1] and os._exit(9)
)
waiting = chat_spool.ChatSpool(Path(sys.argv[1]))
waiting.adopt()
waiting.store_all(SessionDB(sys.argv[2]))
"""


def message(text: str, role: str = "user", **values: Any) -> dict[str, Any]:
    return {
        "role": role,
        "content": text,
        "external_id": new_external_id(),
        "timestamp": 5.0,
        **values,
    }


@pytest.fixture
def db(tmp_path: Path) -> SessionDB:
    return SessionDB(tmp_path / "state.db")


def said(db: SessionDB, session_id: str = "s") -> list[tuple[str, Any]]:
    return [(each["role"], each["content"]) for each in db.get_messages(session_id)]


def test_a_session_that_is_not_there_yet_is_made(db: SessionDB, tmp_path: Path) -> None:
    spool = ChatSpool(tmp_path / "spool")
    spool.append(
        SpooledMessage("s", "cli", message("One"), "m-1", "Be kind.", "u", cwd="/projects/x")
    )
    calls = [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
    spool.append(SpooledMessage("s", "cli", message("Two", "assistant", tool_calls=calls), "m-1"))
    assert spool.store_all(db) == 2
    session = db.get_session("s")
    assert session is not None
    assert (session["model"], session["system_prompt"], session["user_id"]) == (
        "m-1",
        "Be kind.",
        "u",
    )
    assert (session["source"], session["started_at"], session["ended_at"]) == ("cli", 5.0, None)
    assert session["cwd"] == "/projects/x"
    assert said(db) == [("user", "One"), ("assistant", "Two")]
    assert db.get_messages("s")[1]["tool_calls"] == calls
    assert db.lease_of("s") is None
    assert list((tmp_path / "spool").iterdir()) == []


def test_what_was_stored_after_all_is_not_stored_twice(db: SessionDB, tmp_path: Path) -> None:
    """The answer of the database got lost, and not the message."""
    spool = ChatSpool(tmp_path / "spool")
    one = message("One")
    db.create_session("s", "cli")
    db.append_message("s", **one)
    spool.append(SpooledMessage("s", "cli", one))
    assert spool.store_all(db) == 1
    assert said(db) == [("user", "One")]
    # Nor if the conversation has continued in another session.
    db.continue_session("s", "t", [{"role": "user", "content": "Sum"}])
    spool.append(SpooledMessage("s", "cli", one))
    spool.store_all(db)
    assert (said(db), said(db, "t")) == ([("user", "One")], [("user", "Sum")])
    spool.append(SpooledMessage("s", "cli", message("Two")))
    spool.store_all(db)
    assert said(db, "t") == [("user", "Sum"), ("user", "Two")]


def test_a_process_that_dies_while_it_stores(db: SessionDB, tmp_path: Path) -> None:
    spool = ChatSpool(tmp_path / "spool")
    for text in ("One", "Two", "Three"):
        spool.append(SpooledMessage("s", "cli", message(text)))
    spool.close()
    arguments = [str(tmp_path / "spool"), str(tmp_path / "state.db")]
    done = subprocess.run([sys.executable, "-c", DIES_AFTER_STORING, *arguments], check=False)
    assert done.returncode == 9
    assert [content for _, content in said(db)] == ["One", "Two", "Three"]
    again = ChatSpool(tmp_path / "spool")
    assert again.adopt() == 3
    assert again.store_all(db) == 3
    assert [content for _, content in said(db)] == ["One", "Two", "Three"]


def test_while_the_store_is_away_everything_stays(
    db: SessionDB, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = ChatSpool(tmp_path / "spool")
    for text in ("One", "Two"):
        spool.append(SpooledMessage("s", "cli", message(text)))

    def away(*_args: object, **_options: object) -> None:
        raise StoreLocked("database is locked")

    with monkeypatch.context() as patched:
        patched.setattr(db, "append_message", away)
        with pytest.raises(StoreLocked):
            spool.store_all(db)
    assert spool.waiting == 2
    assert spool.store_all(db) == 2


def test_a_conversation_with_a_running_turn(db: SessionDB, tmp_path: Path) -> None:
    spool = ChatSpool(tmp_path / "spool")
    db.create_session("s", "cli")
    lease = db.take_lease("s", "another chat", ttl=60)
    spool.append(SpooledMessage("s", "cli", message("One")))
    with pytest.raises(ConversationHeld, match="another chat"):
        spool.store_all(db)
    assert spool.waiting == 1
    db.release_lease(lease)
    assert spool.store_all(db) == 1


def test_a_turn_that_could_not_release_its_lease_blocks_no_other(
    db: SessionDB, tmp_path: Path
) -> None:
    spool = ChatSpool(tmp_path / "spool")
    db.create_session("s", "cli")
    lease = db.take_lease("s", "a chat that lost its store", ttl=60)
    spool.append(SpooledMessage("s", "cli", message("One"), fence=lease.token))
    assert spool.store_all(db) == 1
    # But a later holder keeps its lease.
    other = db.take_lease("s", "another chat", ttl=60)
    spool.append(SpooledMessage("s", "cli", message("Two"), fence=lease.token))
    with pytest.raises(ConversationHeld, match="another chat"):
        spool.store_all(db)
    held = db.lease_of("s")
    assert held is not None
    assert held.token == other.token


def test_what_can_never_be_stored_is_put_aside(db: SessionDB, tmp_path: Path) -> None:
    spool = ChatSpool(tmp_path / "spool")
    spool.append(SpooledMessage("s", "cli", message("x" * (9 * 1024 * 1024))))
    spool.append(SpooledMessage("s", "cli", message("Two")))
    assert (spool.store_all(db), spool.refused) == (1, 1)
    assert said(db) == [("user", "Two")]
    (aside,) = (tmp_path / "spool").glob("*.refused")
    assert "over the limit" in aside.read_text()


@pytest.mark.parametrize("failure", [*STORE_UNAVAILABLE_ERRORS, StaleFence])
def test_a_store_that_cannot_take_it_does_not_refuse_it(
    db: SessionDB, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: type[Exception]
) -> None:
    spool = ChatSpool(tmp_path / "spool")
    spool.append(SpooledMessage("s", "cli", message("One")))

    def fail(*_args: object, **_options: object) -> None:
        raise failure("not now")

    with monkeypatch.context() as patched:
        patched.setattr(db, "append_message", fail)
        with pytest.raises(failure):
            spool.store_all(db)
    assert (spool.waiting, spool.refused) == (1, 0)
    assert spool.store_all(db) == 1
    assert said(db) == [("user", "One")]


def test_what_a_later_version_kept_is_put_aside(db: SessionDB, tmp_path: Path) -> None:
    spool = ChatSpool(tmp_path / "spool")
    spool.append(SpooledMessage("s", "cli", message("One", mood="good")))
    spool.append(SpooledMessage("s", "cli", message("Two")))
    assert spool.store_all(db) == 1
    assert said(db) == [("user", "Two")]
    (aside,) = (tmp_path / "spool").glob("*.unreadable")
    assert '"mood": "good"' in aside.read_text()


@pytest.mark.parametrize("failure", [StoreLocked, StoreCorrupt, SchemaRefused])
def test_what_any_store_that_is_away_did_not_take_is_kept(
    db: SessionDB, monkeypatch: pytest.MonkeyPatch, failure: type[Exception]
) -> None:
    kept: list[Any] = []
    agent = Agent(db, ScriptedClient(), ToolRegistry(), unstored=lambda *what: kept.append(what))

    def fail(*_args: object, **_options: object) -> None:
        raise failure("not now")

    monkeypatch.setattr(db, "append_message", fail)
    with pytest.raises(failure):
        agent.append("s", "user", "One")
    [(session_id, values, _fence)] = kept
    assert (session_id, values["content"]) == ("s", "One")


def test_each_store_has_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))

    def place(text: str) -> Path:
        (tmp_path / "config.yaml").write_text(text)
        os.utime(tmp_path / "config.yaml", (len(text), len(text)))
        return chat_spool_directory(tmp_path, load_settings().sessiondb)

    server = "sessiondb:\n  provider: postgresql\n  postgresql:\n    dsn: "
    places = [
        place(""),
        place("sessiondb:\n  sqlite:\n    path: other.db\n"),
        place(f"{server}postgresql://u:secret@host/a\n"),
        place(f"{server}postgresql://u:secret@host/b\n"),
    ]
    assert len(set(places)) == 4
    assert place(f"{server}postgresql://u:changed@host/a\n") == places[2]
    (tmp_path / "link.db").symlink_to(tmp_path / "state.db")
    assert place("sessiondb:\n  sqlite:\n    path: link.db\n") == places[0]
    assert "secret" not in "".join(map(str, places))
