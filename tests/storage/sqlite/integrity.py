"""Inspects a store from outside while this process does not have it open."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_CHECK = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
torn = connection.execute(
    "SELECT session_id FROM messages GROUP BY session_id "
    "HAVING MIN(ordinal) <> 1 OR MAX(ordinal) <> COUNT(*)"
).fetchall()
assert torn == [], f"ordinals with gaps: {torn}"
wrong = connection.execute(
    "SELECT id FROM sessions s WHERE message_count <> "
    "(SELECT COUNT(*) FROM messages WHERE session_id = s.id)"
).fetchall()
assert wrong == [], f"wrong counters: {wrong}"
"""


def require_sound(path: Path) -> None:
    """Check the file with another SQLite library, in a process of its own.

    Nothing is damaged, every reference leads somewhere, the messages of each session are numbered
    from 1 without a gap, and its counter is right.
    """
    done = subprocess.run(
        [sys.executable, "-c", _CHECK, str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
