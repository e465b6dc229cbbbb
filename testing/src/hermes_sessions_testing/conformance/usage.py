"""Usage: tokens and cost of a session, and of each model it used."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from hermes_sessions.errors import InvalidInput
from hermes_sessions.model.scope import Scope
from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions_testing.clock import FrozenClock
from hermes_sessions_testing.conformance.helpers import say, session

# Insights: how the store was used, counted by the database.


_DAY = 86400


_TERMINAL = {"id": "c1", "function": {"name": "terminal", "arguments": "{}"}}


def report(db: SessionDB, days: float = 30, **options: Any) -> dict[str, Any]:
    """Return the insights, with hours and days of UTC."""
    return {**db.get_insights(days, **({"zone": UTC} | options))}


class TestInsights:
    """The numbers match the sessions; unknown values are None, not 0."""

    def test_nothing_is_there(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 103: an empty report has every part."""
        found = report(db)
        assert found["empty"] is True
        assert (found["days"], found["source"], found["generated_at"]) == (30, None, clock())
        overview = found["overview"]
        assert (overview["sessions"], overview["messages"], overview["total_tokens"]) == (0, 0, 0)
        assert overview["cost_usd"] is None
        assert found["models"] == found["tools"] == found["platforms"] == []
        assert found["activity"] == {
            "by_hour": [0] * 24,
            "by_weekday": [0] * 7,
            "busiest_hour": None,
            "busiest_weekday": None,
            "active_days": 0,
            "longest_streak": 0,
        }
        assert found["over_time"] == []
        assert all(rows == [] for rows in found["top_sessions"].values())

    def test_the_overview(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 103: sums of the sessions, messages by role, and averages."""
        start = clock()
        say(db, "a", "one", "two", "three")
        clock.advance(3600)
        say(db, "b", "four", source="telegram")
        db.append_message("b", "assistant", None, tool_calls=[_TERMINAL, _TERMINAL])
        db.append_message("b", "tool", "done", tool_name="terminal")
        clock.advance(7200)
        db.append_message("b", "assistant", "bye")
        db.update_token_counts("a", input_tokens=10, output_tokens=5, cache_read_tokens=3)
        db.update_token_counts("b", input_tokens=1, reasoning_tokens=2, api_call_count=4)
        found = report(db)
        overview = found["overview"]
        assert found["empty"] is False
        assert (overview["sessions"], overview["messages"], overview["tool_calls"]) == (2, 7, 2)
        kinds = ("user_messages", "assistant_messages", "tool_messages")
        assert [overview[kind] for kind in kinds] == [3, 3, 1]
        assert (overview["input_tokens"], overview["output_tokens"]) == (11, 5)
        assert (overview["cache_read_tokens"], overview["reasoning_tokens"]) == (3, 2)
        # Reasoning is part of the output.
        assert (overview["total_tokens"], overview["api_call_count"]) == (19, 4)
        assert overview["hours"] == pytest.approx(2.0)
        assert overview["average_duration_seconds"] == pytest.approx(3600.0)
        assert (overview["messages_per_session"], overview["tokens_per_session"]) == (3.5, 9.5)
        assert (overview["first"], overview["last"]) == (start, clock())

    def test_the_window(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 103: sessions that started within the days; 0 days means all."""
        say(db, "old", "x")
        clock.advance(10 * _DAY)
        say(db, "new", "x", source="telegram")
        assert report(db, 10)["overview"]["sessions"] == 2
        assert report(db, 9.5)["overview"]["sessions"] == 1
        assert report(db, 0)["overview"]["sessions"] == 2
        assert report(db, 0, source="cli")["overview"]["sessions"] == 1
        assert report(db, 5, source="cli")["empty"] is True
        not_a_number: Any = "many"
        for days in (-1, float("nan"), not_a_number):
            with pytest.raises(InvalidInput):
                report(db, days)

    def test_who_is_asking(self, db: SessionDB) -> None:
        """Behaviour 103: what is outside the scope or in the trash is not counted anywhere."""
        for name, user in (("a", "anna"), ("b", "bert"), ("c", "anna")):
            say(db, name, "x", user_id=user, model=f"m-{name}")
            db.append_message(name, "assistant", None, tool_calls=[_TERMINAL])
            db.update_token_counts(name, input_tokens=1, estimated_cost_usd=1.0)
        db.trash_sessions(["c"])
        found = report(db, scope=Scope(user_id="anna"))
        assert (found["overview"]["sessions"], found["overview"]["cost_usd"]) == (1, 1.0)
        assert [row["model"] for row in found["models"]] == ["m-a"]
        assert found["tools"] == [{"tool": "terminal", "calls": 1, "percent": 100.0}]
        assert sum(found["activity"]["by_hour"]) == 2
        assert [row["id"] for row in found["top_sessions"]["most_messages"]] == ["a"]
        assert report(db, scope=Scope(conversation_ids=()))["empty"] is True

    def test_models(self, db: SessionDB) -> None:
        """Behaviour 103: each call counts for its model, without the provider prefix."""
        db.create_session("s", "cli")
        db.update_token_counts("s", input_tokens=5, model="maker/A", billing_provider="p1")
        db.update_token_counts("s", input_tokens=5, model="A", billing_provider="p2")
        db.update_token_counts("s", input_tokens=20, model="B", api_call_count=1)
        db.record_auxiliary_usage("s", "title", model="C", input_tokens=1)
        db.create_session("total", "cli", model="A")
        db.update_token_counts("total", input_tokens=7, absolute=True)
        db.create_session("quiet", "cli")
        rows = report(db)["models"]
        assert [(row["model"], row["input_tokens"], row["sessions"]) for row in rows] == [
            ("B", 20, 1),
            ("A", 17, 2),
            ("C", 1, 0),
            ("unknown", 0, 1),
        ]
        assert report(db)["overview"]["input_tokens"] == 38

    def test_costs(self, db: SessionDB) -> None:
        """Behaviour 103: actual before estimated; unknown is None, and makes a sum incomplete."""
        for name in ("actual", "estimated", "free", "unknown", "included", "set", "idle"):
            db.create_session(name, name, model=name)
        db.update_token_counts(
            "actual", input_tokens=1, estimated_cost_usd=9.0, actual_cost_usd=0.5
        )
        db.update_token_counts("estimated", input_tokens=1, estimated_cost_usd=0.25)
        db.update_token_counts("free", input_tokens=1, estimated_cost_usd=0.0)
        db.update_token_counts("unknown", input_tokens=1)
        db.update_token_counts("included", input_tokens=1, cost_status="included")
        db.update_token_counts("set", input_tokens=1, absolute=True)
        found = report(db)
        expected = {
            "actual": (0.5, True),
            "estimated": (0.25, True),
            "free": (0.0, True),
            "unknown": (None, False),
            "included": (0.0, True),
            "set": (None, False),
            "idle": (None, True),
        }
        for part, name in (("platforms", "source"), ("models", "model")):
            rows = {row[name]: (row["cost_usd"], row["cost_complete"]) for row in found[part]}
            assert rows == expected
        overview = found["overview"]
        assert (overview["cost_usd"], overview["cost_complete"]) == (0.75, False)

    def test_tools(self, db: SessionDB) -> None:
        """Behaviour 103: calls or answers, whichever is more; rewound ones are not counted."""
        say(db, "s", "x")
        calls = [{"id": "1", "function": {"name": "read"}}, {"name": "write"}, "odd", {}]
        db.append_message("s", "assistant", None, tool_calls=[*calls, _TERMINAL])
        db.append_message("s", "tool", "…", tool_name="terminal")
        db.append_message("s", "tool", "…", tool_name="terminal")
        last = db.append_message("s", "user", "again")
        db.append_message("s", "assistant", None, tool_calls=[_TERMINAL] * 5)
        db.rewind_to_message("s", last)
        assert report(db)["tools"] == [
            {"tool": "terminal", "calls": 2, "percent": 50.0},
            {"tool": "read", "calls": 1, "percent": 25.0},
            {"tool": "write", "calls": 1, "percent": 25.0},
        ]

    def test_activity(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 103: by the time of the messages, in the time zone that is asked for."""
        monday = datetime(2025, 3, 3, tzinfo=UTC).timestamp()
        clock.set(monday + 7 * _DAY)
        db.create_session("s", "cli", started_at=monday)
        for hours in (0, 23.75, 23.99, 24, 50, 150):
            db.append_message("s", "user", "x", timestamp=monday + hours * 3600)
        activity = report(db, 0)["activity"]
        assert activity["by_weekday"] == [3, 1, 1, 0, 0, 0, 1]
        assert [(h, n) for h, n in enumerate(activity["by_hour"]) if n] == [
            (0, 2),
            (2, 1),
            (6, 1),
            (23, 2),
        ]
        assert (activity["busiest_weekday"], activity["busiest_hour"]) == (0, 0)
        assert (activity["active_days"], activity["longest_streak"]) == (4, 3)
        nepal = timezone(timedelta(hours=5, minutes=45))
        shifted = report(db, 0, zone=nepal)["activity"]
        assert [(h, n) for h, n in enumerate(shifted["by_hour"]) if n] == [
            (5, 4),
            (7, 1),
            (11, 1),
        ]

    def test_over_time(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 103: tokens and cost by the day a session started, messages by their own."""
        start = clock()
        days = [datetime.fromtimestamp(start + n * _DAY, UTC).date().isoformat() for n in range(3)]
        say(db, "a", "x", "y")
        db.update_token_counts("a", input_tokens=3, estimated_cost_usd=0.5)
        clock.advance(2 * _DAY)
        say(db, "b", "x")
        db.update_token_counts("b", input_tokens=4)
        db.append_message("a", "user", "later")
        assert report(db)["over_time"] == [
            {
                "date": days[0],
                "sessions": 1,
                "messages": 2,
                "total_tokens": 3,
                "cost_usd": 0.5,
                "cost_complete": True,
            },
            {
                "date": days[2],
                "sessions": 1,
                "messages": 2,
                "total_tokens": 4,
                "cost_usd": None,
                "cost_complete": False,
            },
        ]

    def test_top_sessions(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 103: five of each kind, and none that has nothing of it."""
        for number in range(7):
            say(db, f"s{number}", *["x"] * number, title=f"T{number}")
        db.append_message("s3", "assistant", None, tool_calls=[_TERMINAL])
        clock.advance(60)
        db.append_message("s1", "user", "late")
        db.update_token_counts("s2", output_tokens=8)
        top = report(db)["top_sessions"]
        assert list(top) == ["longest", "most_messages", "most_tokens", "most_tool_calls"]
        assert top["longest"] == [{"id": "s1", "title": "T1", "source": "cli", "value": 60.0}]
        messages = [(row["id"], row["value"]) for row in top["most_messages"]]
        assert messages == [("s6", 6), ("s5", 5), ("s3", 4), ("s4", 4), ("s1", 2)]
        assert [(row["id"], row["value"]) for row in top["most_tokens"]] == [("s2", 8)]
        assert [(row["id"], row["value"]) for row in top["most_tool_calls"]] == [("s3", 1)]


TOKENS = (
    "input_tokens output_tokens cache_read_tokens cache_write_tokens reasoning_tokens "
    "api_call_count"
).split()


def tokens_of(row: Mapping[str, Any]) -> list[int]:
    """Return the six counters in the order of `TOKENS`."""
    return [row[name] for name in TOKENS]


class TestUsage:
    """Counters add up, and known values are kept."""

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
        """Behaviour 99: on request, it does not create a deleted session again."""
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
        rows = [dict[str, Any](row) for row in db.get_model_usage("s")]
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
