"""Ctrl-C at any point of a write or a read leaves no lock or partial write."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from hermes_sessions import SessionDB
from tests.storage.sqlite.other_process import start

pytestmark = pytest.mark.slow


def test_no_lock_is_left_behind(tmp_path: Path, long_run: bool) -> None:
    path = tmp_path / "state.db"
    count = 20_000 if long_run else 1_000
    with start("append_through_interrupts", path, count) as other:
        assert other.said() == "ready"
        while not other.has_spoken(within=0.0005):
            other.send(signal.SIGINT)
        acknowledged = set(other.said().split()[1:])
        assert other.said() == "still works"
        # Others can write while it sits there.
        with SessionDB(path) as db:
            db.append_message("s", role="user", content="z")
            with db.provider.read() as tx:
                rows = tx.all("SELECT external_id FROM messages WHERE external_id IS NOT NULL")
        other.tell()
        other.succeeded()
    stored = [row[0] for row in rows]
    assert acknowledged <= set(stored)
    assert len(stored) == len(set(stored))
