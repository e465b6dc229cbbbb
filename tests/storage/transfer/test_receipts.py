"""Erasure receipts and holds are copied, and nothing that was erased."""

from __future__ import annotations

import itertools

import pytest

from hermes_sessions import SessionDB
from hermes_sessions.errors import OnHold
from hermes_sessions.storage.care.erasure.coordinator import Erasure
from hermes_sessions.storage.care.erasure.receipts import ErasureReceipt, ErasureReceipts
from hermes_sessions.storage.care.erasure.targets import ErasureSubject
from tests.care.erasure.scenario import everything
from tests.storage.transfer.stores import KINDS, NewStore, compared, move, opened, rows

ANN = ErasureSubject("user", "ann-4711")
LATE = ErasureSubject("session", "late")
SECRET = "xylographer"


def make_store(url: str) -> ErasureReceipt:
    """A store from which Ann was erased, in which a session is on hold, and from which another one
    is still to be erased: the process that began it was killed. Return Ann's receipt.
    """
    with opened(url) as db:
        db.create_session("hers", "telegram", user_id=ANN.id)
        db.append_message("hers", "user", f"I am a {SECRET}")
        for name in ("held", "late"):
            db.create_session(name, "cli")
            db.append_message(name, "user", "good morning")
        assert db.hold_session("held", "court order 漓江")
        receipt = Erasure(db.store).forget(ANN)
        assert receipt.status == "done"
        ErasureReceipts(db.store).begin(LATE, "0123456789abcdef")
    return receipt


def receipts(db: SessionDB) -> list[ErasureReceipt]:
    return Erasure(db.store).receipts()


@pytest.mark.parametrize(("first", "second"), list(itertools.product(KINDS, KINDS)))
def test_receipts_survive_a_migration(new_store: NewStore, first: str, second: str) -> None:
    source, target = new_store(first), new_store(second)
    done = make_store(source)
    assert move(source, target).differences == []
    found = compared(source, target)
    assert (found.differences, found.beside["erasures"], found.beside["holds"]) == ([], 2, 1)
    with opened(source, read_only=True) as left, opened(target) as right:
        assert receipts(right) == receipts(left)
        assert Erasure(right.store).receipts(ANN) == [done]
        text = everything(right)
        assert SECRET not in text
        assert ANN.id not in text
        assert right.list_holds() == left.list_holds() != []
        with pytest.raises(OnHold):
            right.delete_session("held")
        # What was not done there can be done here.
        assert Erasure(right.store).resume("0123").status == "done"
        assert right.get_session("late") is None


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_that_was_done_since_is_copied(new_store: NewStore, kind: str) -> None:
    """The data that a receipt needed to resume leaves the copy, too."""
    source, target = new_store("sqlite"), new_store(kind)
    make_store(source)
    move(source, target)
    pending = "SELECT COUNT(*) FROM erasures WHERE targets IS NOT NULL"
    assert rows(target, pending) == [(1,)]
    with opened(source) as db:
        Erasure(db.store).resume("0123")
    assert move(source, target).differences == []
    assert rows(target, pending) == [(0,)]
    assert compared(source, target).differences == []


def test_a_receipt_outlives_its_source(new_store: NewStore) -> None:
    """A source that was brought back from an old backup knows nothing of it any more."""
    source, target = new_store("sqlite"), new_store("sqlite")
    done = make_store(source)
    move(source, target)
    with opened(source) as db:
        db.provider.write(lambda tx: tx.run("DELETE FROM erasures"))
        db.lift_hold("held")
    move(source, target)
    with opened(target) as db:
        assert Erasure(db.store).receipts(ANN) == [done]
        assert db.list_holds() == []


def test_what_differs_is_named(new_store: NewStore) -> None:
    source, target = new_store("sqlite"), new_store("sqlite")
    done = make_store(source)
    move(source, target)
    with opened(target) as db:
        db.provider.write(lambda tx: tx.run("DELETE FROM erasures WHERE id = ?", (done.id,)))
        db.hold_session("held", "another reason")
    assert [tuple(each) for each in compared(source, target).differences] == [
        (f"erasures {done.id}", "only in the first"),
        ("holds held", "differs"),
    ]
