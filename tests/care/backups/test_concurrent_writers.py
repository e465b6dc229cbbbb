"""Backups of stores under write load: one consistent state, and no writer waits."""

from __future__ import annotations

import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from hermes_sessions import SessionDB
from hermes_sessions.storage.care.backups.backup_contents import opened_as_store
from hermes_sessions.storage.care.backups.creation import create_backup
from hermes_sessions.storage.sqlite import store_image
from hermes_sessions.storage.sqlite.connection import SQLiteOptions
from hermes_sessions.storage.sqlite.provider import SQLiteSessionDBProvider
from tests.care.backups.sample_stores import everything
from tests.storage.transfer.stores import KINDS, NewStore, opened

GENEROUS = 120.0


class Writer:
    """Appends to two sessions in turn: in one state, the first is ahead by one at most."""

    def __init__(self, db: SessionDB) -> None:
        self._db = db
        self._ending = threading.Event()
        self._changed = threading.Condition()
        self.written = 0
        self.error: Exception | None = None
        self._thread = threading.Thread(target=self._run)
        for name in ("first", "second"):
            db.create_session(name, "cli")

    def _run(self) -> None:
        try:
            while not self._ending.is_set():
                for name in ("first", "second"):
                    self._db.append_message(name, "user", f"message {self.written} " * 20)
                    with self._changed:
                        self.written += 1
                        self._changed.notify_all()
        except Exception as error:  # noqa: BLE001 - the main thread raises it
            self.error = error
            with self._changed:
                self._changed.notify_all()

    def require_more(self, more: int) -> None:
        """Wait until it has written *more* messages; fails if the backup blocks it."""
        with self._changed:
            goal = self.written + more
            assert self._changed.wait_for(
                lambda: self.written >= goal or self.error is not None, GENEROUS
            )
        assert self.error is None

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._ending.set()
        self._thread.join()


def require_one_state(path: Path) -> int:
    """Check that the backup is the store at one moment; return how many messages it has."""
    with opened_as_store(path) as provider:
        rows = everything(provider)
    lengths: dict[str, int] = {}
    for row in rows["messages"]:
        lengths[row[1]] = lengths.get(row[1], 0) + 1
    assert lengths.get("first", 0) - lengths.get("second", 0) in (0, 1)
    counts = {row[0]: row[10] for row in rows["sessions"] if row[0] in ("first", "second")}
    assert all(counts[name] == lengths.get(name, 0) for name in counts)
    return sum(lengths.values())


@pytest.mark.parametrize(("kind", "portable"), [("sqlite", False), *((k, True) for k in KINDS)])
@pytest.mark.fault(
    "A backup is made while others write",
    "No writer waits; the backup is one state, with every message acknowledged before",
)
def test_writers_continue(kind: str, portable: bool, new_store: NewStore, directory: Path) -> None:
    url = new_store(kind)
    with opened(url) as db:
        for number in range(120):
            db.create_session(f"s{number:03}", "cli")
            db.append_messages(f"s{number:03}", [{"role": "user", "content": "x" * 500}] * 20)
        asked: list[str] = []
        with opened(url) as writing, Writer(writing) as writer:
            writer.require_more(4)

            def on_progress(what: str, _done: int, _total: int) -> None:
                # In the middle of the work: it waits here until the writer has continued.
                if asked.count(what) < 3:
                    asked.append(what)
                    writer.require_more(3)

            made = create_backup(db, directory, portable=portable, on_progress=on_progress)
            after = writer.written
            writer.require_more(1)
    assert ("Copying" if kind == "sqlite" else "Writing") in asked
    found = require_one_state(made.path) - 120 * 20
    assert 4 <= found < after


@pytest.mark.parametrize("patience", [4, 0], ids=["between steps", "in one go"])
def test_with_a_rollback_journal(
    patience: int, tmp_path: Path, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy is made in steps; when there is no end of commits, in one go."""
    monkeypatch.setattr(store_image, "_PAGES_AT_ONCE", 16)
    monkeypatch.setattr(store_image, "_PATIENCE", patience)
    options = SQLiteOptions(journal="delete", lock_timeout=GENEROUS)

    def store() -> SessionDB:
        return SessionDB(provider=SQLiteSessionDBProvider(tmp_path / "state.db", options))

    with store() as db, store() as writing, Writer(writing) as writer:
        writer.require_more(60)
        steps: list[Any] = []

        def on_progress(what: str, _done: int, _total: int) -> None:
            if what == "Copying" and len(steps) < 3 and patience:
                steps.append(what)
                writer.require_more(1)

        made = create_backup(db, directory, on_progress=on_progress)
        writer.require_more(1)
    assert require_one_state(made.path) >= 60


def test_with_a_rollback_journal_and_a_writer_that_is_faster(
    tmp_path: Path, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is added between two steps does not count: it would never end."""
    monkeypatch.setattr(store_image, "_PAGES_AT_ONCE", 4)
    options = SQLiteOptions(journal="delete", lock_timeout=GENEROUS)
    in_one_go: list[bool] = []
    copy_pages = store_image.copy_pages

    def noting(*arguments: Any) -> None:
        in_one_go.append(True)
        copy_pages(*arguments)

    monkeypatch.setattr(store_image, "copy_pages", noting)

    def store() -> SessionDB:
        return SessionDB(provider=SQLiteSessionDBProvider(tmp_path / "state.db", options))

    with store() as db, store() as writing, Writer(writing) as writer:
        writer.require_more(10)
        steps: list[str] = []

        def on_progress(what: str, _done: int, _total: int) -> None:
            if what == "Copying" and not in_one_go:
                steps.append(what)
                assert len(steps) < 1000
                writer.require_more(30)

        made = create_backup(db, directory, on_progress=on_progress)
    assert in_one_go
    assert require_one_state(made.path) >= 10


def test_with_a_rollback_journal_and_a_connection_that_always_blocks(tmp_path: Path) -> None:
    """The copy succeeds in one go although no step-by-step copy was possible."""
    path = tmp_path / "source.db"
    with (
        closing(apsw.Connection(str(path))) as source,
        closing(apsw.Connection(str(path))) as other,
        closing(apsw.Connection(str(tmp_path / "copy.db"))) as copy,
    ):
        other.execute("CREATE TABLE t (x)")
        other.execute("BEGIN EXCLUSIVE")
        assert not store_image._copy_in_turns(source, copy, lambda _done, _total: None)
        other.execute("COMMIT")
