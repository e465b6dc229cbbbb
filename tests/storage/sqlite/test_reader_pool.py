"""The reader pool, and readers that were not returned."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import apsw

from hermes_sessions.storage.sqlite.connection import SQLiteOptions, open_connection
from hermes_sessions.storage.sqlite.reader_pool import ReaderPool
from tests.storage.sqlite.programs import PATIENT


def test_a_reader_that_was_not_given_back_is_closed(tmp_path: Path) -> None:
    """As after an interrupt: it must not keep an old state, nor a fork from happening."""
    path = tmp_path / "x.db"
    path.touch()
    readers = ReaderPool(
        lambda deadline: open_connection(str(path), SQLiteOptions(), deadline, query_only=True)
    )
    _, connection = readers.borrow(1.0)
    connection.execute("BEGIN")
    del _, connection
    assert readers.hold(0.0)
    readers.resume()
    assert readers.forget_after_fork() == ([], [])


def test_a_thread_does_not_wait_for_its_own_read(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    path.touch()
    readers = ReaderPool(
        lambda deadline: open_connection(str(path), SQLiteOptions(), deadline, query_only=True)
    )
    reader, _ = readers.borrow(1.0)
    assert not readers.hold(time.monotonic() + PATIENT)
    held = []
    thread = threading.Thread(target=lambda: held.append(readers.hold(0.0)))
    thread.start()
    thread.join()
    assert held == [False]
    readers.give_back(reader)
    readers.close()


def test_a_reader_that_is_given_back_while_all_are_renewed_is_not_used_again() -> None:
    readers = ReaderPool(lambda _deadline: apsw.Connection(":memory:"))
    reader, connection = readers.borrow(1.0)
    connection.execute("BEGIN")

    def renewed_meanwhile(*_statement: object) -> bool:
        readers.renew()
        return True

    connection.exec_trace = renewed_meanwhile  # Called for the ROLLBACK of `give_back`.
    readers.give_back(reader)
    assert readers.borrow(1.0)[1] is not connection
    readers.close()
