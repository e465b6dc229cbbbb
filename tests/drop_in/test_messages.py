"""Messages as Hermes 0.19 writes, reads, compacts, rewinds and exports them."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime
from typing import Any

import pytest

from hermes_sessions.drop_in import conversations
from hermes_sessions_testing.clock import FrozenClock
from hermes_state import SessionDB
from tests.drop_in.test_sessions import SESSION_KEYS, keys

MESSAGE_KEYS = """id session_id role content tool_call_id tool_calls tool_name effect_disposition
timestamp token_count finish_reason reasoning reasoning_content reasoning_details
codex_reasoning_items codex_message_items platform_message_id observed active compacted
api_content""".split()
Given = dict[str, Any]


@pytest.fixture(autouse=True)
def recent_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replays are as Hermes 0.19 reads them."""
    monkeypatch.setattr(conversations, "client_shows_facts", lambda: True)
    monkeypatch.setattr("hermes_sessions.drop_in.message_verbs.client_shows_facts", lambda: True)


@pytest.fixture
def db(db: SessionDB) -> SessionDB:
    db.create_session("s", "cli")
    return db


def texts(messages: list[Given]) -> list[Any]:
    return [message["content"] for message in messages]


class TestAppending:
    def test_the_keys_of_a_message(self, db: SessionDB) -> None:
        db.append_message("s", "user", "hi")
        [message] = db.get_messages("s")
        assert keys(message) == MESSAGE_KEYS
        assert len(MESSAGE_KEYS) == 21
        flags = [message[name] for name in ("observed", "active", "compacted")]
        assert flags == [0, 1, 0]

    @pytest.mark.parametrize(
        ("given", "stored"),
        [
            (5, 5.0),
            ("6.5", 6.5),
            (datetime.fromtimestamp(7, UTC), 7.0),
            ("1970-01-01T00:00:08+00:00", 8.0),
        ],
    )
    def test_times(self, db: SessionDB, given: Any, stored: float) -> None:
        db.append_message("s", "user", "hi", timestamp=given)
        assert db.get_messages("s")[0]["timestamp"] == stored

    @pytest.mark.parametrize("given", ["yesterday", [1], True, float("nan"), None])
    def test_what_is_no_time_is_now(self, db: SessionDB, clock: FrozenClock, given: Any) -> None:
        db.append_message("s", "user", "hi", timestamp=given)
        assert db.get_messages("s")[0]["timestamp"] == clock()

    def test_facts(self, db: SessionDB) -> None:
        db.append_message(
            "s", "tool", "x", platform_message_id=77, observed="yes", effect_disposition="none"
        )
        db.append_message("s", "user", "x", api_content={"no": "text"})
        db.append_message("s", "user", "x", api_content="sent")
        first, second, third = db.get_messages("s")
        assert (first["platform_message_id"], first["observed"]) == ("77", 1)
        assert first["effect_disposition"] == "none"
        assert (second["api_content"], third["api_content"]) == (None, "sent")
        assert db.has_platform_message_id("s", 77)  # type: ignore[arg-type]

    def test_an_id_that_is_too_long_for_an_index(self, db: SessionDB) -> None:
        """The message is stored all the same, and found by its id."""
        long = f"<{'m' * 300}@mail.example>"
        db.append_message("s", "user", "x", platform_message_id=long)
        db.replace_messages("s", [*db.get_messages("s"), {"role": "user", "message_id": "ü" * 200}])
        assert db.has_platform_message_id("s", long)
        assert db.has_platform_message_id("s", "ü" * 200)
        assert not db.has_platform_message_id("s", long[:-1])
        assert not db.has_platform_message_id("s", None)

    def test_without_a_role_or_a_session(self, db: SessionDB) -> None:
        for session_id, role in (("s", None), ("missing", "user")):
            with pytest.raises(sqlite3.IntegrityError):
                db.append_message(session_id, role, "x")  # type: ignore[arg-type]

    def test_by_position(self, db: SessionDB) -> None:
        """The order of 0.13, then the later parameters."""
        given = ("assistant", "c", "n", [{"id": "1"}], "i", 3, "stop", "r", "rc", [1], [2], [3])
        db.append_message("s", *given, "p", True, "e", 4.0, "a")  # type: ignore[arg-type]
        [message] = db.get_messages("s")
        assert [message[key] for key in MESSAGE_KEYS[2:]] == [
            *("assistant", "c", "i", [{"id": "1"}], "n", "e", 4.0, 3, "stop", "r", "rc"),
            *("[1]", "[2]", "[3]", "p", 1, 1, 0, "a"),
        ]


