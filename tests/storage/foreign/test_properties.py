"""Whatever other programs write into documented columns, the store shows what one made from scratch
with the same rows does.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes_sessions import SessionDB
from hermes_sessions.model.lineage import documented_edge_kind
from hermes_sessions_testing.clock import NOON, FrozenClock
from tests.storage.foreign.conftest import Opening
from tests.storage.foreign.programs import Program, Refused
from tests.storage.foreign.rebuilt_store import everything_shown, rebuilt

NAMES = ("a", "b", "c", "d")
Step = tuple[Any, ...]

names = st.sampled_from(NAMES)
times = st.integers(0, 9).map(lambda number: NOON - 4 * 86_400 + number * 40_000)
ends = st.sampled_from([None, "compression", "compression", "branched", "done"])
contents = st.sampled_from([None, "a word", "another  word\n here", "x" * 70 + " word", ""])
roles = st.sampled_from(["user", "user", "assistant"])
numbers = st.integers(0, 5)
steps = st.one_of(
    st.tuples(st.just("new session"), names, times, st.none() | names, times, ends),
    st.tuples(st.just("new message"), names, roles, contents, times),
    st.tuples(st.just("start"), names, times),
    st.tuples(st.just("end"), names, times, ends),
    st.tuples(st.just("parent"), names, st.none() | names),
    st.tuples(st.just("time"), numbers, times),
    st.tuples(st.just("content"), numbers, contents),
    st.tuples(st.just("role"), numbers, roles),
    st.tuples(st.just("move"), numbers, names),
    st.tuples(st.just("delete message"), numbers),
    st.tuples(st.just("delete messages"), names),
    st.tuples(st.just("delete session"), names),
    st.tuples(st.just("our message"), names, times),
    st.tuples(st.just("look")),
)


class Writer:
    """Does the steps, and remembers why each session has its parent."""

    def __init__(self, program: Program, db: SessionDB) -> None:
        self._program = program
        self._db = db
        self.kinds: dict[str, str | None] = {}
        for number, name in enumerate(NAMES[:3]):
            db.create_session(name, "cli", started_at=NOON - 3 * 86_400 + number)
            db.append_message(name, "user", f"word {number}", timestamp=NOON - 2 * 86_400)
            db.append_message(name, "assistant", "an answer", timestamp=NOON - 86_400 + number)
            self.kinds[name] = None

    def do(self, step: Step) -> None:
        with suppress(Refused):  # By a key: nothing was written.
            getattr(self, "_" + step[0].replace(" ", "_"))(*step[1:])

    def look(self) -> None:
        """Have the store settle, and follow it."""
        self._db.list_sessions_rich()
        for session_id, row in self._sessions().items():
            if row["parent"] is None:
                self.kinds[session_id] = None
            elif self.kinds[session_id] is None:
                self.kinds[session_id] = self._kind(session_id)

    def _sessions(self) -> dict[str, dict[str, Any]]:
        columns = ("source", "started_at", "parent", "ended_at", "end_reason")
        rows = self._program.run(
            "SELECT id, source, started_at, parent_session_id, ended_at, end_reason FROM sessions"
        )
        return {row[0]: dict(zip(columns, row[1:], strict=True)) for row in rows}

    def _kind(self, session_id: str) -> str | None:
        rows = self._sessions()
        child = rows[session_id]
        parent = rows.get(child["parent"])
        if parent is None:
            return None
        return documented_edge_kind(
            config=None,
            source=child["source"],
            started_at=child["started_at"],
            parent_end_reason=parent["end_reason"],
            parent_ended_at=parent["ended_at"],
            schema_version=11,
        )

    def _message(self, number: int) -> int:
        ids = [row[0] for row in self._program.run("SELECT id FROM messages ORDER BY id")]
        return int(ids[number % len(ids)]) if ids else 0

    def _new_session(
        self, name: str, start: float, parent: str | None, end: float, reason: str | None
    ) -> None:
        self._program.run(
            "INSERT INTO sessions (id, source, started_at, parent_session_id, ended_at, "
            "end_reason) VALUES (?, ?, ?, ?, ?, ?)",
            *(name, "cli", start, parent, end if reason else None, reason),
        )
        self.kinds[name] = self._kind(name)

    def _new_message(self, name: str, role: str, content: str | None, time: float) -> None:
        self._program.run(
            "INSERT INTO messages (session_id, role, content, timestamp) VALUES (?, ?, ?, ?)",
            *(name, role, content, time),
        )

    def _start(self, name: str, time: float) -> None:
        self._program.run("UPDATE sessions SET started_at = ? WHERE id = ?", time, name)

    def _end(self, name: str, time: float, reason: str | None) -> None:
        self._program.run(
            "UPDATE sessions SET ended_at = ?, end_reason = ? WHERE id = ?",
            *(time if reason else None, reason, name),
        )

    def _parent(self, name: str, parent: str | None) -> None:
        before = self._sessions().get(name)
        self._program.run("UPDATE sessions SET parent_session_id = ? WHERE id = ?", parent, name)
        if before is not None and before["parent"] != parent:
            self.kinds[name] = self._kind(name)

    def _time(self, number: int, time: float) -> None:
        self._program.run(
            "UPDATE messages SET timestamp = ? WHERE id = ?", time, self._message(number)
        )

    def _content(self, number: int, content: str | None) -> None:
        self._program.run(
            "UPDATE messages SET content = ? WHERE id = ?", content, self._message(number)
        )

    def _role(self, number: int, role: str) -> None:
        self._program.run("UPDATE messages SET role = ? WHERE id = ?", role, self._message(number))

    def _move(self, number: int, name: str) -> None:
        self._program.run(
            "UPDATE messages SET session_id = ? WHERE id = ?", name, self._message(number)
        )

    def _delete_message(self, number: int) -> None:
        self._program.run("DELETE FROM messages WHERE id = ?", self._message(number))

    def _delete_messages(self, name: str) -> None:
        self._program.run("DELETE FROM messages WHERE session_id = ?", name)

    def _delete_session(self, name: str) -> None:
        # No library has foreign keys on by itself: messages of a session that is gone may stay.
        self._program.run("DELETE FROM messages WHERE session_id = ?", name)
        self._program.run("DELETE FROM sessions WHERE id = ?", name)

    def _our_message(self, name: str, time: float) -> None:
        if self._db.get_session(name) is not None:
            self._db.append_message(name, role="user", content="our word", timestamp=time)

    def _look(self) -> None:
        self.look()


@given(st.lists(steps, min_size=1, max_size=12))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.slow
def test_the_store_shows_what_is_in_documented_columns(opening: Opening, done: list[Step]) -> None:
    clock = FrozenClock()
    with opening() as shared, shared.open(clock=clock) as db:
        program = shared.program
        writer = Writer(program, db)
        for step in done:
            writer.do(step)
        writer.look()
        shown = everything_shown(db, NAMES)
        with rebuilt(program, writer.kinds, clock) as expected:
            assert shown == everything_shown(expected, NAMES)
            assert db.prune_sessions(older_than_days=1) == expected.prune_sessions(
                older_than_days=1
            )
            assert everything_shown(db, NAMES) == everything_shown(expected, NAMES)
