"""Is there a backup, and how old is it?"""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from hermes_sessions.storage.care.backups.backup_directory import list_backups
from hermes_sessions.storage.care.doctor.check_runner import Check
from hermes_sessions.storage.care.doctor.report import Finding
from hermes_sessions.storage.care.doctor.subject import Subject

#: Seconds that a store may be without a backup, and a backup without a newer one.
_WITHOUT: Final = 7 * 86_400.0
_OLD: Final = 30 * 86_400.0


class Kept(NamedTuple):
    """The backups that there are."""

    directory: Path
    number: int
    #: When the newest one was made.
    newest: float | None


def backups_of(subject: Subject) -> Kept:
    """Return the complete backups in the configured directory.

    Raises:
        BackupRefused: the directory cannot be read.
    """
    directory = subject.settings.backups.directory
    complete = [each for each in list_backups(directory) if each.state == "complete"]
    newest = max((each.created for each in complete), default=None)
    return Kept(directory, len(complete), newest)


def _backups(subject: Subject) -> Iterable[Finding]:
    kept = backups_of(subject)
    now = subject.clock()
    with subject.read() as tx:
        row = tx.one("SELECT MIN(started_at), MAX(last_active) FROM sessions")
    first, last = row or (None, None)
    if kept.newest is None:
        if first is not None and now - float(first) > _WITHOUT:
            yield Finding.of("no-backup", f"{kept.directory} has none.")
    elif last is not None and float(last) > kept.newest and now - kept.newest > _OLD:
        date = time.strftime("%Y-%m-%d", time.gmtime(kept.newest))
        yield Finding.of("old-backup", f"The newest in {kept.directory} is of {date}.")


BACKUPS: Final = (Check(("no-backup", "old-backup"), _backups),)