class TestReplacing:
    def test_items(self, db: SessionDB, clock: FrozenClock) -> None:
        later = clock() + 100
        db.replace_messages(
            "s",
            [
                {"role": "user", "content": "a", "timestamp": later, "message_id": 5},
                {"role": "assistant", "content": "b", "reasoning_details": '[{"a": 1}]'},
                {"role": "tool", "content": "c", "effect_disposition": "unknown", "observed": 1},
                {"content": "d", "platform_message_id": "p", "api_content": "sent"},
            ],
        )
        first, second, third, fourth = db.get_messages("s")
        assert (first["platform_message_id"], first["timestamp"]) == ("5", later)
        assert second["reasoning_details"] == '[{"a": 1}]', "encoded once"
        assert later < second["timestamp"] < third["timestamp"] < fourth["timestamp"]
        assert (third["effect_disposition"], third["observed"]) == ("unknown", 1)
        assert [fourth[k] for k in ("role", "platform_message_id", "api_content")] == [
            *("unknown", "p", "sent"),
        ]

    def test_rows_of_a_fork(self, db: SessionDB) -> None:
        """What `get_messages` returns can be written to another session."""
        db.append_message("s", "assistant", [{"type": "text", "text": "x"}], reasoning_details=[1])
        db.create_session("fork", "api")
        db.replace_messages("fork", db.get_messages("s"))
        [copy] = db.get_messages("fork")
        assert (copy["content"], copy["reasoning_details"]) == (
            [{"type": "text", "text": "x"}],
            "[1]",
        )

    def test_only_live_rows(self, db: SessionDB) -> None:
        db.append_message("s", "user", "old")
        db.archive_and_compact("s", [{"role": "user", "content": "short"}])
        db.replace_messages("s", [{"role": "user", "content": "new"}], active_only=True)
        assert texts(db.get_messages("s", include_inactive=True)) == ["old", "new"]
        db.replace_messages("s", [{"role": "user", "content": "all"}])
        assert texts(db.get_messages("s", include_inactive=True)) == ["all"]

    def test_what_is_no_message(self, db: SessionDB) -> None:
        db.append_message("s", "user", "old")
        for replace in (db.replace_messages, db.archive_and_compact):
            with pytest.raises(AttributeError):
                replace("s", [{"role": "user", "content": "x"}, "no message"])  # type: ignore[list-item]
        assert texts(db.get_messages("s")) == ["old"]


class TestCompacting:
    def test_in_place(self, db: SessionDB) -> None:
        db.append_message("s", "user", "pineapple")
        db.append_message("s", "assistant", "old")
        summary: list[Given] = [{"role": "user", "content": "summary", "message_id": 9}]
        assert db.archive_and_compact("s", summary) == 1
        every = db.get_messages("s", include_inactive=True)
        assert [(m["active"], m["compacted"]) for m in every] == [(0, 1), (0, 1), (1, 0)]
        assert texts(db.get_messages("s")) == ["summary"]
        assert db.get_session("s")["message_count"] == 1
        assert (db.message_count("s"), db.message_count()) == (3, 3)
        assert db.has_archived_messages("s") is True
        assert len(db.search_messages("pineapple")) == 1
        assert texts(db.export_session("s")["messages"]) == ["summary"]
        assert db.set_latest_user_api_content("s", "summary", "sent") == 1
        assert db.set_latest_user_api_content("", "summary", "sent") == 0


