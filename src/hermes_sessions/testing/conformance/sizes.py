"""Sizes: how much of the store is whose."""

from __future__ import annotations

from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions.testing.conformance.helpers import say


class TestSizes:
    """Bytes of stored text, counted where they lie."""

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
