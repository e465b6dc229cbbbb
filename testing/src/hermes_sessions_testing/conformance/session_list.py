"""Session lists: rows, order, pages, filters and counts."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from hermes_sessions.errors import InvalidInput
from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions_testing.clock import FrozenClock
from hermes_sessions_testing.conformance.helpers import (
    assert_summary_is_true,
    branch,
    compress,
    contents,
    exchange,
    ids,
    session,
)

# Summaries: counters, preview and last activity always match the messages.


CALL = {"id": "call_1", "function": {"name": "f", "arguments": "{}"}}


def any_message(chance: random.Random, moment: float) -> dict[str, Any]:
    """Return some message: all roles, kinds of content and tool calls, also from the past."""
    number = chance.randrange(1_000)
    return {
        "role": chance.choice(["user", "user", "assistant", "tool", "system"]),
        "content": chance.choice(
            [None, "", f"text {number}", f"{number} " * 40, [{"type": "text", "text": f"{number}"}]]
        ),
        "tool_calls": chance.choice([None, None, [], [CALL], [CALL, CALL], CALL, {}]),
        "timestamp": chance.choice([None, None, moment - number, moment + number]),
    }


class TestSummaries:
    """Lists read only summary columns, which must always match the messages."""

    @pytest.mark.parametrize("seed", range(8))
    def test_any_sequence_of_changes(self, db: SessionDB, clock: FrozenClock, seed: int) -> None:
        """After each of many random changes, the summary equals what the messages say."""
        chance = random.Random(seed)  # noqa: S311 - a repeatable choice, not a secret
        db.create_session("s", "cli")

        def append() -> None:
            db.append_message("s", **any_message(chance, clock()))

        def append_batch() -> None:
            db.append_messages(
                "s", [any_message(chance, clock()) for _ in range(chance.randrange(5))]
            )

        def append_again() -> None:
            message = any_message(chance, clock()) | {"external_id": str(chance.randrange(3))}
            db.append_messages("s", [message, message])

        def replace() -> None:
            db.replace_messages(
                "s", [any_message(chance, clock()) for _ in range(chance.randrange(4))]
            )

        def rewind() -> None:
            targets = db.list_recent_user_messages("s", limit=5)
            if targets:
                db.rewind_to_message("s", chance.choice(targets)["id"])

        def restore() -> None:
            try:
                db.restore_rewound("s")
            except InvalidInput:
                assert len(contents(db.get_messages("s"))) > 0

        def throw_away_and_back() -> None:
            db.trash_sessions(["s"])
            db.restore_sessions(["s"])

        changes: list[Callable[[], None]] = [append] * 5 + [append_batch] * 3 + [rewind] * 3
        changes += [restore] * 3 + [append_again, append_again, replace, throw_away_and_back]
        changes += [lambda: db.clear_messages("s")]
        for _ in range(60):
            clock.advance(chance.choice([-50, 0, 1, 100]))
            chance.choice(changes)()
            assert_summary_is_true(db, "s")

    def test_messages_from_before_the_start(self, db: SessionDB, clock: FrozenClock) -> None:
        """The last activity is the newest message's, even if the session seems younger."""
        started_at = clock()
        db.create_session("s", "telegram")
        db.append_message("s", "user", "sent earlier", timestamp=started_at - 60)
        assert db.list_sessions_rich()[0]["last_active"] == started_at - 60
        db.append_message("s", "user", "sent even earlier", timestamp=started_at - 120)
        assert db.list_sessions_rich()[0]["last_active"] == started_at - 60
        assert_summary_is_true(db, "s")

    @pytest.mark.parametrize(
        "tool_calls", ["[{}, {}]", "not json", "", "{}", {}, (CALL, CALL)], ids=repr
    )
    def test_tool_calls_of_any_form(self, db: SessionDB, tool_calls: Any) -> None:
        """Counters match the readable messages, before and after a rewind."""
        db.create_session("s", "cli")
        db.append_message("s", "assistant", "x", tool_calls=tool_calls)
        assert_summary_is_true(db, "s")
        target = db.append_message("s", "user", "y")
        db.rewind_to_message("s", target)
        assert_summary_is_true(db, "s")


def some_sessions(db: SessionDB, clock: FrozenClock, count: int, source: str = "cli") -> list[str]:
    """Create sessions a minute apart; return their ids, oldest first."""
    names = [f"{source}-{number:03}" for number in range(count)]
    for name in names:
        clock.advance(minutes=1)
        db.create_session(name, source)
    return names


