"""Operations on one lane by its key, and on many. Numbers are of the documented behaviours."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest

from hermes_sessions import SessionDB
from hermes_sessions.config.gateway_config import GatewayConfig
from hermes_sessions.errors import InvalidInput, NotFound, StoreLocked
from hermes_sessions.lifecycle.lane_updates import TransitionCause, switch_session
from hermes_sessions.lifecycle.session_store import SessionStore
from hermes_sessions.model.reset_policy import SessionResetPolicy
from hermes_sessions.model.scope import Scope
from hermes_sessions.model.source import Platform, SessionSource
from hermes_sessions.storage.provider import WriteTransaction
from hermes_sessions.storage.repositories import lane_sessions
from hermes_sessions.storage.repositories.lanes import Lanes
from hermes_sessions.storage.repositories.leases import Holder, Leases
from hermes_sessions.storage.repositories.processes import Processes
from hermes_sessions.storage.repositories.turns import Turns
from hermes_sessions_testing.clock import FrozenClock
from tests.lifecycle.senders import ANN, ANNS_KEY, DAY, HOUR, ann, in_group
from tests.servers.stores import OpenStore

Open = Callable[..., SessionStore]


def chat(number: int) -> SessionSource:
    return ann(chat_id=str(number))


def row(db: SessionDB, session_id: str) -> dict[str, Any]:
    found = db.get_session(session_id)
    assert found is not None
    return found


def test_a_thread_and_a_person_of_one_id_do_not_share(sessions: SessionStore) -> None:
    person, thread = in_group("7"), in_group("8", thread_id="7")
    ours, theirs = sessions.get_or_create_session(person), sessions.get_or_create_session(thread)
    assert ours.session_key == theirs.session_key == "agent:main:telegram:group:-100:7"
    assert ours.session_id != theirs.session_id
    after = sessions.reset_session(sessions.session_key(thread))
    assert after is not None
    assert sessions.take_notice(theirs.session_key).kind == "fresh_reset"  # type: ignore[union-attr]
    sessions.update_session(after.session_key, 17)
    sessions.suspend_session(after.session_key)
    lane, other = sessions.peek(person), sessions.peek(thread)
    assert lane is not None
    assert other is not None
    assert (lane.session_id, lane.suspended, lane.last_prompt_tokens) == (ours.session_id, False, 0)
    assert (other.session_id, other.suspended, other.last_prompt_tokens) == (
        after.session_id,
        True,
        17,
    )


def test_nothing_happens_to_what_is_not_known(sessions: SessionStore) -> None:
    assert sessions.update_session(ANNS_KEY) is False
    assert sessions.reset_session(ANNS_KEY) is None
    assert sessions.switch_session(ANNS_KEY, "s") is None
    assert sessions.suspend_session(ANNS_KEY) is False
    assert sessions.mark_resume_pending(ANNS_KEY, "x") is False
    assert sessions.clear_resume_pending(ANNS_KEY) is False
    assert sessions.take_notice(ANNS_KEY) is None
    assert sessions.explain(ANNS_KEY) is None
    assert sessions.lookup_by_session_id("") is None
    assert sessions.list_sessions() == []
    assert sessions.has_any_sessions() is False


def test_update_notes_the_use(sessions: SessionStore, clock: FrozenClock) -> None:
    entry = sessions.get_or_create_session(ANN)
    clock.advance(90)
    assert sessions.update_session(ANNS_KEY, last_prompt_tokens=1234)
    found = sessions.peek(ANN)
    assert found is not None
    assert (found.updated_at - entry.updated_at).total_seconds() == 90
    assert found.last_prompt_tokens == 1234
    assert sessions.update_session(ANNS_KEY)
    assert sessions.peek(ANN) == found
    with pytest.raises(InvalidInput):
        sessions.update_session(ANNS_KEY, last_prompt_tokens=-1)


def test_reset_starts_a_new_session(
    sessions: SessionStore, db: SessionDB, clock: FrozenClock
) -> None:
    """Behaviour 23: no word of expiry."""
    first = sessions.get_or_create_session(ANN)
    sessions.append_to_transcript(first.session_id, {"role": "user", "content": "Hello"})
    sessions.update_session(ANNS_KEY, last_prompt_tokens=5)
    clock.advance(60)
    second = sessions.reset_session(ANNS_KEY, display_name="Ann B.")
    assert second is not None
    assert second.session_id != first.session_id
    assert (second.is_fresh_reset, second.was_auto_reset) == (True, False)
    assert (second.origin, second.display_name, second.last_prompt_tokens) == (ANN, "Ann B.", 0)
    assert second.created_at == second.updated_at > first.updated_at
    assert row(db, first.session_id)["end_reason"] == "session_reset"
    created = row(db, second.session_id)
    assert (created["source"], created["user_id"]) == ("telegram", "u1")
    notice = sessions.take_notice(ANNS_KEY)
    assert notice is not None
    assert (notice.kind, notice.previous_session_id) == ("fresh_reset", first.session_id)
    assert sessions.peek(ANN).is_fresh_reset is False  # type: ignore[union-attr]
    assert sessions.load_transcript(second.session_id) == []


def test_a_run_that_ends_after_a_reset(sessions: SessionStore, clock: FrozenClock) -> None:
    """Behaviour 44: it does not touch the new session."""
    first = sessions.get_or_create_session(ANN)
    second = sessions.reset_session(ANNS_KEY)
    assert second is not None
    clock.advance(60)
    late = {"role": "assistant", "content": "Late"}
    sessions.append_to_transcript(first.session_id, late)
    assert not sessions.update_session(ANNS_KEY, 77, session_id=first.session_id)
    sessions.mark_resume_pending(ANNS_KEY, "restart_timeout")
    assert not sessions.clear_resume_pending(ANNS_KEY, session_id=first.session_id)
    found = sessions.peek(ANN)
    assert found is not None
    assert (found.last_prompt_tokens, found.updated_at) == (0, second.updated_at)
    assert found.resume_pending
    assert sessions.load_transcript(second.session_id) == []
    assert sessions.load_transcript(first.session_id) == [late]


def test_a_run_that_ends_after_compaction(
    sessions: SessionStore, db: SessionDB, clock: FrozenClock
) -> None:
    """It may name the session it began in, or the one it ended in."""
    first = sessions.get_or_create_session(ANN).session_id
    tip = db.continue_session(first, "c1", [{"role": "user", "content": "Summary"}])
    for session_id in (first, tip):
        clock.advance(60)
        assert sessions.update_session(ANNS_KEY, session_id=session_id)
        assert sessions.peek(ANN).updated_at.timestamp() == clock()  # type: ignore[union-attr]
        sessions.mark_resume_pending(ANNS_KEY, "restart_timeout")
        assert sessions.clear_resume_pending(ANNS_KEY, session_id=session_id)
    assert not sessions.update_session(ANNS_KEY, session_id="another")


def test_switch_goes_back_to_an_old_session(sessions: SessionStore, db: SessionDB) -> None:
    first = sessions.get_or_create_session(ANN)
    second = sessions.reset_session(ANNS_KEY)
    assert second is not None
    sessions.mark_resume_pending(ANNS_KEY, "restart_timeout")
    third = sessions.switch_session(ANNS_KEY, first.session_id)
    assert third is not None
    assert third.session_id == first.session_id
    assert (third.is_fresh_reset, third.was_auto_reset, third.resume_pending) == (False,) * 3
    assert row(db, first.session_id)["ended_at"] is None
    assert row(db, second.session_id)["end_reason"] == "session_switch"
    notice = sessions.take_notice(ANNS_KEY)
    assert notice is not None
    assert (notice.kind, notice.previous_session_id) == ("switched", second.session_id)


def test_switch_to_the_same_session(sessions: SessionStore, clock: FrozenClock) -> None:
    first = sessions.get_or_create_session(ANN)
    clock.advance(60)
    assert sessions.switch_session(ANNS_KEY, first.session_id) == first
    # Who stopped it and asks for it again gets it.
    sessions.suspend_session(ANNS_KEY)
    sessions.switch_session(ANNS_KEY, first.session_id)
    assert sessions.get_or_create_session(ANN).session_id == first.session_id


def test_switch_follows_what_was_compacted(sessions: SessionStore, db: SessionDB) -> None:
    db.create_session("old", "cli")
    db.continue_session("old", "new", [{"role": "user", "content": "Summary"}])
    sessions.get_or_create_session(ANN)
    entry = sessions.switch_session(ANNS_KEY, "old")
    assert entry is not None
    assert entry.session_id == "new"


@pytest.mark.parametrize("target", ["nowhere", "trashed", "theirs"])
def test_switch_needs_a_session_that_one_may_see(
    sessions: SessionStore, db: SessionDB, target: str
) -> None:
    first = sessions.get_or_create_session(ANN)
    db.create_session("trashed", "telegram", user_id="u1")
    db.trash_sessions(["trashed"])
    db.create_session("theirs", "telegram", user_id="u2")
    with pytest.raises(NotFound, match=target):
        sessions.switch_session(ANNS_KEY, target, scope=Scope("u1", "telegram"))
    assert sessions.peek(ANN) == first
    assert row(db, first.session_id)["ended_at"] is None


def test_a_suspended_lane_cannot_be_marked(sessions: SessionStore) -> None:
    """Behaviour 25."""
    sessions.get_or_create_session(ANN)
    assert sessions.suspend_session(ANNS_KEY)
    assert sessions.suspend_session(ANNS_KEY)
    assert not sessions.mark_resume_pending(ANNS_KEY, "restart_timeout")
    found = sessions.peek(ANN)
    assert found is not None
    assert (found.suspended, found.resume_pending) == (True, False)


def test_the_mark_stays_until_a_turn_succeeds(sessions: SessionStore, clock: FrozenClock) -> None:
    """Behaviour 27."""
    first = sessions.get_or_create_session(ANN)
    clock.advance(5)
    assert sessions.mark_resume_pending(ANNS_KEY, "shutdown_timeout")
    for _ in range(3):
        clock.advance(5)
        entry = sessions.get_or_create_session(ANN)
        assert (entry.session_id, entry.resume_reason) == (first.session_id, "shutdown_timeout")
        assert entry.last_resume_marked_at is not None
        assert (entry.last_resume_marked_at - first.created_at).total_seconds() == 5
    assert sessions.clear_resume_pending(ANNS_KEY)
    assert not sessions.clear_resume_pending(ANNS_KEY)
    found = sessions.peek(ANN)
    assert found is not None
    assert (found.resume_pending, found.resume_reason, found.last_resume_marked_at) == (
        False,
        None,
        None,
    )


def test_what_was_used_just_before_a_crash_is_marked(
    sessions: SessionStore, clock: FrozenClock
) -> None:
    """Behaviour 28."""
    old, edge, recent, stopped, marked = (sessions.get_or_create_session(chat(n)) for n in range(5))
    clock.advance(480)
    sessions.update_session(edge.session_key)
    clock.advance(60)
    for entry in (recent, stopped, marked):
        sessions.update_session(entry.session_key)
    sessions.suspend_session(stopped.session_key)
    sessions.mark_resume_pending(marked.session_key, "shutdown_timeout")
    clock.advance(60)
    assert sessions.suspend_recently_active() == 2
    assert sessions.suspend_recently_active() == 0
    states = {e.session_id: (e.resume_reason, e.suspended) for e in sessions.list_sessions()}
    assert states == {
        old.session_id: (None, False),
        edge.session_id: ("restart_interrupted", False),
        recent.session_id: ("restart_interrupted", False),
        stopped.session_id: (None, True),
        marked.session_id: ("shutdown_timeout", False),
    }


def test_many_are_marked_once_each(sessions: SessionStore, clock: FrozenClock) -> None:
    for number in range(110):
        sessions.get_or_create_session(chat(number))
    clock.advance(1)
    assert sessions.suspend_recently_active() == 110
    assert all(entry.resume_pending for entry in sessions.list_sessions())


def test_prune(open_sessions: Open, db: SessionDB, clock: FrozenClock) -> None:
    """Behaviour 52."""
    busy_key = "agent:main:telegram:dm:2"
    sessions = open_sessions(lambda key: key == busy_key)
    old, stopped, busy = (sessions.get_or_create_session(chat(n)) for n in range(3))
    db.continue_session(old.session_id, "continued", [{"role": "user", "content": "Summary"}])
    sessions.suspend_session(stopped.session_key)
    clock.advance(DAY + 1)
    recent = sessions.get_or_create_session(chat(3))
    clock.advance(7 * DAY - 1)
    assert sessions.prune_old_entries(0) == 0
    assert sessions.prune_old_entries() == 0
    assert sessions.prune_old_entries(7) == 1
    assert sessions.prune_old_entries(7) == 0
    left = {entry.session_id for entry in sessions.list_sessions()}
    assert left == {stopped.session_id, busy.session_id, recent.session_id}
    # Retention can see which sessions are no longer in use.
    assert row(db, "continued")["end_reason"] == "lane_pruned"
    assert row(db, busy.session_id)["ended_at"] is None
    clock.advance(days=100)
    pruned = {one["id"] for one in db.list_prune_candidates(90)}
    assert pruned == {old.session_id, "continued"}
    assert sessions.explain(old.session_key) is None


def test_the_configured_age_prunes(open_sessions: Open, clock: FrozenClock) -> None:
    sessions = open_sessions(session_store_max_age_days=7)
    sessions.get_or_create_session(ANN)
    clock.advance(8 * DAY)
    assert sessions.prune_old_entries() == 1


def test_prune_keeps_lanes_whose_activity_check_fails(
    open_sessions: Open, clock: FrozenClock
) -> None:
    def fails(_key: str) -> bool:
        raise OSError("no answer")

    sessions = open_sessions(fails)
    sessions.get_or_create_session(ANN)
    clock.advance(days=30)
    assert sessions.prune_old_entries(7) == 0


def test_prune_keeps_what_has_something_to_do(
    sessions: SessionStore, db: SessionDB, clock: FrozenClock
) -> None:
    running, waiting = (sessions.get_or_create_session(chat(n)) for n in range(2))
    clock.advance(days=30)
    process = Processes(db.store).register("default", "gateway")
    lease = Leases(db.store).take(running.session_id, Holder(process.id, "a test"), ttl=HOUR)
    turn = Turns(db.store).start(None, lease, running.session_id)
    with db.provider.read() as tx:
        lane = Lanes(db.store).find(tx, "default", waiting.session_key)
    assert lane is not None
    db.provider.write(
        lambda tx: tx.insert(
            "INSERT INTO mailbox (lane_id, kind, status, received_at) VALUES (?, ?, ?, ?)",
            (lane.id, "message", "waiting", clock()),
        )
    )
    assert sessions.prune_old_entries(7) == 0
    Turns(db.store).end(turn, "failed")
    assert sessions.prune_old_entries(7) == 1
    db.provider.write(lambda tx: tx.run("UPDATE mailbox SET finished_at = ?", (clock(),)))
    assert sessions.prune_old_entries(7) == 1


def test_the_order_of_lists(sessions: SessionStore, clock: FrozenClock) -> None:
    entries = []
    for number in range(3):
        entries.append(sessions.get_or_create_session(chat(number)))
        clock.advance(600)
    assert sessions.list_sessions() == entries[::-1]
    assert sessions.list_sessions(active_minutes=20) == entries[:0:-1]
    assert sessions.list_sessions(active_minutes=5) == []
    assert sessions.lookup_by_session_id(entries[1].session_id) == entries[1]
    assert sessions.lookup_by_session_id("nowhere") is None


def test_a_long_list(sessions: SessionStore) -> None:
    for number in range(210):
        sessions.get_or_create_session(chat(number))
    assert len({entry.session_key for entry in sessions.list_sessions()}) == 210


def test_tokens_come_from_the_session(sessions: SessionStore, db: SessionDB) -> None:
    entry = sessions.get_or_create_session(ANN)
    db.update_token_counts(
        entry.session_id,
        input_tokens=10,
        output_tokens=2,
        cache_read_tokens=3,
        cache_write_tokens=4,
        estimated_cost_usd=0.5,
        cost_status="estimated",
    )
    for found in (
        sessions.peek(ANN),
        sessions.get_or_create_session(ANN),
        *sessions.list_sessions(),
    ):
        assert found is not None
        assert (found.input_tokens, found.output_tokens) == (10, 2)
        assert (found.cache_read_tokens, found.cache_write_tokens) == (3, 4)
        assert (found.total_tokens, found.estimated_cost_usd) == (19, 0.5)
        assert found.cost_status == "estimated"


def test_whether_there_were_sessions(sessions: SessionStore, db: SessionDB) -> None:
    assert not sessions.has_any_sessions()
    first = sessions.get_or_create_session(ANN)
    assert sessions.has_any_sessions()
    assert not sessions.has_any_sessions(besides=first.session_id)
    db.create_session("earlier", "cli")
    assert sessions.has_any_sessions(besides=first.session_id)


def test_of_many_who_ask_one_gets_the_notice(
    open_sessions: Open, open_another: OpenStore, clock: FrozenClock
) -> None:
    policy = SessionResetPolicy("idle", idle_minutes=1)
    stores = [open_sessions(reset_policy=policy) for _ in range(2)]
    stores.append(open_sessions(reset_policy=policy, on=open_another()))
    for round_ in range(10):
        stores[round_ % 3].get_or_create_session(ANN)
        clock.advance(100)
        stores[0].get_or_create_session(ANN)
        with ThreadPoolExecutor(6) as threads:
            taken = list(threads.map(lambda n: stores[n % 3].take_notice(ANNS_KEY), range(6)))
        assert sum(notice is not None for notice in taken) == 1


def test_of_many_messages_at_once_one_makes_the_session(
    open_sessions: Open, open_another: OpenStore, clock: FrozenClock
) -> None:
    policy = SessionResetPolicy("idle", idle_minutes=1)
    stores = [open_sessions(reset_policy=policy)]
    stores.append(open_sessions(reset_policy=policy, on=open_another()))
    for _ in range(5):
        with ThreadPoolExecutor(8) as threads:
            found = list(
                threads.map(
                    lambda n: stores[n % 2].get_or_create_session(chat(n % 4)).session_id,
                    range(24),
                )
            )
        assert [found[n] for n in range(24)] == [found[n % 4] for n in range(24)]
        assert len(set(found)) == 4
        clock.advance(100)
    # None was made and forgotten.
    assert stores[0].db.session_count() == 20


def test_two_lanes_leave_one_session_at_once(
    open_sessions: Open, open_another: OpenStore, db: SessionDB
) -> None:
    """One of them is the last, and ends it."""
    stores = [open_sessions(), open_sessions(on=open_another())]
    keys = [stores[n].get_or_create_session(chat(n)).session_key for n in range(2)]
    for number in range(8):
        db.create_session(f"s{number}", "cli")
        for store, key in zip(stores, keys, strict=True):
            store.switch_session(key, f"s{number}")
        assert row(db, f"s{number}")["ended_at"] is None
        together = Barrier(2)

        def leave(n: int, together: Barrier = together) -> None:
            together.wait()
            stores[n].reset_session(keys[n])

        with ThreadPoolExecutor(2) as threads:
            list(threads.map(leave, range(2)))
        assert row(db, f"s{number}")["end_reason"] == "session_reset"


def test_other_platforms_have_their_names(sessions: SessionStore, db: SessionDB) -> None:
    platform = Platform.register("carrier-pigeon")
    entry = sessions.get_or_create_session(SessionSource(platform, "1"))
    assert row(db, entry.session_id)["source"] == "carrier-pigeon"


def test_a_session_that_one_enters_and_another_leaves(open_store: OpenStore) -> None:
    """The lane that leaves waits for the one that enters, and does not end their session."""
    with open_store() as db, open_store(lock_timeout=1) as other:
        config = GatewayConfig(write_sessions_json=False)
        with (
            SessionStore("unused", config, db=db) as entering,
            SessionStore("unused", config, db=other) as leaving,
        ):
            shared = entering.get_or_create_session(chat(1)).session_id
            entering.get_or_create_session(chat(2))
            engine = entering.engine

            def enter(tx: WriteTransaction) -> None:
                lane = engine.lanes.lock(tx, engine.namespace, entering.session_key(chat(2)))
                target = lane_sessions.find(tx, shared)
                assert lane is not None
                assert target is not None
                switch_session(
                    tx, engine, lane, target, TransitionCause("switch"), 0.0, leaves=None
                )
                with pytest.raises(StoreLocked):
                    leaving.reset_session(leaving.session_key(chat(1)))

            db.provider.write(enter, isolated=False)
            # With patience: on a busy machine, others have the store for a moment, too.
            entering.reset_session(entering.session_key(chat(1)))
            assert row(db, shared)["ended_at"] is None


class TestHandoff:
    def test_a_session_goes_on_in_a_messenger(self, db: SessionDB, sessions: SessionStore) -> None:
        before = sessions.get_or_create_session(ANN).session_id
        db.create_session("from the terminal", "cli")
        db.end_session("from the terminal", "cli_close")
        db.request_handoff("from the terminal", "Telegram")
        entry = sessions.accept_handoff("from the terminal", ANN)
        assert entry is not None
        assert entry.session_id == "from the terminal"
        assert sessions.get_or_create_session(ANN).session_id == "from the terminal"
        assert row(db, "from the terminal")["ended_at"] is None
        assert row(db, before)["end_reason"] == "session_switch"
        state = {"state": "completed", "platform": "Telegram", "error": None}
        assert db.get_handoff_state("from the terminal") == state
        assert "handed over" in str(sessions.explain(ANNS_KEY))
        assert sessions.accept_handoff("from the terminal", chat(2)) is None
        assert sessions.peek(chat(2)) is None

    def test_a_chat_that_was_never_used(self, db: SessionDB, sessions: SessionStore) -> None:
        db.create_session("s", "cli")
        db.request_handoff("s", "telegram")
        entry = sessions.accept_handoff("s", ANN)
        assert entry is not None
        assert (entry.session_id, entry.origin) == ("s", ANN)
        assert "None" not in str(sessions.explain(ANNS_KEY))

    @pytest.mark.parametrize("platform", [None, "discord"])
    def test_what_was_not_handed_here(
        self, db: SessionDB, sessions: SessionStore, platform: str | None
    ) -> None:
        db.create_session("s", "cli")
        if platform:
            db.request_handoff("s", platform)
        assert sessions.accept_handoff("s", ANN) is None
        assert sessions.accept_handoff("no such session", ANN) is None
        assert sessions.explain(ANNS_KEY) is None

    def test_one_accepts_it(self, db: SessionDB, sessions: SessionStore) -> None:
        db.create_session("s", "cli")
        db.request_handoff("s", "telegram")
        together = Barrier(4)

        def accept(number: int) -> bool:
            together.wait()
            return sessions.accept_handoff("s", chat(number)) is not None

        with ThreadPoolExecutor(4) as pool:
            assert sum(pool.map(accept, range(4))) == 1
