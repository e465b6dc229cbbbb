"""Random lives of lanes against a small model: messages, commands, time, restarts.

The model says in a few lines what becomes of a lane; the store has to agree after every step, and
its rows have to fit together.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from hermes_sessions import SessionDB
from hermes_sessions.config.gateway_config import GatewayConfig
from hermes_sessions.lifecycle.session_entry import SessionEntry
from hermes_sessions.lifecycle.session_store import SessionStore
from hermes_sessions.model.reset_policy import SessionResetPolicy
from hermes_sessions_testing.clock import FrozenClock
from tests.lifecycle.assertions import require_whole
from tests.lifecycle.senders import DAY, HOUR, MINUTE, ann

IDLE, FRESHNESS = 90 * MINUTE, HOUR
CONFIG = GatewayConfig(
    reset_policy=SessionResetPolicy("both", at_hour=4, idle_minutes=90, timezone="UTC"),
    auto_continue_freshness=FRESHNESS,
)
chats = st.sampled_from(["1", "2", "3"])


@dataclass
class Model:
    """What a lane must be."""

    session_id: str
    used: float
    status: str = "active"
    marked: float = 0.0
    #: Kind and reason of the notice that the user has not seen yet.
    notice: tuple[str, str | None] | None = ("new", "new")
    is_there: bool = True
    said: int = 0
    former: list[str] = field(default_factory=list)


class Lives(RuleBasedStateMachine):
    """Three chats with one bot."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="hermes-lives-"))
        self.clock = FrozenClock()
        self.db = SessionDB(self.directory / "state.db", clock=self.clock, durability="normal")
        self.busy: set[str] = set()
        self.lanes: dict[str, Model] = {}
        self.continued = 0
        self.open()

    def teardown(self) -> None:
        self.store.close()
        self.db.close()
        shutil.rmtree(self.directory)

    def open(self) -> None:
        self.store = SessionStore(
            self.directory / "sessions", CONFIG, lambda key: key in self.busy, db=self.db
        )

    @staticmethod
    def key(chat: str) -> str:
        return f"agent:main:telegram:dm:{chat}"

    # ── what the model expects ────────────────────────────────────────────────────────────────

    def expired(self, lane: Model) -> str | None:
        now = self.clock()
        boundary = (now - 4 * HOUR) // DAY * DAY + 4 * HOUR
        if now - lane.used > IDLE:
            return "idle"
        return "daily" if lane.used < boundary else None

    def expected(self, chat: str, *, force_new: bool) -> tuple[bool, tuple[str, str | None] | None]:
        """Whether there is a new session, and what is to be said."""
        lane = self.lanes.get(chat)
        wanted: dict[tuple[str, str], bool] = {
            ("new", "new"): lane is None,
            ("fresh_reset", "force_new"): force_new,
            ("auto_reset", "suspended"): lane is not None and lane.status == "suspended",
            ("lost", "session_missing"): lane is not None and not lane.is_there,
        }
        for said, holds in wanted.items():
            if holds or lane is None:
                return True, said
        assert lane is not None
        if lane.status == "resume_pending" and self.clock() - lane.marked <= FRESHNESS:
            return False, lane.notice
        reason = self.expired(lane)
        if reason and self.key(chat) not in self.busy:
            return True, ("auto_reset", reason)
        if lane.status == "resume_pending":
            lane.status = "active"
        return False, lane.notice

    def began(self, chat: str, entry: SessionEntry, notice: tuple[str, str | None] | None) -> None:
        before = self.lanes.get(chat)
        former = [*before.former, before.session_id] if before else []
        assert entry.session_id not in former
        self.lanes[chat] = Model(entry.session_id, self.clock(), notice=notice, former=former)

    # ── what happens ──────────────────────────────────────────────────────────────────────────

    @rule(chat=chats, force_new=st.sampled_from([False, False, False, True]))
    def message(self, chat: str, force_new: bool) -> None:
        is_new, notice = self.expected(chat, force_new=force_new)
        entry = self.store.get_or_create_session(ann(chat_id=chat), force_new=force_new)
        if is_new:
            self.began(chat, entry, notice)
        lane = self.lanes[chat]
        assert (entry.session_id, lane.notice) == (lane.session_id, notice)
        lane.used = self.clock()
        self.store.append_to_transcript(entry.session_id, {"role": "user", "content": "Hello"})
        lane.said += 1

    @rule(chat=chats)
    def command_new(self, chat: str) -> None:
        entry = self.store.reset_session(self.key(chat))
        assert (entry is None) == (chat not in self.lanes)
        if entry is not None:
            self.began(chat, entry, ("fresh_reset", "requested"))

    @rule(chat=chats)
    def command_stop(self, chat: str) -> None:
        assert self.store.suspend_session(self.key(chat)) == (chat in self.lanes)
        if chat in self.lanes:
            self.lanes[chat].status = "suspended"

    @rule(chat=chats, data=st.data())
    def command_resume(self, chat: str, data: st.DataObject) -> None:
        lane = self.lanes.get(chat)
        there = [one for one in (lane.former if lane else []) if self.db.get_session(one)]
        if lane is None or not there:
            return
        target = self.db.get_compression_tip(data.draw(st.sampled_from(there)))
        entry = self.store.switch_session(self.key(chat), target)
        assert entry is not None
        assert entry.session_id == target
        lane.status = "active"
        if target != lane.session_id:
            lane.former.append(lane.session_id)
            lane.session_id, lane.is_there, lane.used = target, True, self.clock()
            lane.notice = ("switched", "requested")

    @rule(chat=chats)
    def interruption(self, chat: str) -> None:
        lane = self.lanes.get(chat)
        is_marked = self.store.mark_resume_pending(self.key(chat), "restart_timeout")
        assert is_marked == (lane is not None and lane.status != "suspended")
        if lane is not None and is_marked:
            lane.status, lane.marked = "resume_pending", self.clock()

    @rule(chat=chats)
    def good_turn(self, chat: str) -> None:
        lane = self.lanes.get(chat)
        is_cleared = self.store.clear_resume_pending(self.key(chat))
        assert is_cleared == (lane is not None and lane.status == "resume_pending")
        if lane is not None and is_cleared:
            lane.status = "active"

    @rule()
    def crash(self) -> None:
        recent = [
            lane
            for lane in self.lanes.values()
            if lane.status == "active" and self.clock() - lane.used <= 120
        ]
        assert self.store.suspend_recently_active() == len(recent)
        for lane in recent:
            lane.status, lane.marked = "resume_pending", self.clock()

    @rule()
    def restart(self) -> None:
        self.store.close()
        self.open()

    @rule(chat=chats)
    def notice(self, chat: str) -> None:
        told = self.store.take_notice(self.key(chat))
        lane = self.lanes.get(chat)
        assert (told and (told.kind, told.reason)) == (lane and lane.notice)
        if lane is not None:
            lane.notice = None

    @rule(chat=chats)
    def compaction(self, chat: str) -> None:
        lane = self.lanes.get(chat)
        if lane is None or not lane.is_there:
            return
        self.continued += 1
        new_id = f"continued {self.continued}"
        tip = self.db.get_compression_tip(lane.session_id)
        self.db.continue_session(tip, new_id, [{"role": "user", "content": "Summary"}])
        # The lane follows with its next message.
        found = self.store.lookup_by_session_id(lane.session_id)
        assert found is not None
        is_new, _ = self.expected(chat, force_new=False)
        entry = self.store.get_or_create_session(ann(chat_id=chat))
        if is_new:
            self.began(chat, entry, self.lanes[chat].notice)
            taken = self.store.take_notice(self.key(chat))
            assert taken is not None
            self.lanes[chat].notice = None
        else:
            assert entry.session_id == new_id
            lane.former.append(lane.session_id)
            lane.session_id, lane.used = new_id, self.clock()

    @rule(chat=chats, for_good=st.booleans())
    def deletion(self, chat: str, for_good: bool) -> None:
        lane = self.lanes.get(chat)
        if lane is None:
            return
        (self.db.delete_sessions if for_good else self.db.trash_sessions)([lane.session_id])
        for other in self.lanes.values():
            if other.session_id == lane.session_id:
                other.is_there = False

    @rule(
        seconds=st.sampled_from([1, 119, 121, FRESHNESS, FRESHNESS + 1, IDLE, IDLE + 1, DAY, -600])
    )
    def time(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule(chat=chats)
    def process(self, chat: str) -> None:
        self.busy ^= {self.key(chat)}

    @rule(days=st.sampled_from([0.5, 1, 3]))
    def prune(self, days: float) -> None:
        old = [
            chat
            for chat, lane in self.lanes.items()
            if lane.used < self.clock() - days * DAY
            and lane.status != "suspended"
            and self.key(chat) not in self.busy
        ]
        assert self.store.prune_old_entries(days) == len(old)
        for chat in old:
            del self.lanes[chat]

    # ── what always holds ─────────────────────────────────────────────────────────────────────

    @invariant()
    def lanes_are_as_expected(self) -> None:
        found = {entry.session_key: entry for entry in self.store.list_sessions()}
        assert set(found) == {self.key(chat) for chat in self.lanes}
        for chat, lane in self.lanes.items():
            entry = found[self.key(chat)]
            assert (entry.session_id, entry.updated_at.timestamp()) == (lane.session_id, lane.used)
            assert entry.suspended == (lane.status == "suspended")
            assert entry.resume_pending == (lane.status == "resume_pending")
            kind, reason = lane.notice or (None, None)
            assert entry.was_auto_reset == (kind in {"auto_reset", "lost"})
            assert entry.auto_reset_reason == (reason if entry.was_auto_reset else None)
            assert entry.is_fresh_reset == (kind == "fresh_reset")

    @invariant()
    def rows_fit_together(self) -> None:
        require_whole(self.db)


_IS_LONG = settings().max_examples > 100
Lives.TestCase.settings = settings(
    settings(), max_examples=1000 if _IS_LONG else 40, stateful_step_count=40
)
TestLives = Lives.TestCase