class TestListing:
    """One row per thread, newest activity first."""

    @pytest.mark.parametrize(
        ("said", "preview"),
        [
            ("hello", "hello"),
            ("first\r\nline " + "x" * 80, "first line " + "x" * 49 + "..."),
            ("  a \n\n b\t\tc  ", "a b c"),
            ("x" * 60, "x" * 60),
            ("x" * 61, "x" * 60 + "..."),
            ("語" * 70, "語" * 60 + "..."),
            ("🎉" * 61, "🎉" * 60 + "..."),
            ("", ""),
            ([{"type": "text", "text": "look\nat"}, {"type": "image_url"}], "look at"),
            ([{"type": "image_url"}], ""),
            (5, "5"),
        ],
        ids=lambda value: repr(value)[:20],
    )
    def test_a_preview(self, db: SessionDB, said: object, preview: str) -> None:
        """Behaviour 44: white space of any kind and length is one blank; 60 characters show."""
        db.create_session("s", "cli")
        db.append_message("s", "user", said)
        assert db.list_sessions_rich()[0]["preview"] == preview

    def test_the_preview_is_the_first_thing_the_user_said(
        self, db: SessionDB, clock: FrozenClock
    ) -> None:
        """Behaviour 44: by arrival, whatever the clock says; others do not count."""
        db.create_session("s", "cli")
        db.append_message("s", "system", "prompt")
        db.append_message("s", "assistant", "welcome")
        db.append_message("s", "user", None)
        db.append_message("s", "user", "first")
        clock.advance(-3600)
        db.append_message("s", "user", "second")
        assert db.list_sessions_rich()[0]["preview"] == "first"

    def test_a_compressed_thread_is_one_row(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 45: the row has the head's identity and the tip's present state."""
        db.create_session("root", "cli", model="m1", system_prompt="p1", user_id="u")
        exchange(db, "root", "old question")
        db.set_session_title("root", "Plan")
        db.update_token_counts("root", input_tokens=5)
        compress(db, clock, "root", "tip", model="m2", system_prompt="p2")
        db.set_session_title("tip", "Plan #2")
        db.update_token_counts("tip", input_tokens=7)
        clock.advance(1)
        db.append_message("tip", "user", "new question")
        (row,) = map(dict[str, Any], db.list_sessions_rich())
        root, tip = session(db, "root"), session(db, "tip")
        from_tip = (
            "id ended_at end_reason message_count tool_call_count title model system_prompt"
        ).split()
        assert {name: row[name] for name in from_tip} == {name: tip[name] for name in from_tip}
        from_root = "started_at source user_id parent_session_id input_tokens".split()
        assert {name: row[name] for name in from_root} == {name: root[name] for name in from_root}
        assert row["parent_session_id"] is None
        assert (row["preview"], row["last_active"]) == ("new question", clock())
        assert row["_lineage_root_id"] == "root"

    def test_a_long_chain_is_one_row(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 45: however often a thread was compressed."""
        db.create_session("0", "cli")
        started_at = clock()
        for number in range(1, 12):
            compress(db, clock, str(number - 1), str(number))
        (row,) = db.list_sessions_rich()
        assert (row["id"], row["started_at"], row["_lineage_root_id"]) == ("11", started_at, "0")
        for by_activity in (True, False):
            assert ids(db.list_sessions_rich(order_by_last_active=by_activity)) == ["11"]

    def test_rows_without_projection(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 46: the head as it is, or every session for itself."""
        db.create_session("root", "cli")
        exchange(db, "root", "old question")
        compress(db, clock, "root", "tip")
        exchange(db, "tip", "new question")
        (row,) = db.list_sessions_rich(project_compression_tips=False)
        assert (row["id"], row["preview"]) == ("root", "old question")
        assert "_lineage_root_id" not in row
        rows = db.list_sessions_rich(include_children=True)
        assert ids(rows) == ["tip", "root"]
        assert [row["preview"] for row in rows] == ["new question", "old question"]
        assert not any("_lineage_root_id" in row for row in rows)

    def test_children_that_are_shown(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 47: a branch is a thread of its own; a subagent hides behind its parent."""
        db.create_session("root", "cli")
        clock.advance(1)
        db.create_session("helper", "cli", parent_session_id="root")
        clock.advance(1)
        db.create_session("early", "cli", parent_session_id="root")
        branch(db, clock, "root", "fork")
        assert ids(db.list_sessions_rich()) == ["fork", "root"]
        assert ids(db.list_sessions_rich(include_children=True)) == [
            "fork",
            "early",
            "helper",
            "root",
        ]

    def test_a_branch_stays_when_its_parent_is_reopened(
        self, db: SessionDB, clock: FrozenClock
    ) -> None:
        """Behaviour 47: why a session has a parent is decided when it is created."""
        db.create_session("root", "cli")
        branch(db, clock, "root", "fork")
        db.reopen_session("root")
        assert ids(db.list_sessions_rich()) == ["fork", "root"]

    def test_a_thread_is_as_fresh_as_its_tip(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 48: activity of a continuation moves the old thread up."""
        db.create_session("root", "cli")
        compress(db, clock, "root", "tip")
        clock.advance(minutes=1)
        db.create_session("newer", "cli")
        assert ids(db.list_sessions_rich()) == ["newer", "tip"]
        clock.advance(minutes=1)
        db.append_message("tip", "user", "fresh")
        assert ids(db.list_sessions_rich()) == ["tip", "newer"]
        assert ids(db.list_sessions_rich(order_by_last_active=False)) == ["newer", "tip"]

    def test_the_default_order_is_activity(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 48: start time on request; ties are broken by start, then id."""
        names = some_sessions(db, clock, 4)
        clock.advance(minutes=1)
        db.append_message(names[1], "user", "hi")
        assert ids(db.list_sessions_rich()) == [names[1], names[3], names[2], names[0]]
        assert ids(db.list_sessions_rich(order_by_last_active=False)) == names[::-1]
        for name in ("tie-1", "tie-3", "tie-2"):
            db.create_session(name, "cli", started_at=1.0)
        assert ids(db.list_sessions_rich())[-3:] == ["tie-3", "tie-2", "tie-1"]

    def test_pages(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 49: pages are cut from what is shown, and cover it once."""
        shown: list[str] = []
        for number in range(12):
            clock.advance(minutes=1)
            db.create_session(f"s{number:02}", "cli")
            db.create_session(f"helper{number:02}", "cli", parent_session_id=f"s{number:02}")
            shown.insert(0, f"s{number:02}")
            if number % 3 == 0:
                shown[0] = compress(db, clock, f"s{number:02}", f"tip{number:02}")
        for by_activity in (True, False):
            pages = [
                ids(db.list_sessions_rich(limit=5, offset=start, order_by_last_active=by_activity))
                for start in (0, 5, 10, 15)
            ]
            assert pages == [shown[:5], shown[5:10], shown[10:], []]
            assert db.list_sessions_rich(limit=0, order_by_last_active=by_activity) == []
            everything = db.list_sessions_rich(limit=-1, order_by_last_active=by_activity)
            assert ids(everything) == shown
        assert len(db.list_sessions_rich(include_children=True)) == 20

    def test_sources(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 49: one source, all but some, or all."""
        for source in ("cli", "telegram", "tool"):
            some_sessions(db, clock, 2, source)
        assert ids(db.list_sessions_rich("telegram")) == ["telegram-001", "telegram-000"]
        assert db.list_sessions_rich("Telegram") == []
        assert len(db.list_sessions_rich(exclude_sources=["tool"])) == 4
        assert len(db.list_sessions_rich(exclude_sources=["tool", "cli"])) == 2
        assert len(db.list_sessions_rich(exclude_sources=[])) == 6
        assert len(db.list_sessions_rich(exclude_sources=["missing"])) == 6

    @pytest.mark.parametrize("by_activity", [True, False])
    def test_a_thread_has_the_source_of_its_head(
        self, db: SessionDB, clock: FrozenClock, by_activity: bool
    ) -> None:
        """Behaviours 45 and 49: filters judge the row that is shown, in every order."""
        db.create_session("root", "cli")
        compress(db, clock, "root", "tip", source="telegram")

        def listed(source: str | None, *excluded: str) -> list[str]:
            return ids(
                db.list_sessions_rich(
                    source, exclude_sources=excluded, order_by_last_active=by_activity
                )
            )

        assert listed("cli") == ["tip"]
        assert listed("telegram") == []
        assert listed(None, "telegram") == ["tip"]
        assert listed(None, "cli") == []

    @pytest.mark.parametrize("by_activity", [True, False])
    def test_a_least_number_of_messages(
        self, db: SessionDB, clock: FrozenClock, by_activity: bool
    ) -> None:
        """Sessions with few messages can be filtered; the filter uses the displayed count."""
        some_sessions(db, clock, 3)
        exchange(db, "cli-001", "hi")
        db.create_session("root", "cli")
        exchange(db, "root", "hi")
        compress(db, clock, "root", "tip")
        rows = db.list_sessions_rich(min_message_count=2, order_by_last_active=by_activity)
        assert ids(rows) == ["cli-001"]
        rows = db.list_sessions_rich(min_message_count=1, order_by_last_active=by_activity)
        assert ids(rows) == ["cli-001"]

    def test_a_session_without_messages(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 50: was last active when it began, and shows nothing."""
        started_at = clock()
        db.create_session("s", "cli")
        clock.advance(5)
        (row,) = db.list_sessions_rich()
        assert (row["last_active"], row["preview"]) == (started_at, "")

    def test_rows_are_session_records(self, db: SessionDB) -> None:
        """Behaviour 50: all columns of `get_session`, and two more."""
        db.create_session("s", "cli", system_prompt="long")
        db.append_message("s", "user", "hi")
        (row,) = map(dict[str, Any], db.list_sessions_rich())
        stored = session(db, "s")
        assert {name: row[name] for name in stored} == stored
        assert row.keys() - stored.keys() <= {"preview", "last_active"}
        (compact,) = db.list_sessions_rich(compact_rows=True)
        assert row.keys() - compact.keys() == {"system_prompt"}

    def test_search_sessions_includes_children(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 51: every session for itself, newest activity first."""
        db.create_session("root", "cli")
        compress(db, clock, "root", "tip")
        clock.advance(1)
        db.create_session("helper", "cli", parent_session_id="tip", edge_kind="subagent")
        clock.advance(1)
        db.create_session("other", "telegram")
        clock.advance(1)
        db.append_message("root", "user", "late")
        rows = db.search_sessions("cli")
        assert {row["id"] for row in rows} == {"root", "tip", "helper"}
        by_id = {row["id"]: row for row in rows}
        assert by_id["root"]["last_active"] == clock()
        assert by_id["helper"]["last_active"] == clock() - 2
        assert by_id["root"].keys() - session(db, "root").keys() == {"last_active"}
        assert [row["last_active"] for row in rows] == sorted(
            (row["last_active"] for row in rows), reverse=True
        )
        assert len(db.search_sessions()) == 4
        assert db.search_sessions(limit=2, offset=1) == db.search_sessions()[1:3]
        assert db.search_sessions(limit=0) == []
        assert db.search_sessions("missing") == []

    def test_counts(self, db: SessionDB, clock: FrozenClock) -> None:
        """Sessions by source, messages by session; falsy means all, unknown means 0."""
        assert (db.session_count(), db.message_count()) == (0, 0)
        some_sessions(db, clock, 2)
        some_sessions(db, clock, 1, "telegram")
        exchange(db, "cli-000", "hi")
        db.append_message("telegram-000", "user", "hi")
        assert db.session_count() == 3
        assert db.session_count("cli") == 2
        assert db.session_count("missing") == 0
        assert db.session_count("") == 3
        assert db.message_count() == 3
        assert db.message_count("cli-000") == 2
        assert db.message_count("missing") == 0
        assert db.message_count("") == 3

    def test_statistics(self, db: SessionDB, clock: FrozenClock) -> None:
        """Totals by source, including archived and trashed sessions."""
        some_sessions(db, clock, 3)
        some_sessions(db, clock, 1, "telegram")
        exchange(db, "cli-000", "hi")
        exchange(db, "cli-001", "hi")
        db.set_session_archived("cli-001")
        db.trash_sessions(["cli-002"])
        stats = db.get_stats()
        assert (stats["sessions"], stats["messages"]) == (3, 4)
        assert (stats["archived"], stats["trashed"]) == (1, 1)
        assert stats["sources"] == {
            "cli": {"sessions": 2, "messages": 4},
            "telegram": {"sessions": 1, "messages": 0},
        }
        assert isinstance(stats["size_bytes"], int)
        assert stats["size_bytes"] > 0

    def test_lists_of_some_time(self, db: SessionDB, clock: FrozenClock) -> None:
        """The last activity of the row that is shown decides, from a moment on and before one."""
        times = {}
        for name in ("a", "b", "c"):
            times[name] = clock.advance(days=1)
            db.create_session(name, "cli")
        compress(db, clock, "a", "a2")
        assert ids(db.list_sessions_rich(since=times["b"], until=times["c"])) == ["b"]
        assert ids(db.list_sessions_rich(since=times["c"])) == ["a2", "c"]
        for by_activity in (True, False):
            rows = db.list_sessions_rich(until=times["c"], order_by_last_active=by_activity)
            assert ids(rows) == ["b"]