class TestReading:
    def test_pages(self, db: SessionDB) -> None:
        for number in range(4):
            db.append_message("s", "user", str(number))
        assert db.get_messages("s", limit=0) == []
        assert texts(db.get_messages("s", offset=2)) == ["2", "3"]
        assert texts(db.get_messages("s", limit=2, offset=1)) == ["1", "2"]
        around = db.get_messages_around("s", db.get_messages("s")[1]["id"], window=1)
        assert texts(around["window"]) == ["0", "1", "2"]
        assert keys(around["window"][0]) == MESSAGE_KEYS
        assert (around["messages_before"], around["messages_after"]) == (1, 1), "in the window"
        view = db.get_anchored_view("s", db.get_messages("s")[3]["id"], window=0, bookend=1)
        assert texts(view["bookend_start"]) == ["0"]
        assert keys(view["bookend_start"][0]) == MESSAGE_KEYS

    def test_a_conversation(self, db: SessionDB) -> None:
        """All keys, in order, when there is something to show."""
        db.append_message("s", "user", "q", platform_message_id="p", observed=True, timestamp=5)
        db.append_message(
            "s",
            "assistant",
            "a",
            tool_name="n",
            tool_calls=[{"id": "1"}],
            tool_call_id="i",
            finish_reason="stop",
            reasoning="r",
            reasoning_content="",
            reasoning_details=[1],
            effect_disposition="e",
            api_content="sent",
            timestamp=6,
        )
        question, answer = db.get_messages_as_conversation("s")
        assert question == {
            "role": "user",
            "content": "q",
            "timestamp": 5.0,
            "message_id": "p",
            "observed": True,
        }
        assert keys(answer) == (
            "role content api_content timestamp tool_call_id tool_name effect_disposition "
            "tool_calls finish_reason reasoning reasoning_content reasoning_details".split()
        )

    def test_reviews_are_left_out(self, db: SessionDB) -> None:
        review = "  Review the conversation above and update the skill library, please"
        for role, text in (
            ("user", "q"),
            ("assistant", "a"),
            ("user", review),
            ("assistant", "reviewed"),
            ("assistant", "b"),
            ("tool", "Review the conversation above and consider saving to memory"),
        ):
            db.append_message("s", role, text)
        assert texts(db.get_messages_as_conversation("s"))[:3] == ["q", "a", "b"]
        assert len(db.get_messages_as_conversation("s")) == 4

    def test_roles_that_alternate(self, db: SessionDB) -> None:
        for number in (2, 3):
            db.append_message("s", "user", f"q{number}", timestamp=number)
        [joined] = db.get_messages_as_conversation("s", repair_alternation=True)
        assert (joined["content"], joined["timestamp"]) == ("q2\n\nq3", 2.0)
        assert len(db.get_messages_as_conversation("s")) == 2

    def test_a_resume(self, db: SessionDB) -> None:
        db.append_message("s", "user", "repeated")
        db.end_session("s", "compression")
        db.create_session("t", "cli", parent_session_id="s")
        for role, text in (("user", "repeated"), ("assistant", "x"), ("user", "y"), ("user", "z")):
            db.append_message("t", role, text)
        model, display = db.get_resume_conversations("t")
        assert model == db.get_messages_as_conversation("t", repair_alternation=True)
        assert display == db.get_messages_as_conversation("t", include_ancestors=True)
        assert texts(display) == ["repeated", "x", "y", "z"]
        assert texts(db.get_ancestor_display_prefix("t")) == ["repeated"]
        assert db.get_ancestor_display_prefix("s") == []
        for unknown in ("missing", ""):
            assert db.get_resume_conversations(unknown) == ([], [])
            assert db.get_ancestor_display_prefix(unknown) == []

    def test_an_order_that_is_unknown(self, db: SessionDB) -> None:
        db.append_message("s", "user", "pineapple one", timestamp=1)
        db.append_message("s", "user", "pineapple two", timestamp=2)
        newest = db.search_messages("pineapple", sort="newest")
        assert [hit["timestamp"] for hit in newest] == [2.0, 1.0]
        assert len(db.search_messages("pineapple", sort="nonsense")) == 2


def test_replays_for_earlier_releases(db: SessionDB, monkeypatch: pytest.MonkeyPatch) -> None:
    """They would send times and ids to the model's provider; a later parameter asks for them."""
    monkeypatch.setattr("hermes_sessions.drop_in.message_verbs.client_shows_facts", lambda: False)
    db.append_message("s", "user", "q", platform_message_id="p")
    assert db.get_messages_as_conversation("s") == [{"role": "user", "content": "q"}]
    assert "message_id" in db.get_messages_as_conversation("s", repair_alternation=False)[0]


