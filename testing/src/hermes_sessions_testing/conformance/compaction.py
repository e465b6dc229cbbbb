"""Compaction in place: a shorter transcript under the same id, and the state of compression."""

from __future__ import annotations

from typing import Any

import pytest

from hermes_sessions.errors import InvalidInput, MessageTooLarge, UnknownSession
from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions_testing.clock import FrozenClock
from hermes_sessions_testing.conformance.fixtures import OpenStore
from hermes_sessions_testing.conformance.helpers import (
    contents,
    exchange,
    found,
    session,
)

SUMMARY: list[dict[str, Any]] = [
    {"role": "user", "content": "summary of it"},
    {"role": "assistant", "content": "go on", "tool_calls": [{"id": "c"}]},
]


def compacted(db: SessionDB) -> None:
    """Create a session ``s`` with two exchanges that were replaced by a summary."""
    db.create_session("s", "cli")
    db.set_session_title("s", "Plan")
    exchange(db, "s", "pineapple question", "old answer")
    exchange(db, "s", "second question", "other answer")
    assert db.archive_and_compact("s", SUMMARY) == 2


class TestCompaction:
    """Former messages are kept: search finds them, replay leaves them out."""

    def test_what_is_in_force(self, db: SessionDB) -> None:
        """Readers, counters and replay have the summary alone."""
        compacted(db)
        assert contents(db.get_messages("s")) == ["summary of it", "go on"]
        assert contents(db.get_messages_as_conversation("s")) == ["summary of it", "go on"]
        assert db.message_count("s") == 2
        stored = session(db, "s")
        assert (stored["message_count"], stored["tool_call_count"]) == (2, 1)
        assert (stored["title"], stored["ended_at"], stored["rewind_count"]) == ("Plan", None, 0)

    def test_what_is_kept(self, db: SessionDB) -> None:
        """Former messages come with `include_inactive`, in order, and are found."""
        compacted(db)
        every = db.get_messages("s", include_inactive=True)
        assert contents(every)[:2] == ["pineapple question", "old answer"]
        assert [message["compacted"] for message in every] == [1, 1, 1, 1, 0, 0]
        assert db.message_count("s", include_inactive=True) == 6
        assert db.has_archived_messages("s")
        assert found(db, "pineapple") == ["pineapple question"]
        replayed = db.get_messages_as_conversation("s", include_inactive=True)
        assert len(replayed) == 6
        window = db.get_messages_around("s", every[0]["id"])["window"]
        assert contents(window)[:2] == ["pineapple question", "old answer"]

    def test_again(self, db: SessionDB) -> None:
        """A second compaction keeps what the first one kept."""
        compacted(db)
        db.append_message("s", "user", "third question")
        assert db.archive_and_compact("s", [{"role": "user", "content": "short"}]) == 1
        assert contents(db.get_messages("s")) == ["short"]
        assert db.message_count("s", include_inactive=True) == 8
        assert_summary_of(db)

    def test_to_nothing(self, db: SessionDB) -> None:
        """An empty transcript is one, too."""
        compacted(db)
        assert db.archive_and_compact("s", []) == 0
        assert db.get_messages("s") == []
        assert session(db, "s")["message_count"] == 0
        db.append_message("s", "user", "hello again")
        assert contents(db.get_messages("s")) == ["hello again"]

    def test_a_message_that_cannot_be_stored(self, open_another: OpenStore) -> None:
        """Then nothing changes."""
        db = open_another(max_message_bytes=100)
        compacted(db)
        for bad, error in ((["no message"], InvalidInput), ([_too_large()], MessageTooLarge)):
            with pytest.raises(error):
                db.archive_and_compact("s", [{"role": "user", "content": "x"}, *bad])
        assert contents(db.get_messages("s")) == ["summary of it", "go on"]

    def test_an_unknown_session(self, db: SessionDB) -> None:
        """Nothing to compact is fine, messages need a session."""
        assert db.archive_and_compact("missing", []) == 0
        with pytest.raises(UnknownSession):
            db.archive_and_compact("missing", SUMMARY)
        assert not db.has_archived_messages("missing")

    def test_rewinds_reach_back_to_the_summary(self, db: SessionDB) -> None:
        """Compacted messages cannot be hidden, and are no targets in lists."""
        compacted(db)
        assert contents(db.list_recent_user_messages("s")) == ["summary of it"]
        target = db.list_recent_user_messages("s")[0]["id"]
        assert db.rewind_to_message("s", target)["rewound_count"] == 2
        assert db.get_messages("s") == []
        assert found(db, "pineapple") == ["pineapple question"]
        assert db.restore_rewound("s") == 2
        assert contents(db.get_messages("s")) == ["summary of it", "go on"]

    def test_what_was_hidden_before(self, db: SessionDB) -> None:
        """A rewind whose place was compacted cannot be undone, and says so."""
        db.create_session("s", "cli")
        exchange(db, "s", "one")
        last = db.append_message("s", "user", "two")
        db.rewind_to_message("s", last)
        db.archive_and_compact("s", [])
        with pytest.raises(InvalidInput, match="compacted"):
            db.restore_rewound("s")

    def test_only_what_is_in_force_is_replaced(self, db: SessionDB) -> None:
        """`active_only` spares what was compacted or rewound."""
        compacted(db)
        last = db.append_message("s", "user", "to be hidden")
        db.rewind_to_message("s", last)
        db.replace_messages("s", [{"role": "user", "content": "new"}], active_only=True)
        assert contents(db.get_messages("s")) == ["new"]
        every = contents(db.get_messages("s", include_inactive=True))
        assert every[:4] == ["pineapple question", "old answer", "second question", "other answer"]
        assert every[4:] == ["to be hidden", "new"]
        assert session(db, "s")["message_count"] == 1
        db.replace_messages("s", [])
        assert db.get_messages("s", include_inactive=True) == []
        assert not db.has_archived_messages("s")

    def test_the_text_that_was_sent(self, db: SessionDB) -> None:
        """It is stored with the newest question, if that is the one that is meant."""
        compacted(db)
        assert db.set_latest_user_api_content("s", "other", "sent") == 0
        assert db.set_latest_user_api_content("s", "summary of it", "sent") == 1
        assert [m["api_content"] for m in db.get_messages("s")] == ["sent", None]
        for content in ([{"type": "text", "text": "a list"}], None):
            db.append_message("s", "user", content)
            assert db.set_latest_user_api_content("s", content, "sent again") == 1
        # Large enough to be stored beside the row.
        picture = "data:image/png;base64," + "aGVsbG8g" * 20_000
        shown = [{"type": "image_url", "image_url": {"url": picture}}]
        db.append_message("s", "user", shown)
        assert db.set_latest_user_api_content("s", shown, "with a picture") == 1
        assert db.get_messages("s")[-1]["content"] == shown
        assert db.set_latest_user_api_content("s", "summary of it", "x") == 0
        assert db.set_latest_user_api_content("missing", "x", "y") == 0

    def test_after_a_compaction_a_rewrite_gets_rising_times(
        self, db: SessionDB, clock: FrozenClock
    ) -> None:
        """A message without a time follows the one before it."""
        db.create_session("s", "cli")
        later = clock() + 50
        db.archive_and_compact(
            "s",
            [
                {"role": "user", "content": "a", "timestamp": later},
                {"role": "assistant", "content": "b"},
                {"role": "user", "content": "c"},
            ],
        )
        times = [message["timestamp"] for message in db.get_messages("s")]
        assert times[0] == later
        assert times == sorted(set(times))


