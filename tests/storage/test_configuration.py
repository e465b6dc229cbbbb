"""The configuration applies to a store that is opened without a path."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes_sessions.errors import MessageTooLarge
from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions_testing.clock import FrozenClock


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(("days", "purged"), [(3, True), (4, False), (0, True)])
def test_how_long_the_trash_keeps(home: Path, days: int, purged: bool) -> None:
    (home / "config.yaml").write_text(f"sessions:\n  trash_days: {days}\n")
    clock = FrozenClock()
    with SessionDB(clock=clock) as db:
        db.create_session("s", "cli")
        db.trash_sessions(["s"])
        clock.advance(days=3)
        assert ("purged" in db.maybe_auto_prune_and_vacuum()) is purged
        assert (db.list_trash() == []) is purged


def test_how_large_a_message_may_be(home: Path) -> None:
    (home / "config.yaml").write_text("sessiondb:\n  max_message_bytes: 1KB\n")
    with SessionDB() as db:
        db.create_session("s", "cli")
        with pytest.raises(MessageTooLarge):
            db.append_message("s", "user", "x" * 2_000)
