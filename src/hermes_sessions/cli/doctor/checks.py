"""All checks that there are, put together from the rooms they live in."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Final

from hermes_sessions.agent.chat_spool import ChatSpool, chat_spool_directory, chat_spool_root
from hermes_sessions.gateway.doctor_checks import GATEWAY
from hermes_sessions.storage.care.doctor.access_checks import ACCESS_CHECKS
from hermes_sessions.storage.care.doctor.activity_checks import ACTIVITY_CHECKS
from hermes_sessions.storage.care.doctor.check_runner import Check, ExaminedStore
from hermes_sessions.storage.care.doctor.environment_checks import (
    BACKUPS,
    ENVIRONMENT_CHECKS,
    INSTALLATION_CHECKS,
)
from hermes_sessions.storage.care.doctor.integrity_checks import PAGES, READABILITY_CHECKS, SEARCH
from hermes_sessions.storage.care.doctor.report import Finding, Fix, OpenStore
from hermes_sessions.storage.spool import spool_status


def _kept(subject: ExaminedStore) -> Iterable[Finding]:
    home = subject.settings.home
    own = chat_spool_directory(home, subject.settings.sessiondb)
    for place in sorted({own, *_directories(chat_spool_root(home))}):
        found = spool_status(place)
        if found.entries and place == own:
            fix: Fix = partial(_store_kept, subject)
            yield Finding.of("chat-spool", f"{found.entries} in {place}.", fix)
        elif found.entries:
            yield Finding.of("chat-spool", f"{found.entries} in {place}, for another store.")
        if found.put_aside:
            yield Finding.of("chat-spool", found.describe_set_aside(place))


def _directories(place: Path) -> list[Path]:
    return [each for each in place.iterdir() if each.is_dir()] if place.is_dir() else []


def _store_kept(subject: ExaminedStore, open_store: OpenStore) -> str:
    keeping = ChatSpool(chat_spool_directory(subject.settings.home, subject.settings.sessiondb))
    try:
        keeping.adopt()
        with open_store() as db:
            number = keeping.store_all(db)
    finally:
        keeping.close()
    refused = f" Put {keeping.refused} aside that the store refuses." if keeping.refused else ""
    left = spool_status(keeping.directory).entries
    rest = f" Left to another process that has them in use: {left}." if left else ""
    return f"Stored {number} that waited.{refused}{rest}"


_CHAT: Final = (Check(("chat-spool",), _kept, needs="nothing"),)

#: What takes hardly any time.
QUICK: Final = (
    *ACCESS_CHECKS,
    *READABILITY_CHECKS,
    *ENVIRONMENT_CHECKS,
    *GATEWAY,
    *_CHAT,
    *BACKUPS,
)
ALL: Final = (*QUICK, *ACTIVITY_CHECKS, *SEARCH, *INSTALLATION_CHECKS, *PAGES)
