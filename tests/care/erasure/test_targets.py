"""Erasure of a user, a chat or a session: what is deleted, and what stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes_sessions import InvalidInput, SessionDB
from hermes_sessions.errors import NotFound, OnHold
from hermes_sessions.storage.care.erasure.coordinator import Erasure
from hermes_sessions.storage.care.erasure.targets import ErasureSubject
from tests.care.erasure.scenario import (
    ANN,
    ANNS_CHAT,
    BOB,
    BOBS_CHAT,
    ROOM,
    SECRET,
    ErasureScenario,
    everything,
    in_room,
    private,
)
from tests.servers.stores import ONCE


@pytest.fixture
def scenario(db: SessionDB, tmp_path: Path) -> ErasureScenario:
    return ErasureScenario(db, tmp_path)


def unchanging(db: SessionDB) -> str:
    """All rows, once the index is up to date: the background indexer has nothing left to do."""
    db.optimize_search()
    return everything(db)


def test_a_person(scenario: ErasureScenario) -> None:
    """Nothing that Ann wrote, and nothing about her, is in any row; Bob misses nothing."""
    sessions = scenario.fill()
    db = scenario.db
    bobs = db.get_messages(sessions["bob"])
    receipt = Erasure(db.store).forget(ErasureSubject("user", ANN))
    assert receipt.status == "done", receipt
    left = everything(db)
    for needle in (SECRET, ANN, ANNS_CHAT, sessions["ann"]):
        assert needle not in left, needle
    assert db.get_messages(sessions["bob"]) == bobs
    assert db.search(SECRET).hits == []
    room = db.get_messages(sessions["room"])
    assert [(m["ordinal"], m["content"]) for m in room] == [
        (1, "hello all"),
        (2, "hello Bob"),
        (5, "is it late?"),
        (6, "it is noon"),
    ]
    session = db.get_session(sessions["room"])
    assert session is not None
    assert session["message_count"] == 4
    assert [row.id for row in scenario.outbox.list(["waiting"])] != []
    assert BOB in left
    with db.provider.read() as tx:
        waiting = tx.all("SELECT text FROM mailbox WHERE status = ?", ("waiting",))
    assert waiting == [("waiting, too",)], "what waits from others stays"


def test_a_chat(scenario: ErasureScenario) -> None:
    """A room is erased as a whole, for every sender; the people in it stay known."""
    sessions = scenario.fill()
    receipt = Erasure(scenario.db.store).forget(ErasureSubject("chat", ROOM, "telegram"))
    assert receipt.status == "done"
    left = everything(scenario.db)
    for needle in (ROOM, sessions["room"], "it is noon"):
        assert needle not in left, needle
    assert scenario.db.get_session(sessions["ann"]) is not None
    assert SECRET in left


def test_a_session(scenario: ErasureScenario) -> None:
    """Erase its lineage and its traces in the lane; the lane starts a new session."""
    sessions = scenario.fill()
    receipt = Erasure(scenario.db.store).forget(ErasureSubject("session", "cont"))
    assert receipt.status == "done"
    left = everything(scenario.db)
    for needle in (sessions["ann"], "The xylographer story", "xylographer summary"):
        assert needle not in left, needle
    assert f"{SECRET} in the bin" in left
    assert f"another {SECRET}" in left
    entry = scenario.sessions.get_or_create_session(private(ANN, ANNS_CHAT))
    assert entry.session_id not in sessions.values()


def test_an_alias_is_enough(scenario: ErasureScenario) -> None:
    scenario.fill()
    Erasure(scenario.db.store).forget(ErasureSubject("user", f"{ANN}-alias", "telegram"))
    assert SECRET not in everything(scenario.db)


def test_another_platform_is_left_alone(scenario: ErasureScenario) -> None:
    scenario.fill()
    before = unchanging(scenario.db)
    erasure = Erasure(scenario.db.store)
    assert erasure.plan(ErasureSubject("user", ANN, "signal")).is_empty
    erasure.forget(ErasureSubject("user", ANN, "signal"))
    assert everything(scenario.db, but=("erasures",)) == "\n".join(before.splitlines())


def test_a_summary_that_was_made_of_it(scenario: ErasureScenario) -> None:
    """A person cannot be cut out of a summary, so the summary and its messages are erased."""
    sessions = scenario.fill()
    db = scenario.db
    kept = [
        {"role": "user", "content": f"Summary: Ann is a {SECRET}"},
        {"role": "user", "content": f"{SECRET} here"},
        {"role": "assistant", "content": f"hello {SECRET}"},
        {"role": "user", "content": "is it late?"},
        {"role": "assistant", "content": "it is noon"},
    ]
    db.continue_session(sessions["room"], "room-2", kept)
    db.set_session_title("room-2", f"About {SECRET}")
    Erasure(db.store).forget(ErasureSubject("user", ANN))
    assert SECRET not in everything(db)
    assert [m["content"] for m in db.get_messages("room-2")] == ["is it late?", "it is noon"]


def test_a_plan_changes_nothing(scenario: ErasureScenario) -> None:
    scenario.fill()
    before = unchanging(scenario.db)
    plan = Erasure(scenario.db.store).plan(ErasureSubject("user", ANN))
    assert everything(scenario.db) == before
    assert plan.targets.platforms == ("telegram",)
    counts = plan.places["database"]
    assert (counts["sessions"], counts["lanes"]) == (4, 1)
    assert counts["messages in shared rooms"] == 1


def test_receipts_can_be_asked_for(scenario: ErasureScenario) -> None:
    """They say what was done, are found by the id of the subject, and name no person."""
    scenario.fill()
    erasure = Erasure(scenario.db.store)
    done = erasure.forget(ErasureSubject("user", ANN))
    erasure.forget(ErasureSubject("chat", ROOM))
    assert erasure.receipts(ErasureSubject("user", ANN)) == [done]
    assert len(erasure.receipts()) == 2
    assert erasure.resume(done.id[:6]) == done
    step = done.step("database")
    assert step is not None
    assert (step.removed["sessions"], step.removed["lanes"]) == (4, 1)
    assert [s.place for s in done.steps] == ["database", "search index", "store files"]
    # The receipt names what only the operator of the server can erase.
    assert done.steps[-1].why == scenario.db.provider.keeps
    assert (done.steps[-1].why is None) == (scenario.db.provider.name == "sqlite")


@pytest.mark.parametrize("wrong", [ErasureSubject("user", " "), ErasureSubject("group", "1")])  # type: ignore[arg-type]
@ONCE
def test_an_invalid_subject(db: SessionDB, wrong: ErasureSubject) -> None:
    with pytest.raises(InvalidInput):
        Erasure(db.store).forget(wrong)
    assert Erasure(db.store).receipts() == []


def test_no_such_receipt(db: SessionDB) -> None:
    with pytest.raises(NotFound, match="There is no receipt 'x'"):
        Erasure(db.store).resume("x")


def test_what_a_lane_says_about_a_session_before(scenario: ErasureScenario) -> None:
    """The lane is in another session, and the user has not been told yet."""
    sessions = scenario.fill()
    key = scenario.sessions.session_key(private(BOB, BOBS_CHAT))
    scenario.sessions.reset_session(key)
    assert sessions["bob"] in everything(scenario.db)
    Erasure(scenario.db.store).forget(ErasureSubject("session", sessions["bob"]))
    assert sessions["bob"] not in everything(scenario.db)


@pytest.mark.parametrize("held", ["ann", "room"])
def test_what_is_on_hold_is_not_forgotten(scenario: ErasureScenario, held: str) -> None:
    """Not even a part of it, until the hold is lifted."""
    sessions = scenario.fill()
    scenario.db.hold_session(sessions[held], "a lawsuit")
    before = unchanging(scenario.db)
    with pytest.raises(OnHold, match="a lawsuit"):
        Erasure(scenario.db.store).forget(ErasureSubject("user", ANN))
    assert everything(scenario.db) == before
    scenario.db.lift_hold(sessions[held])
    assert Erasure(scenario.db.store).forget(ErasureSubject("user", ANN)).status == "done"
    assert SECRET not in everything(scenario.db)


def test_replies_of_a_purged_session_go_with_it(scenario: ErasureScenario) -> None:
    """Those that were sent: what waits to be sent was promised."""
    sessions = scenario.fill()
    [reply] = [
        r for r in scenario.outbox.claim(["telegram"], "x", seconds=60, limit=9) if SECRET in r.text
    ][:1]
    scenario.outbox.sent(reply)
    scenario.db.delete_session(sessions["bob"])
    assert reply.text in everything(scenario.db)
    scenario.db.delete_sessions(["cont", sessions["ann"]])
    with scenario.db.provider.read() as tx:
        assert tx.all("SELECT id FROM outbox WHERE id = ?", (reply.id,)) == []


def test_what_a_turn_in_a_room_failed_with(scenario: ErasureScenario) -> None:
    """An error of a model may repeat what it was asked."""
    scenario.hear(in_room(ANN), f"{SECRET}?")
    taken, lease = scenario.begin(in_room(ANN))
    scenario.mail.finish(taken.turn, "failed", detail=f"refused: {SECRET}")
    scenario.leases.release(lease)
    assert Erasure(scenario.db.store).forget(ErasureSubject("user", ANN)).status == "done"
    assert SECRET not in everything(scenario.db)
