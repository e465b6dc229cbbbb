"""Maintenance at program start, sizes, meta values, and freeing space."""

from __future__ import annotations

import pytest

from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions_testing.clock import FrozenClock
from hermes_sessions_testing.conformance.helpers import contents, exchange, ids, say

# Sizes: bytes by session, source and role.


class TestSizes:
    """Bytes of stored text, counted by the database."""

    def test_sessions_are_measured(self, db: SessionDB) -> None:
        """Characters count as many bytes as UTF-8 has for them; unknown ids hold nothing."""
        say(db, "a", "12345", "äöü")
        db.create_session("empty", "cli")
        measured = db.measure_sessions(["a", "empty", "missing", "a"])
        assert measured == {"a": 5 + 6 + len("userassistant"), "empty": 0, "missing": 0}
        assert db.measure_sessions([]) == {}

    def test_every_text_of_a_message_counts(self, db: SessionDB) -> None:
        """Calls, reasoning and structured content as they are stored."""
        say(db, "s", "x")
        [before] = db.measure_sessions(["s"]).values()
        db.append_message("s", "assistant", None, reasoning="r" * 100, tool_calls=[{"name": "t"}])
        [after] = db.measure_sessions(["s"]).values()
        assert after - before >= 100 + len('[{"name":"t"}]')

    def test_more_sessions_than_a_statement_takes(self, db: SessionDB) -> None:
        """Any number can be measured."""
        say(db, "s", "x")
        names = [f"no {number}" for number in range(1_200)]
        measured = db.measure_sessions([*names, "s"])
        assert len(measured) == 1_201
        assert sum(measured.values()) == len("xuser")

    def test_what_takes_up_space(self, db: SessionDB) -> None:
        """By source and role, largest first; subagents, the archive and the trash apart."""
        say(db, "a", "x" * 1_000, "y" * 300)
        say(db, "b", "x" * 3_000, source="telegram")
        say(db, "sub", "x" * 50, parent_session_id="a", edge_kind="subagent")
        say(db, "old", "x" * 20)
        db.set_session_archived("old")
        say(db, "gone", "x" * 7_000, source="signal")
        db.trash_sessions(["gone"])
        # What is said is indexed beside, and a store grows by that.
        before = db.get_stats()["size_bytes"]
        sizes = db.get_sizes()
        after = db.get_stats()["size_bytes"]
        user, assistant = len("user"), len("assistant")
        assert sizes["sources"] == {
            "telegram": 3_000 + user,
            "cli": 1_000 + 300 + 50 + 20 + 3 * user + assistant,
        }
        assert sizes["roles"] == {"user": 4_070 + 4 * user, "assistant": 300 + assistant}
        assert sizes["subagent_bytes"] == 50 + user
        assert sizes["archived_bytes"] == 20 + user
        assert sizes["trashed_bytes"] == 7_000 + user
        assert sizes["text_bytes"] == sum(sizes["sources"].values()) + 7_000 + user
        assert before <= sizes["size_bytes"] <= after

    def test_an_empty_store(self, db: SessionDB) -> None:
        """Has no texts, and still a size."""
        sizes = db.get_sizes()
        assert (sizes["text_bytes"], sizes["sources"], sizes["roles"]) == (0, {}, {})

    def test_space(self, db: SessionDB) -> None:
        """By class and source, and by table and index as far as the database tells."""
        say(db, "a", "x" * 1_000)
        say(db, "job", "x" * 100, source="cron")
        say(db, "call", "x" * 10, source="api_server")
        say(db, "sub", "x" * 50, parent_session_id="job", edge_kind="subagent")
        space = db.get_space()
        user = len("user")
        assert space["classes"] == {
            "human": {"sessions": 1, "messages": 1, "text_bytes": 1_000 + user},
            "cron": {"sessions": 1, "messages": 1, "text_bytes": 100 + user},
            "subagent": {"sessions": 1, "messages": 1, "text_bytes": 50 + user},
            "api": {"sessions": 1, "messages": 1, "text_bytes": 10 + user},
        }
        assert space["sources"]["cron"]["sessions"] == 1
        assert space["size_bytes"] > 0
        if space["tables"]:
            assert space["tables"]["messages"] > 0
            assert list(space["tables"].values()) == sorted(space["tables"].values(), reverse=True)
            assert sum(space["indexes"].values()) > 0


# Meta: small named values.


