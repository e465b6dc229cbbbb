"""After an erasure on SQLite, no byte of it is left in the files, log and index included."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_sessions import SessionDB
from hermes_sessions.storage.care.erasure.coordinator import Erasure
from hermes_sessions.storage.care.erasure.row_removal import scrub
from hermes_sessions.storage.care.erasure.targets import ErasureSubject
from hermes_sessions.storage.sqlite import provider as sqlite_provider
from hermes_sessions.text.token_encoder import document
from hermes_sessions_testing.clock import FrozenClock
from tests.care.erasure.disk_scan import found_in
from tests.care.erasure.scenario import ANN, ANNS_CHAT, SECRET, ErasureScenario

TOKEN = document([SECRET]).tokens.split()[0]
NEEDLES = (SECRET, TOKEN, ANN, ANNS_CHAT)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store" / "state.db"


@pytest.fixture
def db(path: Path) -> Iterator[SessionDB]:
    with SessionDB(path, clock=FrozenClock()) as db:
        yield db


@pytest.fixture
def scenario(db: SessionDB, tmp_path: Path) -> ErasureScenario:
    return ErasureScenario(db, tmp_path)


def churn(db: SessionDB) -> None:
    """Move rows about for a while, as years of use do, so that copies of them are left behind."""
    chance = random.Random(7)
    for number in range(60):
        name = f"c{number}"
        db.create_session(name, "cli", user_id=ANN if number % 2 else "another user")
        word = SECRET if number % 2 else "nothing"
        for _ in range(chance.randint(1, 6)):
            db.append_message(name, "user", f"{word} " * chance.randint(1, 900))
        db.set_session_title(name, f"{word} {number}")
        db.set_session_title(name, f"{word} {number} {'again ' * chance.randint(1, 8)}")
        if number % 10 == 9:
            db.optimize_search()
        if number % 7 == 0:
            db.replace_messages(name, [{"role": "user", "content": f"{word} again"}])
        if number % 5 == 0:
            db.delete_session(name)


def test_nothing_is_left(scenario: ErasureScenario, path: Path) -> None:
    scenario.fill()
    churn(scenario.db)
    assert {word for _, word in found_in(path, NEEDLES)} == set(NEEDLES)
    receipt = Erasure(scenario.db.store).forget(ErasureSubject("user", ANN))
    assert receipt.status == "done"
    assert found_in(path, NEEDLES) == []
    assert scenario.db.message_count() > 0
    scenario.db.close()
    assert found_in(path, NEEDLES) == []


def test_a_rollback_journal(tmp_path: Path, path: Path) -> None:
    from hermes_sessions.storage.sqlite.connection import SQLiteOptions
    from hermes_sessions.storage.sqlite.provider import SQLiteSessionDBProvider

    provider = SQLiteSessionDBProvider(path, SQLiteOptions(journal="delete"))
    with SessionDB(provider=provider, clock=FrozenClock()) as db:
        scenario = ErasureScenario(db, tmp_path)
        scenario.fill()
        assert Erasure(db.store).forget(ErasureSubject("user", ANN)).status == "done"
        assert found_in(path, NEEDLES) == []


@pytest.mark.fault(
    "A reader keeps an earlier state of the store open while a person is forgotten",
    "The receipt says that it is pending; the next attempt leaves no bytes",
    on="sqlite",
)
def test_a_reader_of_a_state_from_before(
    scenario: ErasureScenario, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stays pending while a reader is open, and says so; the next attempt finishes it."""
    monkeypatch.setattr(sqlite_provider, "_READER_PATIENCE", 0.01)
    scenario.fill()
    erasure = Erasure(scenario.db.store)
    with scenario.db.provider.read() as tx:
        tx.one("SELECT COUNT(*) FROM messages")
        receipt = erasure.forget(ErasureSubject("user", ANN))
        assert receipt.status == "pending"
        [step] = receipt.pending
        assert (step.place, "older snapshot" in str(step.why)) == ("store files", True)
        assert found_in(path, [SECRET]) != []
        assert erasure.resume(receipt.id).status == "pending"
    done = erasure.resume(receipt.id)
    assert (done.status, done.pending) == ("done", ())
    assert found_in(path, NEEDLES) == []


def test_a_large_store_is_not_rebuilt_unasked(
    scenario: ErasureScenario, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A caller waits for minutes only on request; bytes that may be left are pending."""
    monkeypatch.setattr(sqlite_provider, "_REBUILT_AT_ONCE", 0)
    scenario.fill()
    erasure = Erasure(scenario.db.store)
    receipt = erasure.forget(ErasureSubject("user", ANN))
    assert [step.place for step in receipt.pending] == ["store files"]
    assert "until the file is rebuilt" in str(receipt.pending[0].why)
    assert erasure.resume(receipt.id).status == "pending"
    assert erasure.resume(receipt.id, rebuild=True).status == "done"
    assert found_in(path, NEEDLES) == []


def test_pages_that_are_given_back_are_overwritten(
    db: SessionDB, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where nothing is rebuilt, most of it is gone; only ends of pages may have some."""
    monkeypatch.setattr(sqlite_provider, "_REBUILT_AT_ONCE", 0)
    monkeypatch.setattr(sqlite_provider.SQLiteSessionDBProvider, "trim", lambda _: 0)
    db.create_session("s", "cli")
    db.append_message("s", "user", f"{'long ' * 5000}{SECRET}{' long' * 5000}")
    db.optimize_search()
    assert found_in(path, [SECRET]) != []
    Erasure(db.store).forget(ErasureSubject("session", "s"))
    assert found_in(path, [SECRET]) == []


def test_scrubbing_after_a_deletion(db: SessionDB, path: Path) -> None:
    db.create_session("s", "cli")
    db.append_message("s", "user", SECRET)
    db.set_session_title("s", f"My {SECRET}")
    db.optimize_search()
    db.delete_session("s")
    assert found_in(path, [SECRET]) != []
    assert [step.status for step in scrub(db.store)] == ["done", "done"]
    assert found_in(path, [SECRET, TOKEN]) == []


def test_a_store_in_memory() -> None:
    with SessionDB.from_url("sqlite://") as db:
        db.create_session("s", "cli")
        assert [step.status for step in scrub(db.store)] == ["done", "done"]
