"""Several processes that write and read continuously: the log stays short."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from hermes_sessions import SessionDB
from tests.storage.sqlite.integrity import require_sound
from tests.storage.sqlite.other_process import start
from tests.storage.sqlite.programs import PATIENT

pytestmark = pytest.mark.slow

MEGABYTE = 1024 * 1024
#: What a commit frees the log at, one largest transaction, and room for all that write meanwhile.
LONGEST_LOG = 48 * MEGABYTE


def test_the_log_stays_short(tmp_path: Path, long_run: bool) -> None:
    """More is written than the log may hold, by four processes, while others read."""
    path = tmp_path / "state.db"
    enough = 10_000 if long_run else 1_200
    lengths: list[int] = []
    stop = threading.Event()
    with SessionDB(path, lock_timeout=PATIENT) as db, ExitStack() as others:
        db.create_session("s", source="test")
        for _ in range(30):
            db.append_message("s", role="user", content="x" * 3000)

        def read() -> None:
            while not stop.is_set():
                db.get_messages("s")
                lengths.append(Path(f"{path}-wal").stat().st_size)

        readers = [threading.Thread(target=read) for _ in range(2)]
        writers = [
            others.enter_context(start("keep_writing", path, f"w{number}", enough, "wal"))
            for number in range(4)
        ]
        for writer in writers:
            assert writer.said() == "ready"
        for reader in readers:
            reader.start()
        try:
            for writer in writers:
                writer.tell()
            for writer in writers:
                assert writer.said() == "enough"
            for writer in writers:
                writer.tell("stop")
            written = sum(int(writer.said()) for writer in writers)
            for writer in writers:
                writer.succeeded()
        finally:
            stop.set()
            for reader in readers:
                reader.join()
        assert db.message_count() == written + 30
    # Every message takes several pages of the log.
    assert written * 3 * 4096 > LONGEST_LOG
    assert max(lengths) < LONGEST_LOG
    require_sound(path)
