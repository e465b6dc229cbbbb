"""Which session a message belongs to. Numbers are those of the documented behaviours."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from hermes_sessions import SessionDB
from hermes_sessions.config.gateway_config import GatewayConfig
from hermes_sessions.lifecycle.session_entry import SessionEntry
from hermes_sessions.lifecycle.session_routing import route_to_session
from hermes_sessions.lifecycle.session_store import SessionStore
from hermes_sessions.model.reset_policy import SessionResetPolicy
from hermes_sessions.model.scope import Scope
from hermes_sessions.model.source import Platform, SessionSource
from hermes_sessions.storage.repositories.leases import Holder, Leases
from hermes_sessions.storage.repositories.processes import Processes
from hermes_sessions.storage.repositories.turns import Turns
from hermes_sessions_testing.clock import NOON, FrozenClock
from tests.lifecycle.senders import ANN, ANNS_KEY, DAY, HOUR, MINUTE, ann, in_group
from tests.servers.stores import ONCE

Open = Callable[..., SessionStore]
IDLE_HOUR = SessionResetPolicy("idle", idle_minutes=60)
AT_FOUR = SessionResetPolicy("daily", at_hour=4, timezone="UTC")
NEVER = SessionResetPolicy("none")


def at(day: int, hour: int, minute: int = 0, second: int = 0) -> float:
    return datetime(2025, 1, day, hour, minute, second, tzinfo=UTC).timestamp()


def ended(db: SessionDB, entry: SessionEntry) -> Any:
    found = db.get_session(entry.session_id)
    assert found is not None
    return found["end_reason"]


def said(sessions: SessionStore, entry: SessionEntry, text: str = "Hello") -> None:
    sessions.append_to_transcript(entry.session_id, {"role": "user", "content": text})


def test_the_first_message_makes_lane_and_session(sessions: SessionStore, db: SessionDB) -> None:
    entry = sessions.get_or_create_session(ANN)
    assert (entry.session_key, entry.origin, entry.display_name) == (ANNS_KEY, ANN, "Ann")
    assert (entry.platform, entry.chat_type) == (Platform.TELEGRAM, "dm")
    assert entry.created_at == entry.updated_at == datetime.fromtimestamp(NOON, UTC)
    assert re.fullmatch(r"2025\d{4}_\d{6}_[0-9a-f]{8}", entry.session_id)
    session = db.get_session(entry.session_id)
    assert session is not None
    assert (session["source"], session["user_id"], session["ended_at"]) == ("telegram", "u1", None)
    assert session["started_at"] == NOON


def test_two_sessions_of_one_second_never_share_an_id(
    sessions: SessionStore, db: SessionDB
) -> None:
    """However unlikely it is: as many as a large installation begins in a year make it likely."""
    drawn = iter(["aaaaaaaa", "aaaaaaaa", "aaaaaaaa", "bbbbbbbb"])
    unlucky = sessions.engine._replace(random_hex=lambda _bytes: next(drawn))
    placed = [
        route_to_session(unlucky, source, force_new=False) for source in (ANN, in_group("bob"))
    ]
    ids = [each.lane.session_id for each in placed]
    assert [session_id[-8:] for session_id in ids] == ["aaaaaaaa", "bbbbbbbb"]
    assert all(db.get_session(session_id) is not None for session_id in ids)


def test_the_next_message_finds_the_same(sessions: SessionStore, clock: FrozenClock) -> None:
    first = sessions.get_or_create_session(ANN)
    clock.advance(minutes=5)
    second = sessions.get_or_create_session(ANN)
    assert second.session_id == first.session_id
    assert (second.updated_at - first.updated_at).total_seconds() == 300
    assert second.created_at == first.created_at


def test_every_field_of_the_source_survives(open_sessions: Open) -> None:
    """Behaviour 12."""
    source = SessionSource(
        Platform.DISCORD,
        "9:%",
        chat_name="名前 \ud800",
        chat_type="thread",
        user_id="u",
        user_name="U",
        thread_id="t",
        chat_topic="topic",
        user_id_alt="alt",
        chat_id_alt="c-alt",
        is_bot=True,
        guild_id="g",
        parent_chat_id="p",
        message_id="m",
        role_authorized=True,
        profile="work",
    )
    open_sessions().get_or_create_session(source)
    found = open_sessions().peek(source)
    assert found is not None
    assert found.origin == source


def test_idle_is_more_than_the_time(open_sessions: Open, db: SessionDB, clock: FrozenClock) -> None:
    """Behaviour 13."""
    sessions = open_sessions(reset_policy=IDLE_HOUR)
    first = sessions.get_or_create_session(ANN)
    clock.advance(minutes=60)
    assert sessions.get_or_create_session(ANN).session_id == first.session_id
    clock.advance(minutes=60, seconds=1)
    second = sessions.get_or_create_session(ANN)
    assert second.session_id != first.session_id
    assert (second.was_auto_reset, second.auto_reset_reason) == (True, "idle")
    assert ended(db, first) == "session_reset"
    assert ended(db, second) is None


@pytest.mark.parametrize(
    ("used", "now", "reason"),
    [
        (at(15, 3, 59, 59), at(15, 4), "daily"),  # Behaviour 14.
        (at(15, 4, 0, 1), at(16, 3, 59), None),  # Behaviour 15.
        (at(15, 4), at(15, 4), None),
        (at(15, 4, 0, 1), at(16, 4), "daily"),
    ],
)
@ONCE
def test_daily(
    open_sessions: Open, clock: FrozenClock, used: float, now: float, reason: str | None
) -> None:
    sessions = open_sessions(reset_policy=AT_FOUR)
    clock.set(used)
    first = sessions.get_or_create_session(ANN)
    clock.set(now)
    second = sessions.get_or_create_session(ANN)
    assert second.auto_reset_reason == reason
    assert (second.session_id == first.session_id) == (reason is None)


@ONCE
def test_idle_is_named_first(open_sessions: Open, clock: FrozenClock) -> None:
    """Behaviour 16."""
    both = SessionResetPolicy("both", idle_minutes=60, at_hour=4, timezone="UTC")
    sessions = open_sessions(reset_policy=both)
    sessions.get_or_create_session(ANN)
    clock.advance(days=1)
    assert sessions.get_or_create_session(ANN).auto_reset_reason == "idle"


@ONCE
def test_mode_none_never_ends(open_sessions: Open, clock: FrozenClock) -> None:
    """Behaviour 17."""
    sessions = open_sessions(reset_policy=NEVER)
    first = sessions.get_or_create_session(ANN)
    clock.advance(days=366)
    assert sessions.get_or_create_session(ANN).session_id == first.session_id


@ONCE
def test_a_platform_has_its_own_policy(open_sessions: Open, clock: FrozenClock) -> None:
    sessions = open_sessions(
        reset_policy=IDLE_HOUR, reset_by_platform={"telegram": {"mode": "none"}}
    )
    slack = SessionSource(Platform.SLACK, "1")
    kept, left = sessions.get_or_create_session(ANN), sessions.get_or_create_session(slack)
    clock.advance(days=2)
    assert sessions.get_or_create_session(ANN).session_id == kept.session_id
    assert sessions.get_or_create_session(slack).session_id != left.session_id


@ONCE
def test_a_background_process_keeps_a_session(open_sessions: Open, clock: FrozenClock) -> None:
    """Behaviour 18."""
    asked: list[str] = []
    answers = [True, False]

    def has_active_processes(key: str) -> bool:
        asked.append(key)
        return answers.pop(0)

    sessions = open_sessions(has_active_processes, reset_policy=IDLE_HOUR)
    first = sessions.get_or_create_session(ANN)
    assert asked == []  # The callback runs only when its answer matters.
    clock.advance(2 * HOUR)
    assert sessions.get_or_create_session(ANN).session_id == first.session_id
    clock.advance(2 * HOUR)
    assert sessions.get_or_create_session(ANN).session_id != first.session_id
    assert asked == [ANNS_KEY] * 2


@ONCE
def test_who_cannot_tell_might_have_processes(open_sessions: Open, clock: FrozenClock) -> None:
    def fails(_key: str) -> bool:
        raise RuntimeError("no answer")

    sessions = open_sessions(fails, reset_policy=IDLE_HOUR)
    first = sessions.get_or_create_session(ANN)
    clock.advance(2 * HOUR)
    assert sessions.get_or_create_session(ANN).session_id == first.session_id


def test_a_running_turn_keeps_a_session(
    open_sessions: Open, db: SessionDB, clock: FrozenClock
) -> None:
    sessions = open_sessions(reset_policy=IDLE_HOUR)
    first = sessions.get_or_create_session(ANN)
    process = Processes(db.store).register("default", "gateway")
    lease = Leases(db.store).take(first.session_id, Holder(process.id, "a test"), ttl=3 * HOUR)
    turn = Turns(db.store).start(None, lease, first.session_id)
    clock.advance(2 * HOUR)
    assert sessions.get_or_create_session(ANN).session_id == first.session_id
    clock.advance(2 * HOUR)
    # The lease was not renewed: the process that ran the turn is gone.
    assert turn.ended_at is None
    assert sessions.get_or_create_session(ANN).session_id != first.session_id


def test_the_user_is_told_once(open_sessions: Open, clock: FrozenClock) -> None:
    """Behaviour 19."""
    sessions = open_sessions(reset_policy=IDLE_HOUR)
    first = sessions.get_or_create_session(ANN)
    said(sessions, first)
    sessions.take_notice(ANNS_KEY)
    clock.advance(2 * HOUR)
    second = sessions.get_or_create_session(ANN)
    assert second.reset_had_activity
    clock.advance(MINUTE)
    # Looking at it, or another message, does not use it up.
    assert sessions.get_or_create_session(ANN).was_auto_reset
    notice = sessions.take_notice(ANNS_KEY)
    assert notice is not None
    assert (notice.kind, notice.reason, notice.had_activity) == ("auto_reset", "idle", True)
    assert notice.previous_session_id == first.session_id
    assert sessions.take_notice(ANNS_KEY) is None
    after = sessions.get_or_create_session(ANN)
    assert (after.was_auto_reset, after.auto_reset_reason, after.reset_had_activity) == (
        False,
        None,
        False,
    )


def test_a_session_without_messages_is_reset_silently(
    open_sessions: Open, clock: FrozenClock
) -> None:
    sessions = open_sessions(reset_policy=IDLE_HOUR)
    sessions.get_or_create_session(ANN)
    clock.advance(2 * HOUR)
    second = sessions.get_or_create_session(ANN)
    assert (second.was_auto_reset, second.reset_had_activity) == (True, False)


def test_suspended_wins_over_resume(sessions: SessionStore, db: SessionDB) -> None:
    """Behaviour 24."""
    first = sessions.get_or_create_session(ANN)
    assert sessions.mark_resume_pending(ANNS_KEY, "restart_timeout")
    assert sessions.suspend_session(ANNS_KEY)
    second = sessions.get_or_create_session(ANN)
    assert second.session_id != first.session_id
    assert (second.auto_reset_reason, second.suspended) == ("suspended", False)
    assert ended(db, first) == "session_reset"


def test_resume_within_the_window(open_sessions: Open, clock: FrozenClock) -> None:
    """Behaviour 26: the policy is asked only outside of it."""
    sessions = open_sessions(reset_policy=IDLE_HOUR, auto_continue_freshness=2 * HOUR)
    first = sessions.get_or_create_session(ANN)
    clock.advance(90 * MINUTE)
    sessions.mark_resume_pending(ANNS_KEY, "restart_interrupted")
    clock.advance(2 * HOUR)
    second = sessions.get_or_create_session(ANN)
    assert second.session_id == first.session_id
    assert (second.resume_pending, second.resume_reason) == (True, "restart_interrupted")
    clock.advance(2 * HOUR)
    third = sessions.get_or_create_session(ANN)
    assert (third.session_id == first.session_id, third.auto_reset_reason) == (False, "idle")
    assert not third.resume_pending


def test_a_mark_that_is_too_old_is_forgotten(open_sessions: Open, clock: FrozenClock) -> None:
    """Behaviour 34, as far as the lane is concerned."""
    sessions = open_sessions(reset_policy=NEVER, auto_continue_freshness=HOUR)
    first = sessions.get_or_create_session(ANN)
    sessions.mark_resume_pending(ANNS_KEY, "restart_interrupted")
    clock.advance(2 * HOUR)
    second = sessions.get_or_create_session(ANN)
    assert (second.session_id, second.resume_pending) == (first.session_id, False)


@ONCE
def test_without_a_window_every_mark_is_fresh(open_sessions: Open, clock: FrozenClock) -> None:
    """Behaviour 35."""
    sessions = open_sessions(reset_policy=IDLE_HOUR, auto_continue_freshness=0)
    first = sessions.get_or_create_session(ANN)
    sessions.mark_resume_pending(ANNS_KEY, "restart_interrupted")
    clock.advance(days=400)
    assert sessions.get_or_create_session(ANN).session_id == first.session_id


@ONCE
def test_a_clock_that_runs_backwards_ends_nothing(open_sessions: Open, clock: FrozenClock) -> None:
    sessions = open_sessions(reset_policy=IDLE_HOUR)
    first = sessions.get_or_create_session(ANN)
    clock.advance(days=-3)
    second = sessions.get_or_create_session(ANN)
    assert second.session_id == first.session_id
    clock.advance(2 * HOUR)
    assert sessions.get_or_create_session(ANN).auto_reset_reason == "idle"


def test_force_new_ends_the_old_session(sessions: SessionStore, db: SessionDB) -> None:
    first = sessions.get_or_create_session(ANN)
    second = sessions.get_or_create_session(ANN, force_new=True)
    assert second.session_id != first.session_id
    assert (second.is_fresh_reset, second.was_auto_reset) == (True, False)
    assert ended(db, first) == "session_reset"


def test_a_compacted_session_is_followed(
    sessions: SessionStore, db: SessionDB, clock: FrozenClock
) -> None:
    first = sessions.get_or_create_session(ANN)
    sessions.take_notice(ANNS_KEY)
    said(sessions, first)
    sessions.update_session(ANNS_KEY, last_prompt_tokens=9)
    for new_id, old_id in (("c1", first.session_id), ("c2", "c1")):
        clock.advance(1)
        db.continue_session(old_id, new_id, [{"role": "user", "content": "Summary"}])
    # The lane continues there with its next message, and readers see it there already.
    seen = sessions.peek(ANN)
    assert seen is not None
    assert (seen.session_id, seen.last_prompt_tokens) == ("c2", 0)
    assert sessions.list_sessions() == [seen]
    for session_id in (first.session_id, "c1", "c2"):
        assert sessions.lookup_by_session_id(session_id) == seen
    assert "In session c2" in str(sessions.explain(ANNS_KEY))
    second = sessions.get_or_create_session(ANN)
    assert (second.session_id, second.last_prompt_tokens) == ("c2", 0)
    assert not second.was_auto_reset
    assert ended(db, first) == "compression"
    assert sessions.lookup_by_session_id(first.session_id) == second
    assert sessions.take_notice(ANNS_KEY) is None


def test_the_end_of_a_thread_is_ended_when_it_expires(
    open_sessions: Open, db: SessionDB, clock: FrozenClock
) -> None:
    sessions = open_sessions(reset_policy=IDLE_HOUR)
    first = sessions.get_or_create_session(ANN)
    db.continue_session(first.session_id, "c1", [{"role": "user", "content": "Summary"}])
    clock.advance(2 * HOUR)
    second = sessions.get_or_create_session(ANN)
    assert second.reset_had_activity
    found = db.get_session("c1")
    assert found is not None
    assert found["end_reason"] == "session_reset"


def test_asking_for_processes_changes_nothing(
    open_sessions: Open, db: SessionDB, clock: FrozenClock
) -> None:
    """A compacted session is followed once, however often the decision is begun."""
    sessions = open_sessions(lambda _key: False, reset_policy=IDLE_HOUR)
    first = sessions.get_or_create_session(ANN)
    db.continue_session(first.session_id, "c1", [{"role": "user", "content": "Summary"}])
    clock.advance(2 * HOUR)
    sessions.get_or_create_session(ANN)
    explained = sessions.explain(ANNS_KEY)
    assert explained is not None
    steps = [step.transition.action for step in explained.steps]
    assert steps == ["create", "follow", "reset"]


@pytest.mark.parametrize("way", ["trash_sessions", "delete_sessions"])
def test_a_lane_whose_session_is_gone_says_so(
    sessions: SessionStore, db: SessionDB, way: str
) -> None:
    first = sessions.get_or_create_session(ANN)
    said(sessions, first)
    getattr(db, way)([first.session_id])
    second = sessions.get_or_create_session(ANN)
    assert second.session_id != first.session_id
    assert (second.was_auto_reset, second.auto_reset_reason) == (True, "session_missing")
    notice = sessions.take_notice(ANNS_KEY)
    assert notice is not None
    assert (notice.kind, notice.previous_session_id) == ("lost", first.session_id)
    assert sessions.get_or_create_session(ANN).session_id == second.session_id


def test_a_message_reopens_an_ended_session(sessions: SessionStore, db: SessionDB) -> None:
    first = sessions.get_or_create_session(ANN)
    db.end_session(first.session_id, "agent_close")
    assert sessions.get_or_create_session(ANN).session_id == first.session_id
    assert ended(db, first) is None


def test_two_lanes_in_one_session(sessions: SessionStore, db: SessionDB) -> None:
    first = sessions.get_or_create_session(ANN)
    other = SessionSource(Platform.SLACK, "1")
    sessions.get_or_create_session(other)
    sessions.switch_session("agent:main:slack:dm:1", first.session_id)
    sessions.reset_session(ANNS_KEY)
    # It is not over for the other one.
    assert ended(db, first) is None
    assert sessions.get_or_create_session(other).session_id == first.session_id
    sessions.reset_session("agent:main:slack:dm:1")
    assert ended(db, first) == "session_reset"


def test_whose_sessions_they_are(open_sessions: Open, db: SessionDB) -> None:
    """A person sees their own sessions; a shared session belongs to no single user."""
    sessions = open_sessions()
    private = sessions.get_or_create_session(ann(user_id="u1"))
    alone = sessions.get_or_create_session(in_group("u1"))
    others = sessions.get_or_create_session(in_group("u2", user_id_alt="a2"))
    shared = sessions.get_or_create_session(in_group("u1", thread_id="7"))
    unnamed = sessions.get_or_create_session(SessionSource(Platform.SIGNAL, "5"))

    def owner(entry: SessionEntry) -> Any:
        found = db.get_session(entry.session_id)
        return found and found["user_id"]

    assert [owner(entry) for entry in (private, alone, others, shared, unnamed)] == [
        "u1",
        "u1",
        "a2",
        None,
        "5",
    ]
    assert len({entry.session_id for entry in (private, alone, others, shared)}) == 4
    mine = Scope(user_id="u1", source="telegram")
    assert db.get_session(alone.session_id, scope=mine) is not None
    assert db.get_session(others.session_id, scope=mine) is None
    assert sessions.get_or_create_session(in_group("u2", thread_id="7")) is not None
    assert sessions.peek(in_group("u2", thread_id="7")).session_id == shared.session_id  # type: ignore[union-attr]


def test_two_bots_share_a_store(open_sessions: Open) -> None:
    one, other = open_sessions(namespace="one"), open_sessions(namespace="other")
    first = one.get_or_create_session(ANN)
    assert other.peek(ANN) is None
    assert other.get_or_create_session(ANN).session_id != first.session_id
    assert len(other.list_sessions()) == 1
    assert other.lookup_by_session_id(first.session_id) is None
    assert other.suspend_recently_active() == 1
    assert one.peek(ANN).resume_pending is False  # type: ignore[union-attr]


def test_the_ids_of_one_person_lead_to_one_lane(sessions: SessionStore) -> None:
    """Behaviour 9."""
    forms = ("60123456789@s.whatsapp.net", "60123456789:47@s.whatsapp.net", "+60123456789")
    found = {
        sessions.get_or_create_session(SessionSource(Platform.WHATSAPP, form)).session_id
        for form in forms
    }
    assert len(found) == 1


def test_a_private_chat_whose_id_is_not_its_persons(open_sessions: Open, db: SessionDB) -> None:
    """WhatsApp may name a chat by an opaque id, and who writes in it by a number."""
    chat = SessionSource(Platform.WHATSAPP, "987@lid", user_id="60123456789@s.whatsapp.net")
    begun = open_sessions().get_or_create_session(chat)
    # A lane that another program made has no participant yet.
    sessions = open_sessions(namespace="another")
    other = SessionSource(Platform.WHATSAPP, "988@lid", user_id="60123456788@s.whatsapp.net")
    key = sessions.session_key(other)
    db.provider.write(
        lambda tx: sessions.engine.lanes.ensure(tx, "another", key, now=1.0, origin=other)
    )
    reset = sessions.reset_session(key)
    assert reset is not None
    rows = [db.get_session(entry.session_id) for entry in (begun, reset)]
    assert [row and row["user_id"] for row in rows] == ["60123456789", "60123456788"]


def test_colons_do_not_make_lanes_collide(sessions: SessionStore) -> None:
    one = SessionSource(Platform.MATRIX, "a:b", chat_type="group", user_id="c")
    other = SessionSource(Platform.MATRIX, "a", chat_type="group", user_id="b:c")
    first, second = sessions.get_or_create_session(one), sessions.get_or_create_session(other)
    assert first.session_key != second.session_key
    assert first.session_id != second.session_id


def test_peek_changes_nothing(open_sessions: Open, clock: FrozenClock) -> None:
    sessions = open_sessions(reset_policy=IDLE_HOUR)
    assert sessions.peek(ANN) is None
    first = sessions.get_or_create_session(ANN)
    clock.advance(2 * DAY)
    assert sessions.peek(ANN) == first
    assert sessions.list_sessions() == [first]


def test_a_store_of_its_own(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a database: the home's for the home's own folder, otherwise one inside."""
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "home"))
    for directory, file in (
        (tmp_path / "home" / "sessions", tmp_path / "home" / "state.db"),
        (tmp_path / "elsewhere", tmp_path / "elsewhere" / "state.db"),
    ):
        with SessionStore(directory, GatewayConfig()) as store:
            entry = store.get_or_create_session(ANN)
        with SessionDB(file) as db:
            assert db.get_session(entry.session_id) is not None


def test_the_configured_store_is_used(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.yaml").write_text(f"sessiondb: {{sqlite: {{path: {tmp_path / 'mine.db'}}}}}\n")
    monkeypatch.setenv("HERMES_HOME", str(home))
    with SessionStore(tmp_path / "elsewhere", GatewayConfig()) as store:
        entry = store.get_or_create_session(ANN)
    with SessionDB(tmp_path / "mine.db") as db:
        assert db.get_session(entry.session_id) is not None