def assert_summary_of(db: SessionDB) -> None:
    """Compare counters with the messages in force; the preview stays that of the first question."""
    stored = session(db, "s")
    assert stored["message_count"] == len(db.get_messages("s"))
    assert db.list_sessions_rich()[0]["preview"] == "pineapple question"


def _too_large() -> dict[str, Any]:
    return {"role": "user", "content": "x" * 200}


class TestCompressionState:
    """The pause after a failed compression, and the streak of fallbacks."""

    def test_a_pause(self, db: SessionDB, clock: FrozenClock) -> None:
        """It is there until its time has come, or it is cleared."""
        db.create_session("s", "cli")
        assert db.get_compression_failure_cooldown("s") is None
        until = clock() + 60
        db.record_compression_failure_cooldown("s", until, "too slow")
        assert db.get_compression_failure_cooldown("s") == {
            "cooldown_until": until,
            "remaining_seconds": 60,
            "error": "too slow",
        }
        clock.advance(60)
        assert db.get_compression_failure_cooldown("s") is None
        assert session(db, "s")["compression_failure_error"] == "too slow"
        db.record_compression_failure_cooldown("s", clock() + 5)
        pause = db.get_compression_failure_cooldown("s")
        assert pause is not None
        assert pause["error"] is None
        db.clear_compression_failure_cooldown("s")
        assert db.get_compression_failure_cooldown("s") is None
        assert session(db, "s")["compression_failure_cooldown_until"] is None

    def test_a_streak(self, db: SessionDB) -> None:
        """Numbers of 0 or more are stored, texts of numbers as well."""
        db.create_session("s", "cli")
        assert db.get_compression_fallback_streak("s") == 0
        given: list[tuple[Any, int]] = [(3, 3), (-2, 0), ("4", 4)]
        for streak, stored in given:
            db.set_compression_fallback_streak("s", streak)
            assert db.get_compression_fallback_streak("s") == stored
        with pytest.raises(InvalidInput):
            db.set_compression_fallback_streak("s", "x")  # type: ignore[arg-type]
        assert db.get_compression_fallback_streak("s") == 4

    @pytest.mark.parametrize("session_id", ["missing", ""])
    def test_an_unknown_session(self, db: SessionDB, clock: FrozenClock, session_id: str) -> None:
        """Nothing is stored, nothing raises."""
        db.record_compression_failure_cooldown(session_id, clock() + 60, "x")
        db.clear_compression_failure_cooldown(session_id)
        db.set_compression_fallback_streak(session_id, 2)
        assert db.get_compression_failure_cooldown(session_id) is None
        assert db.get_compression_fallback_streak(session_id) == 0
