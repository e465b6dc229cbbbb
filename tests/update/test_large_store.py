"""A large store is migrated while the earlier version writes to it; a kill only delays it."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hermes_sessions import SessionDB
from tests.storage.sqlite.integrity import require_sound
from tests.update.test_mixed_versions import PRESENT, NewStore, Writer, new_store
from tests.update.versions import ROOT, unpack

__all__ = ["new_store"]
pytestmark = pytest.mark.slow

MESSAGES = 20_000
MANY_MESSAGES = 200_000


def filled_by(version: Path, url: str, messages: int) -> None:
    command = [sys.executable, ROOT / "tests" / "update" / "bulk.py", url, str(messages)]
    subprocess.run(command, env={**os.environ, "PYTHONPATH": str(version)}, check=True)


def test_it_is_migrated_while_the_earlier_version_writes(
    new_store: NewStore, tmp_path: Path, long_run: bool, request: pytest.FixtureRequest
) -> None:
    url, messages = new_store(), MANY_MESSAGES if long_run else MESSAGES
    earlier = unpack("0.2.0", tmp_path / "releases")
    filled_by(earlier, url, messages)
    chance = random.Random(f"large {request.node.name}")
    running = Writer(earlier, url, "running")
    with running.process:
        running.go()
        running.has_written.wait()
        for attempt in range(3):
            victim = Writer(PRESENT, url, f"victim{attempt}")
            with victim.process:
                victim.go()
                victim.is_open.wait(chance.uniform(0.05, 0.5))
                victim.end(signal.SIGKILL)
                victim.finish()
        following = Writer(PRESENT, url, "following")
        with following.process:
            following.go()
            following.has_written.wait()
            for writer in (running, following):
                writer.end(signal.SIGTERM)
                assert writer.finish()[0] == 0, writer.refusal
    with SessionDB.from_url(url) as db:
        assert not db.provider.steps().waiting
        assert db.get_session("s49")["message_count"] == messages // 50  # type: ignore[index]
        with db.provider.read() as tx:
            for writer in (running, following):
                rows = tx.all(
                    "SELECT external_id FROM messages WHERE external_id LIKE ?",
                    (f"{writer.name}-%",),
                )
                stored = {int(row[0].partition("-")[2]) for row in rows}
                assert set(writer.acknowledged) <= stored
                assert len(rows) == len(stored)
    if url.startswith("sqlite"):
        require_sound(Path(url.removeprefix("sqlite:///")))
