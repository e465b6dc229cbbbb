"""All checks that there are, put together from the rooms they live in."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Final

from hermes_sessions.agent.chat_spool import Keeping, directory_for, keeping_directory
from hermes_sessions.gateway.doctor_checks import GATEWAY
from hermes_sessions.storage.care.doctor.access_checks import REACHING
from hermes_sessions.storage.care.doctor.activity_checks import WORK
from hermes_sessions.storage.care.doctor.check_runner import Check, Subject
from hermes_sessions.storage.care.doctor.environment_checks import BACKUPS, INSTALLATION, PLACES
from hermes_sessions.storage.care.doctor.integrity_checks import PAGES, READABLE, SEARCH
from hermes_sessions.storage.care.doctor.report import Finding, Fix, OpenStore
from hermes_sessions.storage.spool import waiting_below


def _kept(subject: Subject) -> Iterable[Finding]:
    home = subject.settings.home
    own = directory_for(home, subject.settings.sessiondb)
    for place in sorted({own, *_directories(keeping_directory(home))}):
        found = waiting_below(place)
        if found.entries and place == own:
            fix: Fix = partial(_store_kept, subject)
            yield Finding.of("chat-spool", f"{found.entries} in {place}.", fix)
        elif found.entries:
            yield Finding.of("chat-spool", f"{found.entries} in {place}, for another store.")
        if found.put_aside:
            yield Finding.of("chat-spool", found.words_about_put_aside(place))


def _directories(place: Path) -> list[Path]:
    return [each for each in place.iterdir() if each.is_dir()] if place.is_dir() else []


def _store_kept(subject: Subject, open_store: OpenStore) -> str:
    keeping = Keeping(directory_for(subject.settings.home, subject.settings.sessiondb))
    try:
        keeping.adopt()
        with open_store() as db:
            number = keeping.store_all(db)
    finally:
        keeping.close()
    refused = f" Put {keeping.refused} aside that the store refuses." if keeping.refused else ""
    left = waiting_below(keeping.directory).entries
    rest = f" Left to another process that has them in use: {left}." if left else ""
    return f"Stored {number} that waited.{refused}{rest}"


_CHAT: Final = (Check(("chat-spool",), _kept, needs="nothing"),)

#: What takes hardly any time.
QUICK: Final = (*REACHING, *READABLE, *PLACES, *GATEWAY, *_CHAT, *BACKUPS)
ALL: Final = (*QUICK, *WORK, *SEARCH, *INSTALLATION, *PAGES)