class TestMeta:
    """A key has one value, and it is text."""

    def test_upsert(self, db: SessionDB) -> None:
        """Behaviour 79: the newest value wins; a missing key is None."""
        assert db.get_meta("k") is None
        db.set_meta("k", "1")
        assert db.get_meta("k") == "1"
        db.set_meta("k", "2")
        assert db.get_meta("k") == "2"

    def test_values_are_text(self, db: SessionDB) -> None:
        """Behaviour 79: a number reads back as text, None as None, "" as ""."""
        db.set_meta("k", 5)
        assert db.get_meta("k") == "5"
        db.set_meta("k", 2.5)
        assert db.get_meta("k") == "2.5"
        db.set_meta("k", "")
        assert db.get_meta("k") == ""
        db.set_meta("k", None)
        assert db.get_meta("k") is None

    def test_keys_are_compared_exactly(self, db: SessionDB) -> None:
        """Case, accents and blanks tell keys apart."""
        keys = ["k", "K", "k ", "ḱ", "k\u0301", "%", "_"]
        for key in keys:
            db.set_meta(key, f"value of {key!r}")
        assert [db.get_meta(key) for key in keys] == [f"value of {key!r}" for key in keys]

    def test_long_values(self, db: SessionDB) -> None:
        """A value may be a document."""
        value = "líne\n" * 50_000
        db.set_meta("k", value)
        assert db.get_meta("k") == value


def old_and_ended(db: SessionDB, clock: FrozenClock, name: str) -> None:
    """Create a session that is due for pruning."""
    db.create_session(name, "cli")
    exchange(db, name, "hi")
    db.end_session(name, "done")
    clock.advance(days=100)


class TestMaintenance:
    """Housekeeping runs now and then, and never gets in the way."""

    def test_at_most_once_per_interval(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 77: the second run is skipped until the time has come."""
        old_and_ended(db, clock, "a")
        assert db.maybe_auto_prune_and_vacuum() == {
            "skipped": False,
            "pruned": 1,
            "vacuumed": True,
        }
        old_and_ended(db, clock, "b")
        clock.advance(days=-100 + 0.9)
        again = db.maybe_auto_prune_and_vacuum()
        assert (again["skipped"], again["pruned"], again["vacuumed"]) == (True, 0, False)
        clock.advance(days=100)
        assert db.maybe_auto_prune_and_vacuum()["pruned"] == 1

    def test_nothing_to_do(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 77: without pruning nothing is rewritten, but the run is recorded."""
        db.create_session("s", "cli")
        assert db.maybe_auto_prune_and_vacuum() == {
            "skipped": False,
            "pruned": 0,
            "vacuumed": False,
        }
        assert db.maybe_auto_prune_and_vacuum()["skipped"] is True
        clock.advance(3601)
        assert db.maybe_auto_prune_and_vacuum(min_interval_hours=1)["skipped"] is False

    def test_what_has_been_in_the_trash_for_long(self, db: SessionDB, clock: FrozenClock) -> None:
        """Thirty days unless set; what is younger can still be restored."""
        for name in ("old", "young"):
            db.create_session(name, "cli")
            exchange(db, name, "hi")
        db.trash_sessions(["old"])
        clock.advance(days=20)
        db.trash_sessions(["young"])
        assert "purged" not in db.maybe_auto_prune_and_vacuum()
        clock.advance(days=11)
        result = db.maybe_auto_prune_and_vacuum()
        assert (result["purged"], result["pruned"], result["vacuumed"]) == (1, 0, True)
        assert ids(db.list_trash()) == ["young"]
        clock.advance(days=2)
        assert "purged" not in db.maybe_auto_prune_and_vacuum(trash_days=14)
        assert db.restore_sessions(["young"]) == ["young"]
        db.trash_sessions(["young"])
        clock.advance(days=2)
        assert db.maybe_auto_prune_and_vacuum(trash_days=0)["purged"] == 1

    @pytest.mark.parametrize("remembered", ["garbage", "", None, "nan"])
    def test_an_unreadable_memory_of_the_last_run(
        self, db: SessionDB, remembered: str | None
    ) -> None:
        """Behaviour 77: an unreadable record counts as no earlier run."""
        db.set_meta("last_auto_prune", remembered)
        assert db.maybe_auto_prune_and_vacuum()["skipped"] is False
        assert db.maybe_auto_prune_and_vacuum()["skipped"] is True

    def test_without_giving_back_space(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 77: with a different age limit."""
        old_and_ended(db, clock, "s")
        result = db.maybe_auto_prune_and_vacuum(retention_days=200, vacuum=False)
        assert (result["pruned"], result["vacuumed"]) == (0, False)
        clock.advance(days=2)
        result = db.maybe_auto_prune_and_vacuum(retention_days=50, vacuum=False)
        assert (result["pruned"], result["vacuumed"]) == (1, False)

    def test_a_closed_store(self, db: SessionDB) -> None:
        """Behaviour 77: an error is reported, not raised."""
        db.close()
        result = db.maybe_auto_prune_and_vacuum()
        assert result["error"]
        assert (result["pruned"], result["vacuumed"]) == (0, False)

    def test_giving_back_space_loses_nothing(self, db: SessionDB) -> None:
        """Data stays, and the store remains usable."""
        db.create_session("s", "cli")
        db.append_messages("s", [{"role": "user", "content": "x" * 1_000}] * 200)
        db.create_session("t", "cli")
        exchange(db, "t", "question", "answer")
        db.delete_session("s")
        db.vacuum()
        assert contents(db.get_messages("t")) == ["question", "answer"]
        exchange(db, "t", "more")
        assert db.message_count("t") == 4
