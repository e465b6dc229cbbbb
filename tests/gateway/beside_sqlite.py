"""The ``hermes`` command in a process that also uses the store through Python's SQLite library.

python -m tests.gateway.beside_sqlite /some/where/state.db gateway run
"""

from __future__ import annotations

import random
import sqlite3
import sys
import threading
from contextlib import closing, suppress

from hermes_sessions.cli.main import run


def use(path: str, chance: random.Random) -> None:
    """Open the store and close it again: to read, to write nothing, or to copy it."""
    how = chance.choice(["ro", "rw", "backup", "BEGIN IMMEDIATE"])
    mode = "ro" if how in {"ro", "backup"} else "rw"
    address = f"file:{path}?mode={mode}"
    # It may be locked, or not be there yet.
    with suppress(sqlite3.OperationalError), closing(sqlite3.connect(address, uri=True)) as other:
        if how == "backup":
            with closing(sqlite3.connect(":memory:")) as copy:
                other.backup(copy)
        elif how == "BEGIN IMMEDIATE":
            other.execute("BEGIN IMMEDIATE")
        else:
            other.execute("SELECT COUNT(*) FROM messages").fetchone()


def use_until_the_end(path: str) -> None:
    chance, pause = random.Random(path), threading.Event()
    while not pause.wait(chance.uniform(0.0, 0.03)):
        use(path, chance)


if __name__ == "__main__":
    store = sys.argv.pop(1)
    threading.Thread(target=use_until_the_end, args=(store,), daemon=True).start()
    sys.exit(run())