class TestRewinding:
    def test_a_rewind(self, db: SessionDB) -> None:
        first = db.append_message("s", "user", "one")
        db.append_message("s", "assistant", "two")
        third = db.append_message("s", "user", "three")
        result = db.rewind_to_message("s", third)
        assert keys(result)[:3] == ["rewound_count", "target_message", "new_head_id"]
        assert (result["rewound_count"], result["new_head_id"]) == (1, third - 1)
        assert keys(result["target_message"]) == MESSAGE_KEYS
        assert result["target_message"]["content"] == "three"
        assert result["target_message"]["active"] == 1, "as it was"
        assert db.get_session("s")["rewind_count"] == 1
        assert db.rewind_to_message("s", target_message_id=first)["new_head_id"] is None
        assert db.message_count("s") == 3
        for wrong in (first + 1, 10**9):
            with pytest.raises(ValueError, match="list_recent_user_messages"):
                db.rewind_to_message("s", wrong)
        with pytest.raises(TypeError):
            db.rewind_to_message("s")

    def test_what_comes_back(self, db: SessionDB) -> None:
        """All rewinds since a message, but nothing that was compacted."""
        db.append_message("s", "user", "old")
        db.archive_and_compact("s", [])
        first = db.append_message("s", "user", "one")
        second = db.append_message("s", "user", "two")
        db.rewind_to_message("s", second)
        db.rewind_to_message("s", first)
        assert db.restore_rewound("s", second + 1) == 0
        assert db.restore_rewound("s", first) == 2
        assert texts(db.get_messages("s")) == ["one", "two"]

    def test_what_one_can_rewind_to(self, db: SessionDB) -> None:
        for content in ("short\n text", "x" * 90, [{"type": "text", "text": "part"}], [{"a": 1}]):
            db.append_message("s", "user", content)
        last = db.append_message("s", "user", "hidden")
        db.rewind_to_message("s", last)
        rows = db.list_recent_user_messages("s")
        assert keys(rows[0]) == ["id", "timestamp", "preview"]
        assert [row["preview"] for row in rows] == [
            *("[multimodal content]", "part", "x" * 77 + "...", "short text"),
        ]
        assert len(db.list_recent_user_messages("s", include_inactive=True)) == 5
        assert len(db.list_recent_user_messages("s", limit=2)) == 2


class TestExport:
    def test_a_session(self, db: SessionDB) -> None:
        db.append_message("s", "user", "hi")
        exported = db.export_session("s")
        assert keys(exported) == [*SESSION_KEYS, "messages"]
        assert keys(exported["messages"][0]) == MESSAGE_KEYS
        assert db.export_session("missing") is None
        [of_all] = db.export_all()
        assert set(of_all) == {*SESSION_KEYS, "messages", "last_active"}

    def test_a_chain(self, db: SessionDB) -> None:
        db.append_message("s", "user", "one")
        db.end_session("s", "compression")
        db.create_session("t", "cli", parent_session_id="s")
        db.append_message("t", "user", "two")
        exported = db.export_session_lineage("s")
        assert exported["id"] == "t"
        assert exported["lineage_session_ids"] == ["s", "t"]
        assert [segment["id"] for segment in exported["segments"]] == ["s", "t"]
        assert texts(exported["messages"]) == ["one", "two"]
        assert exported["message_count"] == 2
        assert db.export_session_lineage("missing") is None

    def test_an_import(self, db: SessionDB) -> None:
        db.append_message("s", "user", "hi")
        exported = db.export_session("s")
        copy = exported | {"id": "copy", "title": None}
        report = db.import_sessions([copy, exported])
        assert (report["ok"], report["imported_ids"], report["skipped_ids"]) == (
            True,
            ["copy"],
            ["s"],
        )
        assert texts(db.get_messages("copy")) == ["hi"]
        sparse = {"id": "sparse", "source": "cli", "messages": [{"role": "user", "content": "x"}]}
        assert db.import_sessions([sparse])["imported_ids"] == ["sparse"]
        assert [each["content"] for each in db.get_messages("sparse")] == ["x"]
        bad = db.import_sessions([{"id": "x"}, {"id": "", "source": "cli"}])
        assert (bad["ok"], bad["imported"]) == (False, 0)
        assert {"index", "error"} <= set(bad["errors"][0])
        with pytest.raises(ValueError, match="list"):
            db.import_sessions("no list")


def test_maintenance_counts_indexes(db: SessionDB) -> None:
    db.append_message("s", "user", "pineapple")
    assert (db.optimize_fts(), db.rebuild_fts(), db.vacuum()) == (2, 2, 2)
    assert len(db.search_messages("pineapple")) == 1
