"""A gateway end to end: through Telegram's own SDK, a model's protocol and a real store."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes_sessions import SessionDB
from hermes_sessions.gateway.platforms.port import LoginRefused
from hermes_sessions.testing.scripted_model import failure, streamed
from hermes_sessions.testing.telegram_server import ANNA
from tests.gateway.harness import Town, echo, said


@pytest.fixture
def town(tmp_path: Path) -> Iterator[Town]:
    with Town(tmp_path) as town:
        yield town


def contents(town: Town) -> list[tuple[str, str]]:
    """What is stored of the newest session."""
    with SessionDB(town.home / "state.db") as db:
        (session, *_) = db.list_sessions_rich(limit=1)
        return [(row["role"], row["content"]) for row in db.get_messages(session["id"])]


def test_a_message_is_answered_and_stored(town: Town) -> None:
    running = town.start()
    town.telegram.write("Hello")
    assert town.wait_for_replies(1) == ["You said: Hello"]
    assert running.stop() is True
    assert contents(town) == [("user", "Hello"), ("assistant", "You said: Hello")]
    assert town.telegram.waiting == []
    with SessionDB(town.home / "state.db") as db:
        (session,) = db.list_sessions_rich()
        assert (session["source"], session["user_id"]) == ("telegram", str(ANNA["id"]))
    assert (town.home / ".clean_shutdown").exists()


def test_a_conversation_goes_on_after_a_restart(town: Town) -> None:
    running = town.start()
    town.telegram.write("One")
    town.wait_for_replies(1)
    running.stop("restart")
    town.start()
    town.telegram.write("Two")
    assert town.wait_for_replies(2) == ["You said: One", "You said: Two"]
    last = town.model.requests[-1].body["messages"] if town.model.requests else []
    texts = [m["content"] for r in town.model.requests for m in r.body["messages"]]
    assert last
    assert "You said: One" in texts


def test_a_stranger_is_not_answered_by_the_agent(town: Town) -> None:
    town.start()
    bob = {**ANNA, "id": 77, "first_name": "Bob"}
    town.telegram.write("Let me in", user=bob)
    (reply,) = town.wait_for_replies(1, 77)
    assert "hermes gateway pair" in reply
    assert town.model.requests == []


def test_a_message_delivered_three_times_is_answered_once(town: Town) -> None:
    town.start()
    gate = town.model.gate()
    town.model.respond = lambda request: (
        streamed(gate, "Done.") if "title" not in said(request).lower() else echo(request)
    )
    message = {
        "message_id": 900,
        "date": 1700000000,
        "chat": {"id": ANNA["id"], "type": "private", "first_name": "Anna"},
        "from": dict(ANNA),
        "text": "Once, please",
    }
    town.telegram.push({"message": message}, {"message": message})
    gate.wait_until_reached()
    town.telegram.push({"message": message})
    town.telegram.wait_for(lambda: not town.telegram.waiting)
    gate.open()
    assert town.wait_for_replies(1) == ["Done."]
    town.telegram.write("/status")
    assert len(town.wait_for_replies(2)) == 2


@pytest.mark.fault(
    "A gateway ends between storing an album and confirming it, and a picture comes late",
    "Every picture reaches the agent once",
    on="sqlite",
)
@pytest.mark.parametrize("first", [("a", "b"), ("b", "c"), ("a",), ("a", "b", "c")])
def test_an_album_that_comes_again_with_a_late_picture(town: Town, first: tuple[str, ...]) -> None:
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
        running = town.start()
        town.telegram.push(*map(picture, names))
        town.telegram.wait_for(lambda: not town.telegram.waiting)
        running.wait_until_idle()
        running.stop()
    with SessionDB(town.home / "state.db") as db:
        (session,) = db.list_sessions_rich()
        said = [row["content"] for row in db.get_messages(session["id"]) if row["role"] == "user"]
    assert sorted(re.findall(r"Picture (\w)", "\n".join(map(str, said)))) == ["a", "b", "c"]


def test_a_failing_model_is_told_and_the_message_kept(town: Town) -> None:
    town.model.respond = lambda _request: failure(401, "The key is wrong.")
    town.start()
    town.telegram.write("Hello")
    (reply,) = town.wait_for_replies(1)
    assert "The model could not answer" in reply
    assert "/retry" in reply
    assert contents(town)[0] == ("user", "Hello")
    town.model.respond = echo
    town.telegram.write("/retry")
    assert town.wait_for_replies(3)[1:] == ["I ask again.", "You said: Hello"]


def test_stop_interrupts_suspends_and_drops(town: Town) -> None:
    town.start()
    gate = town.model.gate()
    town.model.respond = lambda request: streamed("I think", gate, " so.")
    town.telegram.write("Think")
    gate.wait_until_reached()
    town.telegram.write("/queue A")
    town.telegram.write("/queue B")
    town.telegram.write("/stop")
    town.telegram.wait_for(lambda: any("Stopped" in text for text in town.replies()))
    (stopped,) = (text for text in town.replies() if "Stopped" in text)
    assert "2 queued messages were dropped" in stopped
    town.model.respond = echo
    town.telegram.write("Hello again")
    town.telegram.wait_for(lambda: any("Hello again" in text for text in town.replies()))
    assert not any("You said: A" in text for text in town.replies())
    with SessionDB(town.home / "state.db") as db:
        assert db.session_count() == 2


def test_queued_items_are_turns_of_their_own_in_order(town: Town) -> None:
    town.start()
    gate = town.model.gate()
    town.model.respond = lambda request: (
        streamed(gate, "First.") if said(request) == "Think" else echo(request)
    )
    town.telegram.write("Think")
    gate.wait_until_reached()
    for letter in "ABCDEF":
        town.telegram.write(f"/queue {letter}")
    town.telegram.wait_for(lambda: not town.telegram.waiting)
    gate.open()
    town.telegram.wait_for(lambda: any("You said: F" in text for text in town.replies()))
    answers = [text for text in town.replies() if not text.startswith("Queued")]
    assert answers == ["First.", *(f"You said: {letter}" for letter in "ABCDEF")]


def test_long_replies_are_split(town: Town) -> None:
    town.model.respond = lambda _request: streamed("word " * 2000)
    town.start()
    town.telegram.write("Much")
    replies = town.wait_for_replies(3)
    assert " ".join(replies).split() == ["word"] * 2000


def test_new_starts_another_session(town: Town) -> None:
    town.start()
    town.telegram.write("One")
    town.wait_for_replies(1)
    town.telegram.write("/new Plans")
    assert "A new conversation: Plans." in town.wait_for_replies(2)[1]
    town.telegram.write("Two")
    town.wait_for_replies(3)
    assert contents(town)[0] == ("user", "Two")
    with SessionDB(town.home / "state.db") as db:
        assert db.session_count() == 2
        assert db.get_session_by_title("Plans") is not None


def test_a_wrong_token_ends_the_start(town: Town) -> None:
    town.config["platforms"]["telegram"]["token"] = "1:" + "x" * 35
    with pytest.raises(LoginRefused, match="telegram"):
        town.start()
