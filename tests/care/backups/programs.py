"""Programs for backup tests: they hold stores open, die at a given call, or fill a disk."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hermes_sessions import SessionDB
from hermes_sessions.errors import HermesSessionsError
from hermes_sessions.storage.care.backups.creation import create_backup
from hermes_sessions.storage.care.backups.restore import restore_backup
from hermes_sessions.storage.sqlite import store_image
from tests.storage.sqlite.other_process import ROOT, OtherProcess
from tests.storage.sqlite.programs import listen, open_store, say

#: Calls before which a process may die: those that leave something on a disk.
DEADLY = frozenset(
    "write fsync rename replace unlink mkdir open step execute pragma close flush copy_file_range"
    " rmtree link truncate xClose xLock".split()
)


def start(
    program: str, *arguments: object, prefix: Sequence[str] = (), **popen: Any
) -> OtherProcess:
    """Start a program of this module."""
    search = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    command = [sys.executable, "-m", "tests.care.backups.programs", program, *map(str, arguments)]
    return OtherProcess(
        subprocess.Popen(
            [*prefix, *command],
            env={**os.environ, "PYTHONPATH": search, "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **popen,
        )
    )


def have_open(path: str, journal: str) -> None:
    """Have a store open, and do nothing."""
    with open_store(path, journal=journal) as db:
        db.session_count()
        db.set_meta("used", journal)
        say("open")
        listen()


def make_another_programs_file(path: str) -> None:
    import sqlite3

    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE songs (title TEXT)")
    connection.commit()
    connection.close()


def _die_at(number: int) -> list[int]:
    """Let this process die before its call of that number; return where calls are counted."""
    store_image._PAGES_AT_ONCE = 8
    seen = [0]

    def watch(_frame: object, event: str, function: Any) -> None:
        if event == "c_call" and getattr(function, "__name__", "") in DEADLY:
            seen[0] += 1
            if seen[0] == number:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(watch)
    return seen


def create(number: str, path: str, directory: str, portable: str) -> None:
    with SessionDB(path) as db:
        seen = _die_at(int(number))
        create_backup(db, directory, portable=bool(portable))
        sys.setprofile(None)
    say(seen[0])


def restore(number: str, backup: str, path: str) -> None:
    seen = _die_at(int(number))
    restore_backup(backup, path)
    sys.setprofile(None)
    say(seen[0])


def run_out_of_room(path: str, directory: str, limit: str) -> None:
    """Make backups of both kinds where files may not grow."""
    with SessionDB(path) as db:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        for portable in (False, True):
            db.session_count()  # On a connection that is ready: the limit is for the backup.
            resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), before[1]))
            try:
                create_backup(db, directory, portable=portable)
            except HermesSessionsError as error:
                say(type(error).__name__)
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
            left = sorted(each.name for each in Path(directory).iterdir())
            say(*left)
        say(create_backup(db, directory).messages)


def restore_without_room(backup: str, path: str) -> None:
    try:
        restore_backup(backup, path)
    except HermesSessionsError as error:
        say(type(error).__name__)


def migrate(path: str) -> None:
    """Open a store, for which a step is due; say whether it could be."""
    from tests.care.backups.test_migration_backup import with_another_step

    with with_another_step():
        say("ready")
        listen()
        with SessionDB.from_url(path, lock_timeout=120) as db:
            say(db.session_count())


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
