"""Summaries: counters, preview and last activity always say what the messages say."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from hermes_sessions.errors import InvalidInput
from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions.testing.clock import FrozenClock
from hermes_sessions.testing.conformance.helpers import contents
from hermes_sessions.testing.conformance.recomputation import assert_summary_is_true

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
    """Lists read summary columns alone; those must never drift from the truth."""

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
        """What is counted is what reads back, before and after a rewind."""
        db.create_session("s", "cli")
        db.append_message("s", "assistant", "x", tool_calls=tool_calls)
        assert_summary_is_true(db, "s")
        target = db.append_message("s", "user", "y")
        db.rewind_to_message("s", target)
        assert_summary_is_true(db, "s")
