"""All checks of the doctor, collected from the packages that define them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Final

from hermes_sessions.agent.chat_spool import ChatSpool, chat_spool_directory, chat_spool_root
from hermes_sessions.cli.render.humanize import counted
from hermes_sessions.gateway.inbound_spool import NEXT_STEP, spool_directory
from hermes_sessions.storage.care.doctor.access_checks import ACCESS_CHECKS
from hermes_sessions.storage.care.doctor.blob_checks import BLOBS
from hermes_sessions.storage.care.doctor.check_runner import Check, ExaminedStore
from hermes_sessions.storage.care.doctor.environment_checks import (
    BACKUPS,
    CLOCK_CHECKS,
    ENVIRONMENT_CHECKS,
    INSTALLATION_CHECKS,
)
from hermes_sessions.storage.care.doctor.integrity_checks import (
    PAGES,
    READABILITY_CHECKS,
    REMOVED_LOG,
    SEARCH,
)
from hermes_sessions.storage.care.doctor.report import Finding, Fix, OpenStore
from hermes_sessions.storage.care.doctor.stalled_work_checks import STALLED_WORK_CHECKS
from hermes_sessions.storage.spool import spool_status


def _chat_spool(subject: ExaminedStore) -> Iterable[Finding]:
    home = subject.settings.home
    own = chat_spool_directory(home, subject.settings.sessiondb)
    for directory in sorted({own, *_directories(chat_spool_root(home))}):
        found = spool_status(directory)
        if found.entries and directory == own:
            fix: Fix = partial(_store_spooled, subject)
            yield Finding.of("chat-spool", f"{found.entries} in {directory}.", fix)
        elif found.entries:
            yield Finding.of("chat-spool", f"{found.entries} in {directory}, for another store.")
        if found.put_aside:
            yield Finding.of("chat-spool", found.describe_set_aside(directory))


def _directories(directory: Path) -> list[Path]:
    return [each for each in directory.iterdir() if each.is_dir()] if directory.is_dir() else []


def _store_spooled(subject: ExaminedStore, open_store: OpenStore) -> str:
    spool = ChatSpool(chat_spool_directory(subject.settings.home, subject.settings.sessiondb))
    try:
        spool.adopt()
        with open_store() as db:
            number = spool.store_all(db)
    finally:
        spool.close()
    refused = f" Set aside {spool.refused} that the store rejected." if spool.refused else ""
    left = spool_status(spool.directory).entries
    rest = f" Left {left} that another process is using." if left else ""
    messages = counted(number, "message")
    return f"Stored {messages}.{refused}{rest}"


def _gateway_spool(subject: ExaminedStore) -> Iterable[Finding]:
    directory = spool_directory(subject.settings.home)
    found = spool_status(directory)
    if found.entries:
        yield Finding.of("gateway-spool", f"{found.entries} in {directory}.")
    if found.put_aside:
        yield Finding.of("gateway-spool", found.describe_set_aside(directory, NEXT_STEP))


_SPOOLS: Final = (
    Check(("gateway-spool",), _gateway_spool, needs="nothing"),
    Check(("chat-spool",), _chat_spool, needs="nothing"),
)

#: The checks that take hardly any time, as `hermes status` runs them.
QUICK: Final = (
    *ACCESS_CHECKS,
    *READABILITY_CHECKS,
    *ENVIRONMENT_CHECKS,
    *_SPOOLS,
    *BACKUPS,
)
ALL: Final = (
    *QUICK,
    *CLOCK_CHECKS,
    *STALLED_WORK_CHECKS,
    *REMOVED_LOG,
    *BLOBS,
    *SEARCH,
    *INSTALLATION_CHECKS,
    *PAGES,
)
