"""Writers that are killed repeatedly: every acknowledged message is stored once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.assertions import require_stored_once
from tests.storage.sqlite.other_process import start

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("journal", "durability"), [("wal", "full"), ("wal", "normal"), ("delete", "full")]
)
@pytest.mark.fault(
    "A process that writes is killed",
    "Every acknowledged message is there once, in order",
    on="sqlite",
)
def test_every_acknowledged_message_is_there(
    journal: str, durability: str, tmp_path: Path, long_run: bool
) -> None:
    path = tmp_path / "state.db"
    acknowledged = -1
    for kill in range(100 if long_run else 8):
        with start("append_for_ever", path, journal, durability) as writer:
            # It begins with the message that may or may not have been stored.
            writer.tell(str(acknowledged + 1))
            for _ in range(1 + kill * 7 % 23):
                acknowledged = int(writer.said())
            writer.kill()
            for line in writer.all_it_says():
                acknowledged = int(line)
        require_stored_once(path, range(acknowledged + 1), also=[acknowledged + 1])


@pytest.mark.fault(
    "One of several that write is killed",
    "Every acknowledged message is there once, in order; the others continue at once",
    on="sqlite",
)
def test_several_writers(tmp_path: Path, long_run: bool) -> None:
    """One dies and the others continue; its locks are free at once."""
    path = tmp_path / "state.db"
    acknowledged = -1
    with start("keep_writing", path, "survivor", 1, "wal") as survivor:
        assert survivor.said() == "ready"
        survivor.tell()
        assert survivor.said() == "enough"
        for kill in range(30 if long_run else 5):
            with start("append_for_ever", path, "wal", "full") as writer:
                writer.tell(str(acknowledged + 1))
                for _ in range(2 + kill % 3):
                    acknowledged = int(writer.said())
                writer.kill()
                for line in writer.all_it_says():
                    acknowledged = int(line)
        survivor.tell("stop")
        survivor.said()
        survivor.succeeded()
    require_stored_once(path, range(acknowledged + 1), also=[acknowledged + 1])
