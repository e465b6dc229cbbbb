"""A process that has a store open, and one that dies with writes in the log."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_HOLD = """
import sys
from hermes_sessions import SessionDB
with SessionDB(sys.argv[1]) as db:
    db.session_count()
    print("open", flush=True)
    sys.stdin.readline()
"""
_DIE = """
import os, sys
from hermes_sessions import SessionDB
db = SessionDB(sys.argv[1])
db.ensure_session(sys.argv[2], source="cli")
for _ in range(5):
    db.append_message(sys.argv[2], "user", sys.argv[3])
os._exit(0)
"""
_REPAIR = """
import os, sys
from pathlib import Path
from hermes_sessions.errors import StoreReadOnly
from hermes_sessions.storage.care.repair.report import RepairOptions
from hermes_sessions.storage.care.repair.file_repair import repair
folder = Path(sys.argv[1])
# Import everything now: the other user may not be allowed to read the modules.
warm = folder / "warm.db"
warm.write_bytes((folder / "store" / "state.db").read_bytes())
repair(warm, RepairOptions(way="rows"))
if os.geteuid() == 0:
    # Nothing is read-only for root.
    for place in (folder, folder / "store", folder / "store" / "state.db"):
        os.chown(place, 65534, 65534)
    os.setgid(65534)
    os.setuid(65534)
path = folder / "store" / "state.db"
try:
    repair(path, RepairOptions(way="rows"))
except StoreReadOnly as refusal:
    print(refusal)
print(repair(path, RepairOptions(to=folder / "saved.db", way="rows")).state)
"""


@contextmanager
def store_open_elsewhere(path: Path) -> Iterator[int]:
    """Let another process have the store open; lends its id."""
    process = subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        yield process.pid
    finally:
        process.communicate("done\n")


def write_and_die(path: Path, session: str, text: str) -> None:
    """Write five messages that are in the log and nowhere else when the process is gone."""
    subprocess.run([sys.executable, "-c", _DIE, str(path), session, text], check=True)


def repair_what_cannot_be_written(data: bytes) -> list[str]:
    """Let a user who may only read a damaged file repair it, first in its place, then elsewhere."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        store = Path(folder) / "store"
        store.mkdir()
        (store / "state.db").write_bytes(data)
        (store / "state.db").chmod(0o400)
        store.chmod(0o500)
        done = subprocess.run(
            [sys.executable, "-c", _REPAIR, folder], stdout=subprocess.PIPE, check=True, text=True
        )
        store.chmod(0o700)
    return done.stdout.splitlines()
