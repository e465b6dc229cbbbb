"""Repeated imports bring a store up to date with another, however that one is used."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from hermes_sessions.storage.sessiondb import SessionDB
from tests.storage.export_samples import ticking

SESSIONS = ("a", "b", "c", "d")
PARENTS = {"b": "a", "c": "b"}
sessions = st.sampled_from(SESSIONS)


class Follower(RuleBasedStateMachine):
    """One store leads, another follows by import; a third has messages of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.leader = SessionDB(":memory:", clock=ticking())
        self.follower = SessionDB(":memory:", clock=ticking(1_800_000_000.0))
        self.crowded = SessionDB(":memory:", clock=ticking(1_900_000_000.0))
        self.crowded.create_session("own", "cli")
        self.crowded.append_messages("own", [{"role": "user", "content": str(n)} for n in range(7)])
        for session in SESSIONS:
            parent = PARENTS.get(session)
            kind = "compression" if parent else None
            self.leader.create_session(session, "cli", parent_session_id=parent, edge_kind=kind)
            self.leader.append_message(session, "user", f"{session} begins")
        self.in_step = False

    def teardown(self) -> None:
        for db in (self.leader, self.follower, self.crowded):
            db.close()

    @rule(session=sessions, count=st.integers(1, 4), role=st.sampled_from(["user", "assistant"]))
    def append(self, session: str, count: int, role: str) -> None:
        now = self.leader.message_count()
        self.leader.append_messages(
            session, [{"role": role, "content": f"{session} {now + n}"} for n in range(count)]
        )
        self.in_step = False

    @rule(session=sessions, back=st.integers(0, 3))
    def rewind(self, session: str, back: int) -> None:
        found = self.leader.list_recent_user_messages(session)
        if len(found) > back:
            self.leader.rewind_to_message(session, found[back]["id"])
            self.in_step = False

    @rule(session=sessions)
    def restore(self, session: str) -> None:
        rewinds = [r for r in self.leader.list_rewinds(session) if r["restored_at"] is None]
        if not rewinds:
            return
        try:
            self.leader.restore_rewound(session)
        except ValueError:
            return  # It has changed since.
        self.in_step = False

    @rule(count=st.integers(1, 3))
    def write_elsewhere(self, count: int) -> None:
        for _ in range(count):
            self.crowded.append_message("own", "user", "between imports")

    @rule(newest_first=st.booleans(), some=st.sets(sessions))
    def bring_up_to_date(self, newest_first: bool, some: set[str]) -> None:
        records = self.leader.export_all()
        records = records if newest_first else records[::-1]
        for db in (self.follower, self.crowded):
            # Part of it first, as an import that was interrupted leaves it.
            db.import_sessions([record for record in records if record["id"] in some])
            report = db.import_sessions(records)
            assert report["ok"]
            assert report["conflicts"] == []
            assert db.import_sessions(records)["skipped"] == len(records)
        self.in_step = True

    @invariant()
    @precondition(lambda self: self.in_step)
    def both_hold_the_same(self) -> None:
        for session in SESSIONS:
            for message, led in zip(
                self.follower.get_messages(session), self.leader.get_messages(session), strict=True
            ):
                assert message["id"] == led["id"]
            for db in (self.follower, self.crowded):
                assert _lived_through(db, session) == _lived_through(self.leader, session)


def _lived_through(db: SessionDB, session: str) -> Any:
    """What does not depend on the ids that messages have."""
    record = db.export_session(session)
    if record is None:
        return None
    for message in record["messages"]:
        message.pop("rewind_id", None)
        del message["id"]
    for rewind in record.get("rewinds", ()):
        del rewind["id"], rewind["target_message_id"]
    return (
        record,
        db.get_messages_as_conversation(session, include_ancestors=True),
        db.get_compression_tip(session),
        {row["id"] for row in db.list_sessions_rich(limit=-1) if row["id"] != "own"},
    )


TestFollower = Follower.TestCase
TestFollower.settings = settings(
    max_examples=max(settings().max_examples // 2, 1), stateful_step_count=15
)
