"""Messages: appending and reading them, one session at a time."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hermes_sessions.errors import InvalidInput, MessageTooLarge, StaleFence, UnknownSession
from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions_testing.clock import FrozenClock
from hermes_sessions_testing.conformance.fixtures import OpenStore
from hermes_sessions_testing.conformance.helpers import bases_of, contents, ids, session

# Anchors: a message with its surroundings, and the two ends of its session.


NOTHING = {"window": [], "messages_before": 0, "messages_after": 0}


def twenty(db: SessionDB) -> list[int]:
    """Create session ``s`` with the messages "0" to "19", users and assistants in turn."""
    db.create_session("s", "cli")
    roles = ("user", "assistant")
    return db.append_messages("s", [{"role": roles[n % 2], "content": str(n)} for n in range(20)])


def numbers(first: int, last: int) -> list[str]:
    """Return the contents from *first* to *last*, both included."""
    return [str(number) for number in range(first, last + 1)]


class TestAnchors:
    """A window is the same however long the session is."""

    @pytest.mark.parametrize(
        ("anchor", "window", "first", "last"),
        [(10, 3, 7, 13), (0, 3, 0, 3), (19, 3, 16, 19), (1, 3, 0, 4), (5, 0, 5, 5), (9, 99, 0, 19)],
    )
    def test_a_window(self, db: SessionDB, anchor: int, window: int, first: int, last: int) -> None:
        """Up to *window* messages on each side, and how many lie beyond."""
        added = twenty(db)
        found = db.get_messages_around("s", added[anchor], window)
        assert contents(found["window"]) == numbers(first, last)
        assert found["messages_before"] == first
        assert found["messages_after"] == 19 - last
        assert found["window"] == db.get_messages("s")[first : last + 1]

    def test_the_default_window(self, db: SessionDB) -> None:
        """Five on each side."""
        added = twenty(db)
        found = db.get_messages_around("s", added[10])
        assert contents(found["window"]) == numbers(5, 15)

    def test_an_unknown_anchor(self, db: SessionDB) -> None:
        """No such message, or one of another session: an empty window."""
        added = twenty(db)
        db.create_session("other", "cli")
        foreign = db.append_message("other", "user", "x")
        assert db.get_messages_around("s", foreign) == NOTHING
        assert db.get_messages_around("s", 10**9) == NOTHING
        assert db.get_messages_around("missing", added[3]) == NOTHING
        view = db.get_anchored_view("s", foreign)
        assert view == NOTHING | {"bookend_start": [], "bookend_end": []}

    @pytest.mark.parametrize("window", [-1, 1.5, None])
    def test_a_window_is_a_number(self, db: SessionDB, window: Any) -> None:
        """Anything else is refused."""
        added = twenty(db)
        with pytest.raises(InvalidInput):
            db.get_messages_around("s", added[0], window)

    def test_rewound_messages_are_not_around(self, db: SessionDB) -> None:
        """They neither show, nor count, nor serve as an anchor."""
        added = twenty(db)
        db.rewind_to_message("s", added[12])
        found = db.get_messages_around("s", added[10], 3)
        assert contents(found["window"]) == numbers(7, 11)
        assert found["messages_after"] == 0
        assert db.get_messages_around("s", added[15]) == NOTHING

    def test_the_ends_of_a_session(self, db: SessionDB) -> None:
        """The view adds the first and the last messages outside the window."""
        added = twenty(db)
        view = db.get_anchored_view("s", added[10], window=2, bookend=3)
        assert contents(view["bookend_start"]) == numbers(0, 2)
        assert contents(view["window"]) == numbers(8, 12)
        assert contents(view["bookend_end"]) == numbers(17, 19)
        assert (view["messages_before"], view["messages_after"]) == (8, 7)

    def test_ends_do_not_repeat_the_window(self, db: SessionDB) -> None:
        """Near an end there is less to add."""
        added = twenty(db)
        view = db.get_anchored_view("s", added[1], window=2, bookend=3)
        assert contents(view["window"]) == numbers(0, 3)
        assert view["bookend_start"] == []
        assert contents(view["bookend_end"]) == numbers(17, 19)

    def test_a_view_keeps_the_roles_asked_for(self, db: SessionDB) -> None:
        """The anchor itself always shows."""
        db.create_session("s", "cli")
        roles = ["user", "assistant", "tool", "tool", "tool", "assistant", "user", "system"]
        added = db.append_messages(
            "s", [{"role": role, "content": str(n)} for n, role in enumerate(roles)]
        )
        view = db.get_anchored_view("s", added[3], window=1, bookend=1)
        assert contents(view["window"]) == ["1", "3", "5"]
        assert contents(view["bookend_start"]) == ["0"]
        assert contents(view["bookend_end"]) == ["6"]
        everyone = db.get_anchored_view("s", added[3], window=1, bookend=1, keep_roles=None)
        assert contents(everyone["window"]) == ["2", "3", "4"]
        assert contents(everyone["bookend_end"]) == ["7"]

    def test_ends_have_text(self, db: SessionDB) -> None:
        """Messages without readable text open and close nothing; structured ones with text do."""
        db.create_session("s", "cli")
        parts = [{"type": "text", "text": "hello"}]
        said: list[Any] = [None, "", " \n", parts, "middle", "end", [{"type": "image"}], None]
        added = db.append_messages("s", [{"role": "user", "content": content} for content in said])
        view = db.get_anchored_view("s", added[4], window=0, bookend=2)
        assert contents(view["bookend_start"]) == [parts]
        assert contents(view["bookend_end"]) == ["end"]


#: The documented columns of a message, which scripts rely on.
DOCUMENTED_COLUMNS = (
    "id session_id role content tool_call_id tool_calls tool_name timestamp token_count "
    "finish_reason reasoning reasoning_content reasoning_details codex_reasoning_items "
    "codex_message_items"
).split()

CALL = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}


class TestMessages:
    """Every message is kept as it was, in the order of its arrival."""

    def test_every_column_of_a_message(self, db: SessionDB, clock: FrozenClock) -> None:
        """A message record starts with the documented columns, in their order."""
        db.create_session("s", "cli")
        given: dict[str, Any] = {
            "role": "assistant",
            "content": "hello",
            "tool_call_id": "call_0",
            "tool_calls": [CALL],
            "tool_name": "web_search",
            "token_count": 12,
            "finish_reason": "tool_calls",
            "reasoning": "because",
            "reasoning_content": "in detail",
        }
        message_id = db.append_message("s", **given)
        (stored,) = db.get_messages("s")
        assert list(stored)[: len(DOCUMENTED_COLUMNS)] == DOCUMENTED_COLUMNS
        assert {name: dict[str, Any](stored)[name] for name in given} == given
        assert (stored["id"], stored["session_id"]) == (message_id, "s")
        assert stored["timestamp"] == clock()

    def test_ids_grow_and_are_not_reused(self, db: SessionDB) -> None:
        """An id belongs to one message for ever."""
        db.create_session("a", "cli")
        db.create_session("b", "cli")
        first = db.append_message("a", "user", "1")
        second = db.append_message("b", "user", "2")
        assert isinstance(first, int)
        assert first < second
        db.delete_session("b")
        assert db.append_message("a", "user", "3") > second

    def test_an_unknown_session_takes_no_message(self, db: SessionDB) -> None:
        """Behaviour 29: the session must exist, for one message and for many."""
        for append in (
            lambda: db.append_message("missing", "user", "hi"),
            lambda: db.append_messages("missing", [{"role": "user", "content": "hi"}]),
        ):
            with pytest.raises(UnknownSession) as raised:
                append()
            assert "sqlite3.IntegrityError" in bases_of(raised.value)
            assert "missing" in str(raised.value)
        assert db.message_count() == 0
        assert db.get_session("missing") is None

    def test_tool_calls_are_counted(self, db: SessionDB) -> None:
        """Behaviour 30: by the length of the list; tool results do not count."""
        db.create_session("s", "cli")
        counted = []
        for message in (
            {"role": "assistant", "tool_calls": [CALL, CALL]},
            {"role": "assistant", "tool_calls": []},
            {"role": "assistant", "tool_calls": None},
            {"role": "tool", "content": "result", "tool_call_id": "call_1", "tool_name": "f"},
            {"role": "assistant", "tool_calls": CALL},
        ):
            db.append_message("s", **message)
            counted.append(session(db, "s")["tool_call_count"])
        assert counted == [2, 2, 2, 2, 3]
        assert session(db, "s")["message_count"] == 5

    @pytest.mark.parametrize(
        "content",
        [
            None,
            "",
            " \n\t ",
            "text",
            [{"type": "text", "text": "日本 ü"}, {"type": "image_url", "image_url": {"url": "x"}}],
            {"nested": {"a": [1, 2.5, None, True, "é"]}},
            [],
            {},
            ["\x00json:[1]"],
            "\x00json:[1, 2]",
            "[1, 2]",
            '{"a": 1}',
            "null",
            b"bytes \x00\xff",
        ],
        ids=repr,
    )
    def test_content_reads_back_as_what_it_was(self, db: SessionDB, content: Any) -> None:
        """Behaviour 31: lists, dicts, None, "" and all text, also text that looks like JSON."""
        db.create_session("s", "cli")
        db.append_message("s", "tool", content)
        (stored,) = db.get_messages("s")
        assert stored["content"] == content
        assert type(stored["content"]) is type(content)

    @pytest.mark.parametrize(
        ("content", "read"), [(5, "5"), (2.5, "2.5"), (True, "1"), ((1, 2), [1, 2]), ({1}, "{1}")]
    )
    def test_other_content_becomes_text_or_a_list(
        self, db: SessionDB, content: Any, read: Any
    ) -> None:
        """Behaviour 31: numbers become text, tuples lists, anything else its str()."""
        db.create_session("s", "cli")
        db.append_message("s", "user", content)
        assert contents(db.get_messages("s")) == [read]

    def test_structured_columns(self, db: SessionDB) -> None:
        """Behaviour 32: tool calls are decoded, the other JSON columns are text."""
        db.create_session("s", "cli")
        details = [{"type": "reasoning.text", "text": "思考 é"}]
        db.append_message(
            "s",
            "assistant",
            "x",
            tool_calls=[CALL],
            reasoning_details=details,
            codex_reasoning_items=[{"a": 1}],
            codex_message_items=[{"b": 2}],
        )
        db.append_message("s", "assistant", "y", tool_calls=[], reasoning_details=[])
        first, second = db.get_messages("s")
        assert first["tool_calls"] == [CALL]
        assert isinstance(first["reasoning_details"], str)
        assert json.loads(first["reasoning_details"]) == details
        assert "思考 é" in first["reasoning_details"]
        assert json.loads(first["codex_reasoning_items"] or "") == [{"a": 1}]
        assert json.loads(first["codex_message_items"] or "") == [{"b": 2}]
        assert second["tool_calls"] in (None, [])
        assert second["reasoning_details"] is None

    def test_order_is_arrival_whatever_the_clock_says(
        self, db: SessionDB, clock: FrozenClock
    ) -> None:
        """A clock that runs backwards does not put an answer before its question."""
        db.create_session("s", "cli")
        for number in range(10):
            clock.advance(-3600 if number % 3 else 60)
            db.append_message("s", "user", str(number))
        db.append_messages("s", [{"role": "tool", "content": str(n)} for n in range(10, 15)])
        db.append_message("s", "assistant", "15", timestamp=1.0)
        expected = [str(number) for number in range(16)]
        assert contents(db.get_messages("s")) == expected
        assert contents(db.get_messages_as_conversation("s")) == expected
        exported = db.export_session("s")
        assert exported is not None
        assert contents(exported["messages"]) == expected

    def test_a_caller_may_state_the_time(self, db: SessionDB, clock: FrozenClock) -> None:
        """Platforms know when a message was sent."""
        db.create_session("s", "telegram")
        db.append_message("s", "user", "a", timestamp=1_700_000_000.123456)
        db.append_message("s", "user", "b", timestamp=1_700_000_000)
        db.append_messages("s", [{"role": "user", "content": "c", "timestamp": 1.5}])
        db.append_message("s", "user", "d")
        times = [message["timestamp"] for message in db.get_messages("s")]
        assert times == [1_700_000_000.123456, 1_700_000_000.0, 1.5, clock()]

    def test_pages_of_messages(self, db: SessionDB) -> None:
        """`limit` and `offset` cut the same list."""
        db.create_session("s", "cli")
        db.append_messages("s", [{"role": "user", "content": str(n)} for n in range(10)])
        everything = db.get_messages("s")
        assert db.get_messages("s", limit=3) == everything[:3]
        assert db.get_messages("s", limit=3, offset=8) == everything[8:]
        assert db.get_messages("s", offset=4) == everything[4:]
        assert db.get_messages("s", limit=0) == []
        assert db.get_messages("s", offset=10) == []
        assert db.get_messages("missing") == []

    def test_a_batch_returns_its_ids_in_order(self, db: SessionDB) -> None:
        """`append_messages` is many appends in one transaction."""
        db.create_session("s", "cli")
        before = db.append_message("s", "user", "0")
        batch = [{"role": "user", "content": str(n), "token_count": n} for n in range(1, 500)]
        added = db.append_messages("s", iter(batch))
        assert added == sorted(set(added))
        assert added[0] > before
        stored = db.get_messages("s")
        assert ids(stored) == [before, *added]
        assert contents(stored) == [str(number) for number in range(500)]
        assert session(db, "s")["message_count"] == 500

    def test_an_empty_batch(self, db: SessionDB) -> None:
        """An empty batch stores nothing."""
        db.create_session("s", "cli")
        before = session(db, "s")
        assert db.append_messages("s", []) == []
        assert session(db, "s") == before

    @pytest.mark.parametrize("role", [None, 5])
    def test_a_role_is_text(self, db: SessionDB, role: Any) -> None:
        """Invalid values are refused."""
        db.create_session("s", "cli")
        with pytest.raises(InvalidInput) as raised:
            db.append_message("s", role, "hi")
        assert "ValueError" in bases_of(raised.value)
        assert db.message_count("s") == 0

    def test_any_role(self, db: SessionDB) -> None:
        """Any role is accepted."""
        db.create_session("s", "cli")
        roles = ["user", "assistant", "tool", "system", "session_meta", "развитие"]
        for role in roles:
            db.append_message("s", role, "x")
        assert [message["role"] for message in db.get_messages("s")] == roles

    @pytest.mark.parametrize("fence", [0, 1, 7])
    def test_a_fence_that_nobody_holds_is_refused(self, db: SessionDB, fence: int) -> None:
        """A fencing token must be the one that holds the conversation."""
        db.create_session("s", "cli")
        for append in (
            lambda: db.append_message("s", "user", "hi", fence=fence),
            lambda: db.append_messages("s", [{"role": "user", "content": "hi"}], fence=fence),
        ):
            with pytest.raises(StaleFence) as raised:
                append()
            assert "sqlite3.IntegrityError" in bases_of(raised.value)
        assert db.message_count("s") == 0

    def test_facts_of_messengers_and_tools(self, db: SessionDB) -> None:
        """They read back with the message, and the messenger's id finds it."""
        db.create_session("s", "telegram")
        facts: dict[str, Any] = {
            "observed": True,
            "effect_disposition": "none",
            "api_content": "as sent",
        }
        db.append_message("s", "user", "hi", platform_message_id="77", **facts)
        db.append_messages("s", [{"role": "user", "content": "x", "platform_message_id": 78}])
        first, second = db.get_messages("s")
        assert {name: dict[str, Any](first)[name] for name in facts} == facts | {"observed": 1}
        assert (first["platform_message_id"], second["platform_message_id"]) == ("77", "78")
        assert (second["observed"], second["api_content"]) == (0, None)
        assert db.has_platform_message_id("s", "77")
        assert db.has_platform_message_id("s", 77)  # type: ignore[arg-type]
        assert not db.has_platform_message_id("s", "7")
        assert not db.has_platform_message_id("missing", "77")
        assert not db.has_platform_message_id("s", None)  # type: ignore[arg-type]
        db.rewind_to_message("s", first["id"])
        assert db.has_platform_message_id("s", "77"), "also of hidden messages"
        with pytest.raises(InvalidInput):
            db.append_message("s", "user", "x", platform_message_id="p" * 192)


