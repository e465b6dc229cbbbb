"""Erasure during turns, beside other erasures, and across crashes."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hermes_sessions import SessionDB, StaleFence
from hermes_sessions.errors import UnknownSession
from hermes_sessions.storage.care.erasure.coordinator import Erasure
from hermes_sessions.storage.care.erasure.receipts import ErasureReceipts
from hermes_sessions.storage.care.erasure.targets import ErasureSubject
from tests.care.erasure.scenario import (
    ANN,
    ANNS_CHAT,
    BOB,
    BOBS_CHAT,
    SECRET,
    ErasureScenario,
    everything,
    in_room,
    private,
)
from tests.servers.stores import OpenStore


@pytest.mark.fault(
    "A person is forgotten while their turn runs",
    "The turn is fenced off: it stores and sends nothing more",
)
def test_a_turn_that_runs(db: SessionDB, tmp_path: Path) -> None:
    """It can store nothing more, and its end is not accepted."""
    scenario = ErasureScenario(db, tmp_path)
    scenario.hear(private(ANN, ANNS_CHAT), f"a {SECRET}?")
    taken, lease = scenario.begin(private(ANN, ANNS_CHAT))
    assert Erasure(db.store).forget(ErasureSubject("user", ANN)).status == "done"
    with pytest.raises((StaleFence, UnknownSession)):
        db.append_message(taken.turn.session_id, "assistant", f"yes, {SECRET}", fence=lease.token)
    with pytest.raises(StaleFence):
        db.renew_lease(lease)
    assert not scenario.mail.finish(taken.turn, "completed").is_accepted
    left = everything(db)
    assert (SECRET in left, ANN in left) == (False, False)


def test_a_turn_that_runs_in_a_room(db: SessionDB, tmp_path: Path) -> None:
    """The turn of a forgotten person is fenced off; the room continues with the next turn."""
    scenario = ErasureScenario(db, tmp_path)
    scenario.talk(in_room(BOB), "hello", "hello Bob")
    scenario.hear(in_room(ANN), f"a {SECRET}?")
    taken, lease = scenario.begin(in_room(ANN))
    scenario.hear(in_room(BOB), "and me?")
    Erasure(db.store).forget(ErasureSubject("user", ANN))
    with pytest.raises(StaleFence):
        db.append_message(taken.turn.session_id, "assistant", f"yes, {SECRET}", fence=lease.token)
    assert not scenario.mail.finish(taken.turn, "completed").is_accepted
    assert SECRET not in everything(db)
    following, _ = scenario.begin(in_room(BOB))
    assert following.input.text == "and me?"


def test_a_turn_of_another_user_in_a_room(db: SessionDB, tmp_path: Path) -> None:
    """It runs to its end."""
    scenario = ErasureScenario(db, tmp_path)
    scenario.talk(in_room(ANN), f"a {SECRET}", f"yes, {SECRET}")
    scenario.hear(in_room(BOB), "and me?")
    taken, lease = scenario.begin(in_room(BOB))
    Erasure(db.store).forget(ErasureSubject("user", ANN))
    db.append_message(taken.turn.session_id, "assistant", "you, too", fence=lease.token)
    assert scenario.mail.finish(taken.turn, "completed").is_accepted
    assert [m["content"] for m in db.get_messages(taken.turn.session_id)] == ["and me?", "you, too"]


def test_a_chat_that_holds_its_session(db: SessionDB) -> None:
    """A terminal is in the middle of an answer."""
    db.create_session("s", "cli")
    db.append_message("s", "user", SECRET)
    lease = db.take_lease("s", "a chat")
    assert Erasure(db.store).forget(ErasureSubject("session", "s")).status == "done"
    with pytest.raises((StaleFence, UnknownSession)):
        db.append_message("s", "assistant", SECRET, fence=lease.token)
    db.release_lease(lease)
    assert SECRET not in everything(db)


def test_messages_that_arrive_meanwhile(open_store: OpenStore, tmp_path: Path) -> None:
    """Each is either forgotten or the beginning of something new; none belongs to nothing."""
    with open_store() as db, open_store() as other:
        scenario, eraser = ErasureScenario(db, tmp_path), Erasure(other.store)
        scenario.fill()
        begun, stop = threading.Event(), threading.Event()

        def talk() -> int:
            said = 0
            while not stop.is_set() or said < 5:
                scenario.hear(private(ANN, ANNS_CHAT), f"still {said}")
                scenario.hear(in_room(ANN), f"still here {said}")
                said += 1
                begun.set()
            return said

        with ThreadPoolExecutor(1) as pool:
            talking = pool.submit(talk)
            begun.wait(60)
            try:
                receipt = eraser.forget(ErasureSubject("user", ANN))
            finally:
                stop.set()
            talking.result()
        assert receipt.status == "done"
        assert SECRET not in everything(db)
        with db.provider.read() as tx:
            orphans = tx.all("SELECT id FROM mailbox WHERE lane_id NOT IN (SELECT id FROM lanes)")
        assert orphans == []
        scenario.talk(private(BOB, BOBS_CHAT), "and I?", "you, too")


def test_two_at_once(open_store: OpenStore, tmp_path: Path) -> None:
    with open_store() as db, open_store() as other:
        ErasureScenario(db, tmp_path).fill()
        ready = threading.Barrier(2)

        def forget(store: SessionDB) -> str:
            ready.wait(60)
            return Erasure(store.store).forget(ErasureSubject("user", ANN)).status

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(forget, (db, other)))
        erasure = Erasure(db.store)
        # On SQLite, one may have read while the other ended the log.
        assert {erasure.resume(receipt.id).status for receipt in erasure.receipts()} == {"done"}
        left = everything(db)
        assert (SECRET in left, ANN in left, BOB in left) == (False, False, True)


@pytest.mark.fault(
    "A process that forgets a person is killed after any write",
    "The next attempt continues; nothing of that person is left, and nothing of others is missing",
)
@pytest.mark.slow
def test_the_plug_is_pulled(store_url: str, tmp_path: Path) -> None:
    """After any write, the next attempt continues, and the last one leaves nothing."""
    with SessionDB.from_url(store_url) as db:
        ErasureScenario(db, tmp_path).fill()
    kills = 0
    for writes in (0, 1, 2, 3, 5, 8, 13, 1000):
        done = subprocess.run(
            [sys.executable, "-m", "tests.care.erasure.programs", store_url, ANN, str(writes)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode == 0:
            assert done.stdout.strip() == "done"
            break
        assert done.returncode == -signal.SIGKILL, done.stderr
        kills += 1
    assert kills >= 4
    with SessionDB.from_url(store_url) as db:
        [receipt] = Erasure(db.store).receipts()
        assert receipt.status == "done"
        left = everything(db)
        assert (SECRET in left, ANN in left, BOB in left) == (False, False, True)


def test_a_session_that_is_continued_meanwhile(db: SessionDB) -> None:
    """After it was found, and before it goes: the continuation goes, too."""
    db.create_session("s", "telegram", user_id=ANN)
    db.append_message("s", "user", SECRET)
    receipts = ErasureReceipts(db.store)
    receipt, _ = receipts.begin(ErasureSubject("user", ANN), "abc")
    db.continue_session("s", "s2", [{"role": "user", "content": f"{SECRET} so far"}])
    db.continue_session("s2", "s3", [{"role": "user", "content": f"{SECRET} by now"}])
    assert Erasure(db.store).resume(receipt.id).status == "done"
    assert db.session_count() == 0
    assert SECRET not in everything(db)
