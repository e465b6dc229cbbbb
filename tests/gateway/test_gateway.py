"""A gateway end to end: Telegram's own SDK, the protocol of a model, and a real store."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes_sessions import SessionDB
from hermes_sessions.gateway.platforms.port import LoginRefused
from hermes_sessions_testing.fake_servers.telegram.server import ANNA
from hermes_sessions_testing.scripted_model import failure, streamed
from tests.gateway.harness import TelegramHarness, echo, said


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[TelegramHarness]:
    with TelegramHarness(tmp_path) as harness:
        yield harness


def contents(harness: TelegramHarness) -> list[tuple[str, str]]:
    """What is stored of the newest session."""
    with SessionDB(harness.home / "state.db") as db:
        (session, *_) = db.list_sessions_rich(limit=1)
        return [(row["role"], row["content"]) for row in db.get_messages(session["id"])]


def test_a_message_is_answered_and_stored(harness: TelegramHarness) -> None:
    running = harness.start()
    harness.telegram.write("Hello")
    assert harness.wait_for_replies(1) == ["You said: Hello"]
    assert running.stop() is True
    assert contents(harness) == [("user", "Hello"), ("assistant", "You said: Hello")]
    assert harness.telegram.waiting == []
    with SessionDB(harness.home / "state.db") as db:
        (session,) = db.list_sessions_rich()
        assert (session["source"], session["user_id"]) == ("telegram", str(ANNA["id"]))
    assert (harness.home / ".clean_shutdown").exists()


def test_a_conversation_continues_after_a_restart(harness: TelegramHarness) -> None:
    running = harness.start()
    harness.telegram.write("One")
    harness.wait_for_replies(1)
    running.stop("restart")
    harness.start()
    harness.telegram.write("Two")
    assert harness.wait_for_replies(2) == ["You said: One", "You said: Two"]
    last = harness.model.requests[-1].body["messages"] if harness.model.requests else []
    texts = [m["content"] for r in harness.model.requests for m in r.body["messages"]]
    assert last
    assert "You said: One" in texts


def test_a_stranger_is_not_answered_by_the_agent(harness: TelegramHarness) -> None:
    harness.start()
    bob = {**ANNA, "id": 77, "first_name": "Bob"}
    harness.telegram.write("Let me in", user=bob)
    (reply,) = harness.wait_for_replies(1, 77)
    assert "hermes gateway pair" in reply
    assert harness.model.requests == []


def test_a_message_delivered_three_times_is_answered_once(harness: TelegramHarness) -> None:
    harness.start()
    gate = harness.model.gate()
    harness.model.respond = lambda request: (
        streamed(gate, "Done.") if "title" not in said(request).lower() else echo(request)
    )
    message = {
        "message_id": 900,
        "date": 1700000000,
        "chat": {"id": ANNA["id"], "type": "private", "first_name": "Anna"},
        "from": dict(ANNA),
        "text": "Once, please",
    }
    harness.telegram.push({"message": message}, {"message": message})
    gate.wait_until_reached()
    harness.telegram.push({"message": message})
    harness.telegram.wait_for(lambda: not harness.telegram.waiting)
    gate.open()
    assert harness.wait_for_replies(1) == ["Done."]
    harness.telegram.write("/status")
    assert len(harness.wait_for_replies(2)) == 2


@pytest.mark.fault(
    "A gateway ends between storing an album and confirming it, and a picture comes late",
    "Every picture reaches the agent once",
    on="sqlite",
)
@pytest.mark.parametrize("first", [("a", "b"), ("b", "c"), ("a",), ("a", "b", "c")])
def test_an_album_that_comes_again_with_a_late_picture(
    harness: TelegramHarness, first: tuple[str, ...]
) -> None:
    """What was not confirmed is brought again, and the late picture with it."""

    def picture(name: str) -> dict[str, Any]:
        message = {
            "message_id": 900 + ord(name),
            "date": 1700000000,
            "chat": {"id": ANNA["id"], "type": "private", "first_name": "Anna"},
            "from": dict(ANNA),
            "media_group_id": "g",
            "caption": f"Picture {name}",
            "photo": [{"file_id": name, "file_size": 1}],
        }
        return {"message": message}

    for names in (first, ("a", "b", "c")):
        running = harness.start()
        harness.telegram.push(*map(picture, names))
        harness.telegram.wait_for(lambda: not harness.telegram.waiting)
        running.wait_until_idle()
        running.stop()
    with SessionDB(harness.home / "state.db") as db:
        (session,) = db.list_sessions_rich()
        said = [row["content"] for row in db.get_messages(session["id"]) if row["role"] == "user"]
    assert sorted(re.findall(r"Picture (\w)", "\n".join(map(str, said)))) == ["a", "b", "c"]


def test_a_failing_model_is_told_and_the_message_kept(harness: TelegramHarness) -> None:
    harness.model.respond = lambda _request: failure(401, "The key is wrong.")
    harness.start()
    harness.telegram.write("Hello")
    (reply,) = harness.wait_for_replies(1)
    assert "The model could not answer" in reply
    assert "/retry" in reply
    assert contents(harness)[0] == ("user", "Hello")
    harness.model.respond = echo
    harness.telegram.write("/retry")
    assert harness.wait_for_replies(3)[1:] == ["Asking again.", "You said: Hello"]


def test_stop_interrupts_suspends_and_drops(harness: TelegramHarness) -> None:
    harness.start()
    gate = harness.model.gate()
    harness.model.respond = lambda request: streamed("I think", gate, " so.")
    harness.telegram.write("Think")
    gate.wait_until_reached()
    harness.telegram.write("/queue A")
    harness.telegram.write("/queue B")
    harness.telegram.write("/stop")
    harness.telegram.wait_for(lambda: any("Stopped" in text for text in harness.replies()))
    (stopped,) = (text for text in harness.replies() if "Stopped" in text)
    assert "Dropped 2 queued messages" in stopped
    harness.model.respond = echo
    harness.telegram.write("Hello again")
    harness.telegram.wait_for(lambda: any("Hello again" in text for text in harness.replies()))
    assert not any("You said: A" in text for text in harness.replies())
    with SessionDB(harness.home / "state.db") as db:
        assert db.session_count() == 2


def test_queued_items_are_turns_of_their_own_in_order(harness: TelegramHarness) -> None:
    harness.start()
    gate = harness.model.gate()
    harness.model.respond = lambda request: (
        streamed(gate, "First.") if said(request) == "Think" else echo(request)
    )
    harness.telegram.write("Think")
    gate.wait_until_reached()
    for letter in "ABCDEF":
        harness.telegram.write(f"/queue {letter}")
    harness.telegram.wait_for(lambda: not harness.telegram.waiting)
    gate.open()
    harness.telegram.wait_for(lambda: any("You said: F" in text for text in harness.replies()))
    answers = [text for text in harness.replies() if not text.startswith("Queued")]
    assert answers == ["First.", *(f"You said: {letter}" for letter in "ABCDEF")]


def test_long_replies_are_split(harness: TelegramHarness) -> None:
    harness.model.respond = lambda _request: streamed("word " * 2000)
    harness.start()
    harness.telegram.write("Much")
    replies = harness.wait_for_replies(3)
    assert " ".join(replies).split() == ["word"] * 2000


def test_new_starts_another_session(harness: TelegramHarness) -> None:
    harness.start()
    harness.telegram.write("One")
    harness.wait_for_replies(1)
    harness.telegram.write("/new Plans")
    assert "A new conversation: Plans." in harness.wait_for_replies(2)[1]
    harness.telegram.write("Two")
    harness.wait_for_replies(3)
    assert contents(harness)[0] == ("user", "Two")
    with SessionDB(harness.home / "state.db") as db:
        assert db.session_count() == 2
        assert db.get_session_by_title("Plans") is not None


def test_a_wrong_token_ends_the_start(harness: TelegramHarness) -> None:
    harness.config["platforms"]["telegram"]["token"] = "1:" + "x" * 35
    with pytest.raises(LoginRefused, match="telegram"):
        harness.start()