class TestMessageLimits:
    """One message has a size limit, the same on every database."""

    @pytest.mark.parametrize(
        "oversize",
        [
            {"content": "x" * 2_000},
            {"content": "語" * 700},
            {"content": ["x" * 2_000]},
            {"tool_calls": [{"arguments": "x" * 2_000}]},
            {"reasoning": "x" * 2_000},
            {"reasoning_details": ["x" * 2_000]},
            {"content": "x" * 600, "reasoning_content": "x" * 600, "reasoning": "x" * 600},
        ],
        ids="+".join,
    )
    def test_a_message_over_the_limit_is_refused(
        self, db: SessionDB, open_another: OpenStore, oversize: dict[str, Any]
    ) -> None:
        """The limit counts bytes of the whole message and is checked before any write."""
        limited = open_another(max_message_bytes=1_500)
        db.create_session("s", "cli")
        limited.append_message("s", "user", "x" * 1_000)
        before = session(db, "s")
        for write in (
            lambda: limited.append_message("s", "assistant", **oversize),
            lambda: limited.append_messages(
                "s", [{"role": "user", "content": "fine"}, {"role": "assistant", **oversize}]
            ),
            lambda: limited.replace_messages("s", [{"role": "assistant", **oversize}]),
        ):
            with pytest.raises(MessageTooLarge) as raised:
                write()
            assert "ValueError" in bases_of(raised.value)
            assert raised.value.limit == 1_500
            assert raised.value.size > 1_500
            assert "1,500" in str(raised.value)
        assert session(db, "s") == before
        assert db.message_count("s") == 1
