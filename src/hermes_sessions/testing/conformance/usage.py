"""Usage: tokens and cost of a session, and of each model it used."""

from __future__ import annotations

from typing import Any

import pytest

from hermes_sessions.errors import InvalidInput
from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions.testing.clock import FrozenClock
from hermes_sessions.testing.conformance.helpers import session

TOKENS = (
    "input_tokens output_tokens cache_read_tokens cache_write_tokens reasoning_tokens "
    "api_call_count"
).split()


def tokens_of(row: dict[str, Any]) -> list[int]:
    """Return the six counters in the order of `TOKENS`."""
    return [row[name] for name in TOKENS]


class TestUsage:
    """Counters add up, and nothing that is known is forgotten."""

    def test_increments_add_up(self, db: SessionDB) -> None:
        """Behaviour 54: counters and costs add; routes keep the first value, labels the newest."""
        db.create_session("s", "cli")
        db.update_token_counts(
            "s",
            input_tokens=1,
            output_tokens=2,
            model="first",
            cache_read_tokens=3,
            cache_write_tokens=4,
            reasoning_tokens=5,
            estimated_cost_usd=0.25,
            actual_cost_usd=0.5,
            cost_status="estimated",
            cost_source="list",
            pricing_version="v1",
            billing_provider="p1",
            billing_base_url="u1",
            billing_mode="m1",
            api_call_count=6,
        )
        db.update_token_counts(
            "s",
            input_tokens=10,
            output_tokens=20,
            model="second",
            cache_read_tokens=30,
            cache_write_tokens=40,
            reasoning_tokens=50,
            estimated_cost_usd=1.0,
            actual_cost_usd=2.0,
            cost_status=None,
            pricing_version="v2",
            billing_provider="p2",
            billing_base_url="u2",
            billing_mode="m2",
            api_call_count=60,
        )
        stored = session(db, "s")
        assert tokens_of(stored) == [11, 22, 33, 44, 55, 66]
        assert (stored["estimated_cost_usd"], stored["actual_cost_usd"]) == (1.25, 2.5)
        assert (stored["model"], stored["billing_provider"]) == ("first", "p1")
        assert (stored["billing_base_url"], stored["billing_mode"]) == ("u1", "m1")
        assert (stored["cost_status"], stored["cost_source"]) == ("estimated", "list")
        assert stored["pricing_version"] == "v2"

    def test_costs_that_are_not_stated(self, db: SessionDB) -> None:
        """Behaviour 54: an estimate starts at 0.0 with the first call, an actual cost does not."""
        db.create_session("s", "cli")
        db.update_token_counts("s", input_tokens=1)
        stored = session(db, "s")
        assert (stored["estimated_cost_usd"], stored["actual_cost_usd"]) == (0.0, None)
        db.update_token_counts("s", estimated_cost_usd=0.5, actual_cost_usd=0.25)
        db.update_token_counts("s")
        stored = session(db, "s")
        assert (stored["estimated_cost_usd"], stored["actual_cost_usd"]) == (0.5, 0.25)

    def test_absolute_totals_overwrite(self, db: SessionDB) -> None:
        """Behaviour 55: what is left out becomes 0; only the actual cost stays."""
        db.create_session("s", "cli", model="first")
        db.update_token_counts(
            "s",
            input_tokens=1,
            output_tokens=2,
            cache_read_tokens=3,
            cache_write_tokens=4,
            reasoning_tokens=5,
            api_call_count=6,
            estimated_cost_usd=0.25,
            actual_cost_usd=0.5,
            cost_status="estimated",
        )
        db.update_token_counts("s", input_tokens=7, model="second", absolute=True)
        stored = session(db, "s")
        assert tokens_of(stored) == [7, 0, 0, 0, 0, 0]
        assert (stored["estimated_cost_usd"], stored["actual_cost_usd"]) == (0.0, 0.5)
        assert (stored["model"], stored["cost_status"]) == ("first", "estimated")
        db.update_token_counts("s", absolute=True, estimated_cost_usd=3.0, actual_cost_usd=4.0)
        stored = session(db, "s")
        assert (stored["estimated_cost_usd"], stored["actual_cost_usd"]) == (3.0, 4.0)

    def test_an_unknown_session_is_created(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 56: with source "unknown" and the model that was used."""
        db.update_token_counts("s", input_tokens=5, model="m")
        stored = session(db, "s")
        assert (stored["source"], stored["model"], stored["started_at"]) == (
            "unknown",
            "m",
            clock(),
        )
        assert stored["input_tokens"] == 5
        assert [row["id"] for row in db.list_sessions_rich()] == ["s"]

    def test_usage_per_model(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 99: each model and each side task has its own row; the session sums the
        main ones.
        """
        db.create_session("s", "cli")
        db.update_token_counts("s", input_tokens=1, model="A", api_call_count=1)
        clock.advance(1)
        db.update_token_counts("s", input_tokens=10, model="B", estimated_cost_usd=0.5)
        clock.advance(1)
        db.update_token_counts("s", input_tokens=100, model="A", api_call_count=1)
        clock.advance(1)
        db.record_auxiliary_usage("s", "title", model="A", input_tokens=1_000, output_tokens=7)
        db.record_auxiliary_usage("s", "title", model="A", input_tokens=1_000)
        rows = db.get_model_usage("s")
        assert [(row["model"], row["task"] or None, row["input_tokens"]) for row in rows] == [
            ("A", None, 101),
            ("B", None, 10),
            ("A", "title", 2_000),
        ]
        assert [row["api_call_count"] for row in rows] == [2, 0, 2]
        assert rows[1]["estimated_cost_usd"] == 0.5
        assert rows[2]["output_tokens"] == 7
        assert (rows[0]["first_at"], rows[0]["last_at"]) == (clock() - 3, clock() - 1)
        stored = session(db, "s")
        assert (stored["model"], stored["input_tokens"]) == ("A", 111)
        assert stored["api_call_count"] == 2

    def test_a_side_call_for_a_session_that_is_not_there(self, db: SessionDB) -> None:
        """Behaviour 99: asked not to, it does not bring back what somebody deleted."""
        db.record_auxiliary_usage("gone", "title", model="A", input_tokens=1, create=False)
        assert db.get_session("gone") is None
        assert db.get_model_usage("gone") == []
        for create in (True, False):
            db.record_auxiliary_usage("s", "title", model="A", input_tokens=1, create=create)
        [row] = db.get_model_usage("s")
        assert row["input_tokens"] == 2

    def test_routes_are_told_apart(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 99: the same model over another provider, address or plan is another row."""
        db.create_session("s", "cli")
        routes: list[dict[str, Any]] = [
            {},
            {"billing_provider": "p"},
            {"billing_base_url": "p"},
            {"billing_mode": "p"},
        ]
        for route in routes:
            clock.advance(1)
            db.update_token_counts("s", input_tokens=1, model="A", **route)
        rows = db.get_model_usage("s")
        names = ("billing_provider", "billing_base_url", "billing_mode")
        found = [{name: row[name] for name in names if row[name]} for row in rows]
        assert found == routes

    def test_usage_without_a_model_is_the_sessions(self, db: SessionDB) -> None:
        """Behaviour 99: a call that does not name its model used the session's."""
        db.create_session("s", "cli", model="A")
        db.update_token_counts("s", input_tokens=3)
        assert [(row["model"], row["input_tokens"]) for row in db.get_model_usage("s")] == [
            ("A", 3)
        ]

    def test_absolute_totals_are_of_no_model(self, db: SessionDB) -> None:
        """Behaviour 99: only increments say which model they belong to."""
        db.create_session("s", "cli")
        db.update_token_counts("s", input_tokens=7, model="A", absolute=True)
        assert db.get_model_usage("s") == []
        assert db.get_model_usage("missing") == []

    def test_large_totals(self, db: SessionDB) -> None:
        """Counters go beyond 32 bits."""
        db.create_session("s", "cli")
        for _ in range(2):
            db.update_token_counts("s", input_tokens=2**40)
        assert session(db, "s")["input_tokens"] == 2**41
        assert db.get_model_usage("s")[0]["input_tokens"] == 2**41

    def test_bad_input(self, db: SessionDB) -> None:
        """Counters are numbers with known names; a side call has a task."""
        db.create_session("s", "cli")
        not_a_number: Any = "many"
        with pytest.raises(InvalidInput):
            db.update_token_counts("s", input_tokens=not_a_number)
        with pytest.raises(InvalidInput):
            db.record_auxiliary_usage("s", "")
        with pytest.raises(TypeError):
            db.record_auxiliary_usage("s", "title", chocolate_tokens=3)
        assert db.get_model_usage("s") == []
        assert session(db, "s")["input_tokens"] == 0
