"""The write-ahead log restarts under constant load and never waits for slow readers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hermes_sessions import SessionDB
from hermes_sessions.storage.sqlite import checkpoint
from hermes_sessions.storage.sqlite.provider import SQLiteSessionDBProvider
from tests.storage.sqlite.integrity import require_sound
from tests.storage.sqlite.programs import PATIENT

PAGE = 4096
#: Pages of a log that has started over in time; these tests write several times as many.
LONG = 600


@pytest.fixture
def small_thresholds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that counts as long soon, so that little must be written."""
    monkeypatch.setattr(checkpoint, "WAKE_PAGES", 25)
    monkeypatch.setattr(checkpoint, "PATIENT_PAGES", 100)
    monkeypatch.setattr(checkpoint, "INLINE_PAGES", 300)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


@pytest.fixture
def db(path: Path, small_thresholds: None) -> Iterator[SessionDB]:
    with SessionDB(path, durability="normal", lock_timeout=PATIENT) as db:
        for number in range(4):
            db.create_session(f"s{number}", source="test")
        yield db


def write(db: SessionDB, count: int) -> None:
    with ThreadPoolExecutor(4) as pool:
        for number in range(count):
            pool.submit(db.append_message, f"s{number % 4}", role="user", content="x" * 4000)


def log_pages(path: Path) -> int:
    return Path(f"{path}-wal").stat().st_size // (PAGE + 24)


def test_writers_without_a_pause(db: SessionDB, path: Path) -> None:
    """More is written than the log ever holds."""
    write(db, 600)
    assert log_pages(path) < LONG
    assert sum(len(db.get_messages(f"s{number}")) for number in range(4)) == 600
    db.close()
    require_sound(path)


def test_readers_without_a_pause(db: SessionDB, path: Path) -> None:
    """One reader comes before the last has gone, so that there is always one."""
    write(db, 20)
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            db.get_messages("s0", limit=20)

    with ThreadPoolExecutor(3) as pool:
        readers = [pool.submit(read) for _ in range(3)]
        try:
            write(db, 600)
        finally:
            stop.set()
        for reader in readers:
            reader.result()
    assert log_pages(path) < LONG


def test_a_long_reader_does_not_block_writers(db: SessionDB, path: Path) -> None:
    """The log grows for that long, and starts over afterwards."""
    write(db, 4)
    with db.provider.read() as tx:
        assert tx.one("SELECT COUNT(*) FROM messages") == (4,)
        write(db, 200)
        assert log_pages(path) > 200
        assert tx.one("SELECT COUNT(*) FROM messages") == (4,)
    write(db, 300)
    db.close()
    assert not Path(f"{path}-wal").exists()
    require_sound(path)


def log_number(path: Path) -> bytes:
    """What the log's header counts up whenever it starts over."""
    return Path(f"{path}-wal").read_bytes()[12:16]


def test_a_log_without_readers_starts_over_soon(
    db: SessionDB, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PATIENT_PAGES", "INLINE_PAGES"):
        monkeypatch.setattr(checkpoint, name, 10**9)
    write(db, 1)
    first = log_number(path)
    while log_number(path) == first:
        write(db, 1)


def test_only_a_long_log_waits_for_readers(
    db: SessionDB, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PATIENT_PAGES", "INLINE_PAGES"):
        monkeypatch.setattr(checkpoint, name, 10**9)
    monkeypatch.setattr(checkpoint, "READER_PATIENCE", PATIENT)
    write(db, 4)
    with db.provider.read() as tx:
        assert tx.one("SELECT COUNT(*) FROM messages") == (4,)
        write(db, 200)
    assert log_pages(path) > 200


def test_a_dead_thread_is_replaced(db: SessionDB, path: Path) -> None:
    assert isinstance(db.provider, SQLiteSessionDBProvider)
    checkpointer = db.provider.engine._checkpointer
    write(db, 60)
    first = checkpointer._thread
    assert first is not None
    assert checkpointer.stop(PATIENT)
    checkpointer._stopping = False
    write(db, 400)
    assert checkpointer._thread is not first
    assert log_pages(path) < LONG


def test_space_is_given_back(db: SessionDB, path: Path) -> None:
    for _ in range(5):
        db.append_message("s0", role="user", content="x" * 1_000_000)
    full = db.provider.size_bytes()
    db.delete_session("s0")
    # A reader that stays keeps the old pages; it does not keep the store from being rebuilt.
    with db.provider.read() as tx:
        assert tx.one("SELECT COUNT(*) FROM sessions") == (3,)
        db.provider.reclaim()
    db.provider.reclaim()
    assert db.provider.size_bytes() < full / 2
