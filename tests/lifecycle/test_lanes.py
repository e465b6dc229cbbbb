"""The rows of lanes and their transitions."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from hermes_sessions.errors import InvalidInput
from hermes_sessions.model.lane import Lane, LaneKey, LaneNotice
from hermes_sessions.model.source import Platform, SessionSource
from hermes_sessions.storage.repositories import lane_transitions
from hermes_sessions.storage.repositories.lane_transitions import Transition
from hermes_sessions.storage.repositories.lanes import NO_SESSION, Lanes
from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions_testing.clock import NOON
from tests.servers.stores import ONCE, OpenStore

KEY = LaneKey("main", "telegram", "dm", "7")
SOURCE = SessionSource(Platform.TELEGRAM, "7", chat_name="Ann\x00 🙂", user_id="u:1", is_bot=True)


def ensured(db: SessionDB, key: LaneKey | str = KEY, namespace: str = "bot") -> Lane:
    lanes = Lanes(db.store)
    return db.provider.write(
        lambda tx: lanes.ensure(tx, namespace, key, now=NOON, origin=SOURCE), isolated=False
    )


def test_a_lane_is_made_once(db: SessionDB) -> None:
    lane = ensured(db)
    assert ensured(db) == lane
    assert ensured(db, KEY.render()) == lane
    assert lane == Lane(
        id=lane.id,
        namespace="bot",
        key=KEY,
        session_key="agent:main:telegram:dm:7",
        session_id=NO_SESSION,
        created_at=NOON,
        updated_at=NOON,
        origin=SOURCE,
        display_name="Ann\x00 🙂",
    )


def test_two_bots_have_lanes_of_their_own(db: SessionDB) -> None:
    assert ensured(db, namespace="other").id != ensured(db).id


def test_a_key_may_be_of_any_length(db: SessionDB) -> None:
    long = LaneKey("main", "matrix", "group", "!" * 5000, "a:b%", "\ud800")
    lane = ensured(db, long)
    assert (lane.key, ensured(db, long).id) == (long, lane.id)


def test_a_thread_and_a_person_of_one_id_are_two(db: SessionDB) -> None:
    """Their strings are the same; on some platforms people choose what a thread is called."""
    thread = LaneKey("main", "email", "group", "team", "7")
    person = LaneKey("main", "email", "group", "team", None, "7")
    lanes = Lanes(db.store)
    by_thread = ensured(db, thread)
    # As long as it is the only one, a plain string means it.
    assert ensured(db, str(thread.render())).id == by_thread.id
    by_person = ensured(db, person)
    assert by_person.session_key == by_thread.session_key
    assert (by_person.key, by_thread.key) == (person, thread)
    assert ensured(db, by_thread.session_key) == by_thread
    with db.provider.read() as tx:
        assert lanes.find(tx, "bot", by_person.session_key) == by_person
        assert lanes.find(tx, "bot", str(by_thread.session_key)) == by_person
        found = {lane.id for lane in lanes.with_key(tx, str(by_thread.session_key))}
        assert found == {by_thread.id, by_person.id}
        assert lanes.find(tx, "bot", "no key") is None
        assert lanes.with_key(tx, "no key") == []


@ONCE
def test_an_invalid_key_makes_no_lane(db: SessionDB) -> None:
    with pytest.raises(InvalidInput):
        ensured(db, "hello")


def test_changes_are_read_back(db: SessionDB) -> None:
    lanes, lane = Lanes(db.store), ensured(db)
    notice = LaneNotice("auto_reset", "idle", had_activity=True, previous_session_id="s0", at=1.5)
    changed = db.provider.write(
        lambda tx: lanes.change(
            tx,
            lane,
            session_id="s1",
            updated_at=NOON + 1.25,
            status="suspended",
            status_reason="stop",
            status_at=NOON,
            notice=notice,
            last_prompt_tokens=9,
            finalized_at=NOON + 2,
            origin=None,
        )
    )
    with db.provider.read() as tx:
        assert lanes.find(tx, "bot", KEY) == changed
        assert lanes.find_by_id(tx, lane.id) == changed
        assert lanes.by_session(tx, "bot", "s1") == changed
        assert lanes.by_session(tx, "other", "s1") is None
        assert lanes.with_status(tx, "bot", "suspended") == [changed]
    assert (changed.notice, changed.origin, changed.status) == (notice, None, "suspended")


def test_pages_follow_the_last_use(db: SessionDB) -> None:
    lanes = Lanes(db.store)
    for number in range(7):
        lane = ensured(db, LaneKey("main", "telegram", "dm", str(number)))
        used = NOON + number // 2
        db.provider.write(
            lambda tx, lane=lane, used=used: lanes.change(
                tx, lane, session_id=f"s{lane.key.chat_id}", updated_at=used
            )
        )
    ensured(db, LaneKey("main", "telegram", "dm", "without a session"))
    with db.provider.read() as tx:
        first = lanes.page(tx, "bot", limit=4)
        rest = lanes.page(tx, "bot", limit=4, before=first[-1])
        recent = lanes.page(tx, "bot", limit=9, since=NOON + 2)
        oldest = lanes.page_older(tx, "bot", limit=2, until=NOON + 2)
        older = lanes.page_older(tx, "bot", limit=9, until=NOON + 2, after=oldest[-1])
        prefixed = lanes.with_key_prefix(tx, "agent:main:telegram:dm:3", 9)
    assert [lane.session_id for lane in first + rest] == [f"s{n}" for n in range(6, -1, -1)]
    assert [lane.session_id for lane in recent] == ["s6", "s5", "s4"]
    assert [lane.key.chat_id for lane in oldest] == ["0", "1"]
    assert [lane.key.chat_id for lane in older][:2] in (
        ["2", "3"],
        ["without a session", "2"],
    )
    assert [lane.session_id for lane in prefixed] == ["s3"]


def test_transitions_are_kept_in_order_and_go_with_the_lane(db: SessionDB) -> None:
    lanes, lane = Lanes(db.store), ensured(db)
    written = [
        Transition(lane.id, NOON, "create", to_session_id="s1", facts={"why": "ü:\x00"}),
        Transition(lane.id, NOON, "reset", "idle", "watcher", "s1", "s2", {"mode": "idle"}),
    ]
    for transition in written:
        db.provider.write(lambda tx, one=transition: lanes.record(tx, one))
    with db.provider.read() as tx:
        found = lane_transitions.history(tx, lane.id)
        last = lane_transitions.history(tx, lane.id, limit=1)
    assert [one._replace(id=None) for one in found] == written
    assert last == found[1:]
    db.provider.write(lambda tx: lanes.remove(tx, lane))
    with db.provider.read() as tx:
        assert lane_transitions.history(tx, lane.id) == []
        assert lanes.find(tx, "bot", KEY) is None


def test_rivals_make_one_lane(db: SessionDB, open_another: OpenStore) -> None:
    handles = [db, open_another()]
    with ThreadPoolExecutor(8) as threads:
        made = list(
            threads.map(
                lambda n: ensured(handles[n % 2], LaneKey("main", "slack", "dm", str(n % 5))).id,
                range(40),
            )
        )
    assert len(set(made)) == 5
