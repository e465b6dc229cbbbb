import pytest

from hermes_sessions import SessionDB
from tests.recall.conftest import Ask
from tests.recall.conversations import continue_in, talk

NO_SESSION = {"success": False, "error": "There is no session with that id."}
NO_MESSAGE = {"success": False, "error": "There is no message with that id in that session."}
META = {
    "when": "March 01, 2026 at 09:00 AM",
    "source": "cli",
    "model": "m-1",
    "title": "Tea",
}


def test_the_shape_of_scroll(db: SessionDB, ask: Ask) -> None:
    ids = talk(db, "s1", *[f"line {i}" for i in range(10)], title="Tea")
    answer = ask(session_id="s1", around_message_id=ids[4], window=2)
    messages = answer.pop("messages")
    assert answer == {
        "success": True,
        "mode": "scroll",
        "session_id": "s1",
        "around_message_id": ids[4],
        "session_meta": META,
        "window": 2,
        "messages_before": 2,
        "messages_after": 3,
        "tokens": answer["tokens"],
    }
    assert [message["id"] for message in messages] == ids[2:7]
    assert [message.get("anchor") for message in messages] == [None, None, True, None, None]


def test_scroll_shows_every_role(db: SessionDB, ask: Ask) -> None:
    talk(db, "s1", "list", "gladly")
    middle = db.append_message("s1", "tool", "a.txt", tool_name="terminal", tool_call_id="c1")
    messages = ask(session_id="s1", around_message_id=middle)["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "tool"]
    assert messages[2]["tool_call_id"] == "c1"


def test_a_message_of_another_session_of_the_conversation(db: SessionDB, ask: Ask) -> None:
    (old,) = talk(db, "head", "a", title="Tea")
    continue_in(db, "head", "tip", "b")
    answer = ask(session_id="tip", around_message_id=old)
    assert answer["session_id"] == "head"
    assert [message["content"] for message in answer["messages"]] == ["a"]
    assert "not in session tip but in head" in answer["warning"]


@pytest.mark.parametrize("message_id", [0, -1, 999, 2**63, 10**30])
def test_an_unknown_message(db: SessionDB, ask: Ask, message_id: int) -> None:
    talk(db, "s1", "a")
    talk(db, "s2", "b")
    assert ask(session_id="s1", around_message_id=message_id) == NO_MESSAGE


def test_a_message_of_another_conversation_or_rewound(db: SessionDB, ask: Ask) -> None:
    talk(db, "s1", "a")
    (foreign,) = talk(db, "s2", "b")
    assert ask(session_id="s1", around_message_id=foreign) == NO_MESSAGE
    db.rewind_to_message("s2", foreign)
    assert ask(session_id="s2", around_message_id=foreign) == NO_MESSAGE


@pytest.mark.parametrize("session_id", ["nobody", "x" * 5000, "s", "\x00", "\ud800"])
def test_an_unknown_session(db: SessionDB, ask: Ask, session_id: str) -> None:
    talk(db, "s1", "a")
    assert ask(session_id=session_id) == NO_SESSION
    assert ask(session_id=session_id, around_message_id=1) == NO_SESSION


def test_a_trashed_session_is_unknown(db: SessionDB, ask: Ask) -> None:
    (message,) = talk(db, "s1", "a")
    db.trash_sessions(["s1"])
    assert ask(session_id="s1") == NO_SESSION
    assert ask(session_id="s1", around_message_id=message) == NO_SESSION


def test_the_current_conversation_is_refused(db: SessionDB, ask: Ask) -> None:
    (message,) = talk(db, "head", "a")
    continue_in(db, "head", "tip", "b")
    for arguments in ({"session_id": "head"}, {"session_id": "tip", "around_message_id": message}):
        answer = ask(**arguments, current_session_id="tip")
        assert set(answer) == {"success", "error"}
        assert "current conversation" in answer["error"]


def test_the_shape_of_read(db: SessionDB, ask: Ask) -> None:
    ids = talk(db, "s1", "a", "b", title="Tea")
    answer = ask(session_id="s1")
    assert answer == {
        "success": True,
        "mode": "read",
        "session_id": "s1",
        "session_meta": META,
        "message_count": 2,
        "truncated": False,
        "messages": [
            {"id": ids[0], "role": "user", "content": "a", "when": "2026-03-01 09:00"},
            {"id": ids[1], "role": "assistant", "content": "b", "when": "2026-03-01 09:01"},
        ],
        "tokens": answer["tokens"],
    }


@pytest.mark.parametrize(("length", "cut"), [(30, False), (31, True), (200, True)])
def test_a_long_session_is_read_from_both_ends(
    db: SessionDB, ask: Ask, length: int, cut: bool
) -> None:
    ids = talk(db, "s1", *[f"line {i}" for i in range(length)])
    answer = ask(session_id="s1")
    assert (answer["truncated"], answer["message_count"]) == (cut, length)
    assert ("message" in answer) is cut
    expected = [*ids[:20], *ids[-10:]] if cut else ids
    assert [message["id"] for message in answer["messages"]] == expected


def test_an_empty_session(db: SessionDB, ask: Ask) -> None:
    talk(db, "s1")
    answer = ask(session_id="s1")
    assert (answer["success"], answer["messages"]) == (True, [])


def test_structured_content_is_shown_as_text(db: SessionDB, ask: Ask) -> None:
    db.create_session("s1", "cli")
    db.append_message("s1", "user", [{"type": "text", "text": "look"}, {"type": "image_url"}])
    db.append_message("s1", "user", [{"type": "image_url", "image_url": {"url": "data:xyz"}}])
    db.append_message("s1", "user", b"\x00\x01")
    db.append_message("s1", "assistant", None)
    contents = [message["content"] for message in ask(session_id="s1")["messages"]]
    assert contents == ["look", "[multimodal content]", "[multimodal content]", ""]
