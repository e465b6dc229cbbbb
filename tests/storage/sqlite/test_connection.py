"""Connections of this process, distinguished across threads."""

from __future__ import annotations

import threading
from pathlib import Path

from hermes_sessions.storage.sqlite.connection import (
    Deadline,
    SQLiteOptions,
    connections_to,
    open_connection,
)
from tests.storage.sqlite.programs import PATIENT


def test_a_connection_that_another_thread_uses_still_belongs_to_its_file(tmp_path: Path) -> None:
    paths = [str(tmp_path / name) for name in ("busy.db", "idle.db")]
    for path in paths:
        Path(path).touch()
    busy, idle = (
        open_connection(path, SQLiteOptions(), Deadline(), query_only=False) for path in paths
    )
    is_working, may_end = threading.Event(), threading.Event()

    def work() -> bool:
        is_working.set()
        return may_end.wait(PATIENT)

    busy.create_scalar_function("work", work)
    thread = threading.Thread(target=lambda: busy.execute("SELECT work()").fetchall())
    thread.start()
    assert is_working.wait(PATIENT)
    try:
        assert [connections_to(path) for path in paths] == [[busy], [idle]]
    finally:
        may_end.set()
        thread.join(PATIENT)
        busy.close()
        idle.close()
