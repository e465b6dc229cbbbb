"""Commands of processes that died are run or reported once; commands are atomic."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes_sessions import GatewayConfig, SessionDB, SessionStore
from hermes_sessions.errors import StoreUnavailable
from hermes_sessions.gateway.events import Inbound
from hermes_sessions.lifecycle import lane_operations
from hermes_sessions.lifecycle.command_journal import CommandJournal
from hermes_sessions.lifecycle.gateway_process import GatewayProcess
from hermes_sessions.lifecycle.mailboxes import Mailboxes
from hermes_sessions.lifecycle.turn_input import dedupe_mark
from hermes_sessions.model.source import Platform, SessionSource
from hermes_sessions_testing.scripted_model import streamed
from tests.gateway.harness import TelegramHarness, echo
from tests.servers.stores import OpenStore

ANNAS = SessionSource(Platform.TELEGRAM, "7", chat_type="dm", user_id="7", user_name="Anna")


@pytest.fixture
def harness(open_store: OpenStore, tmp_path: Path) -> Iterator[TelegramHarness]:
    with TelegramHarness(tmp_path, open_store) as harness:
        yield harness


def leave(harness: TelegramHarness, text: str, *, has_happened: bool = False) -> str:
    """A process notes a command and dies before it has carried it out, or before it has told."""
    with (
        harness.open_db() as db,
        SessionStore(
            harness.home / "sessions", GatewayConfig(write_sessions_json=False), db=db
        ) as store,
    ):
        process = GatewayProcess(store.engine)
        process.start()
        notes = CommandJournal(store.engine)
        inbound = Inbound(ANNAS, text, "left")
        key = store.session_key(ANNAS)
        put = notes.begin(
            key,
            process.id,
            name=text.split(maxsplit=1)[0],
            payload={"inbound": inbound.to_dict(), "key": key},
            dedupe=dedupe_mark("main", ANNAS.platform, ANNAS.chat_id, "left"),
            origin=ANNAS,
        )
        if has_happened:
            db.provider.write(lambda tx: notes.happened(tx, put.item_id or 0))
        process.end()
        return key


def talk(harness: TelegramHarness) -> str:
    """Anna has said something; returns her session."""
    running = harness.start()
    harness.telegram.write("Hello")
    harness.wait_for_replies(1)
    with harness.open_db() as db:
        (session,) = db.list_sessions_rich()
    running.stop()
    return str(session["id"])


def notes_of(db: SessionDB) -> list[tuple[str, str]]:
    with db.provider.read() as tx:
        rows: list[Any] = tx.all("SELECT reason, status FROM mailbox WHERE kind = 'command'")
    return [(reason, status) for reason, status in rows]


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("/title", "Title: "),
        ("/status", "Model: "),
        ("/new", "A new conversation."),
        ("/undo", "I was interrupted while running /undo."),
    ],
)
def test_what_a_dead_process_left_is_done_or_reported(
    harness: TelegramHarness, text: str, answer: str
) -> None:
    before = talk(harness)
    leave(harness, text)
    harness.start()
    replies = harness.wait_for_replies(2)
    assert replies[1].startswith(answer)
    harness.telegram.write("And now?")
    assert harness.wait_for_replies(3)[2] == "You said: And now?"
    with harness.open_db() as db:
        assert notes_of(db) == [(text.split(maxsplit=1)[0], "done")]
        assert len(db.get_messages(before)) == (2 if text == "/new" else 4)


def test_what_has_happened_is_not_done_again(harness: TelegramHarness) -> None:
    talk(harness)
    leave(harness, "/new", has_happened=True)
    harness.start()
    assert "/new was completed" in harness.wait_for_replies(2)[1]
    with harness.open_db() as db:
        assert db.session_count() == 1


def test_a_living_gateway_sees_to_it(harness: TelegramHarness) -> None:
    talk(harness)
    running = harness.start()
    leave(harness, "/usage")
    assert running.gateway is not None
    running.gateway.beat_now()
    assert harness.wait_for_replies(2)[1].startswith("Input tokens")


def test_to_stop_comes_before_going_on(harness: TelegramHarness) -> None:
    """A turn that a user stopped when the gateway died does not start again."""
    talk(harness)
    with (
        harness.open_db() as db,
        SessionStore(
            harness.home / "sessions", GatewayConfig(write_sessions_json=False), db=db
        ) as store,
    ):
        Mailboxes(store.engine).receive(
            store.engine.key_of(ANNAS), sender="7", text="Do not do this", origin=ANNAS
        )
    leave(harness, "/stop")
    harness.start()
    assert "Stopped. Dropped 1 queued message." in harness.wait_for_replies(2)[1]
    harness.telegram.write("Good")
    assert "You said: Good" in harness.wait_for_replies(3)[2]
    assert not any("Do not do this" in reply for reply in harness.replies())


def test_a_command_is_answered_once_although_it_is_delivered_again(
    harness: TelegramHarness,
) -> None:
    harness.start()
    (first,) = harness.telegram.push({"message": command(1, "/title")})
    assert first
    harness.wait_for_replies(1)
    harness.telegram.push({"message": command(1, "/title")})
    harness.telegram.write("Hello")
    assert harness.wait_for_replies(2) == ["Title: none", "You said: Hello"]


def command(message_id: int, text: str) -> dict[str, Any]:
    anna = {"id": 7, "is_bot": False, "first_name": "Anna"}
    chat = {"id": 7, "type": "private", "first_name": "Anna"}
    return {
        "message_id": message_id,
        "date": 1700000000,
        "chat": chat,
        "from": anna,
        "text": text,
        "entities": [{"type": "bot_command", "offset": 0, "length": len(text)}],
    }


@pytest.mark.parametrize(
    ("text", "step"), [("/stop", "set_status"), ("/new", "begin_session")], ids=["stop", "new"]
)
def test_all_of_it_or_nothing(
    harness: TelegramHarness, monkeypatch: pytest.MonkeyPatch, text: str, step: str
) -> None:
    """What runs is stopped only if the lane is changed, too."""
    harness.start()
    gate = harness.model.gate()
    harness.model.respond = lambda _request: streamed(gate, "Still there")
    harness.telegram.write("Hello")
    gate.wait_until_reached()

    def fail(*_: object, **__: object) -> None:
        raise StoreUnavailable("The database is away.")

    with monkeypatch.context() as patched:
        patched.setattr(lane_operations, step, fail)
        harness.telegram.write(text)
        assert harness.wait_for_replies(1) == ["Not done: The database is away."]
    gate.open()
    assert harness.wait_for_replies(2)[1] == "Still there"
    harness.model.respond = echo
    harness.telegram.write("And now?")
    assert harness.wait_for_replies(3)[2] == "You said: And now?"
    with harness.open_db() as db:
        assert db.session_count() == 1
