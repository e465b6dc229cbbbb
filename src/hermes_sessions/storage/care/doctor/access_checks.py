"""Checks of access: can the store be opened, which version wrote it, who blocks writers?"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from hermes_sessions.errors import (
    NotADatabase,
    SchemaRefused,
    StatementRefused,
    StoreCorrupt,
    StoreError,
    StoreLocked,
    StoreMissing,
    UnsafeStore,
)
from hermes_sessions.storage.care.doctor.check_runner import Check, ExaminedStore
from hermes_sessions.storage.care.doctor.report import Finding, Note, OpenStore
from hermes_sessions.storage.care.health import State
from hermes_sessions.storage.file_inspection import InspectionTimeout, UnfinishedWrite
from hermes_sessions.storage.provider import OpenOptions
from hermes_sessions.storage.provider_registry import file_care, find_provider

#: Seconds to wait for a server to answer a trivial statement.
_PATIENCE: Final = 5.0
#: A lock counts as lasting when it is seen in this many looks, this many seconds apart.
_LOOKS: Final = 4
_APART: Final = 0.25


@contextmanager
def opened(subject: ExaminedStore) -> Iterator[ExaminedStore]:
    """Open *subject* for reading inside the block; note the failure if that is impossible."""
    try:
        _open(subject)
    except StoreMissing as error:
        subject.is_missing, subject.failure = True, error
    except StoreError as error:
        subject.failure = error
    try:
        yield subject
    finally:
        if subject.opened is not None:
            subject.opened.close()


def _open(subject: ExaminedStore) -> None:
    if not subject.is_file:
        _open_server(subject)
        return
    for look in range(_LOOKS):
        try:
            _open_file(subject)
        except StoreLocked:
            # A process that closes the file locks it exclusively for a moment.
            if look == _LOOKS - 1:
                raise
            time.sleep(_APART)
        else:
            return


def _open_file(subject: ExaminedStore) -> None:
    subject.location = str(subject.path)
    care = file_care()
    file = care.inspect(subject.path, until=subject.until, stopwatch=subject.stopwatch)
    if file.is_empty:
        subject.is_missing = True
        file.close()
        return
    subject.file, subject.opened, subject.index = file, file, care.search_index


def _open_server(subject: ExaminedStore) -> None:
    settings = subject.settings.sessiondb
    provider_class = find_provider(subject.provider)
    subject.location = location_of_server(subject)
    open_options = OpenOptions(
        read_only=True, lock_timeout=_PATIENCE, seconds_left=lambda: subject.seconds_left
    )
    provider = provider_class.from_settings(settings, open_options)
    subject.opened, subject.index = provider, provider.search_index
    subject.server = provider.server_checks
    subject.location = str(provider.describe().get("location", subject.location))


def location_of_server(subject: ExaminedStore) -> str:
    """Return the location of a server from the settings alone, without secrets."""
    section: Any = getattr(subject.settings.sessiondb, subject.provider, None)
    url = getattr(section, "dsn", None) or subject.settings.sessiondb.dsn
    if url is not None:
        scheme, _, rest = str(url).partition("://")
        place = rest.rpartition("@")[2].partition("?")[0]
        return f"{scheme}://{place}" if rest else subject.provider
    host, port = getattr(section, "host", None) or "local socket", getattr(section, "port", "")
    return f"{subject.provider}://{host}:{port}/{getattr(section, 'database', None) or ''}"


# ── opening ───────────────────────────────────────────────────────────────────────────────────


def _reach(subject: ExaminedStore) -> Iterable[Finding]:
    error = subject.failure
    if error is None or subject.is_missing:
        return
    if isinstance(error, InspectionTimeout):
        raise error
    if isinstance(error, UnsafeStore):
        yield Finding.of("foreign-owner", str(error))
    elif isinstance(error, NotADatabase):
        yield Finding.of("foreign-file", str(error))
    elif subject.is_file and file_care().is_emptied(error):
        yield Finding.of("emptied-store", str(error))
    elif isinstance(error, StoreCorrupt):
        yield Finding.of("damaged-page", str(error), state=State.DOWN)
    elif isinstance(error, UnfinishedWrite):
        yield Finding.of("unfinished-write", str(error), _open_once)
    elif isinstance(error, SchemaRefused):
        yield Finding.of("newer-schema", str(error))
    elif isinstance(error, StoreLocked):
        who = _blocking_processes(subject.path) if subject.is_file else []
        names = ", ".join(map(file_care().process_name, who)) or "Another process"
        words = f"{names} is blocking all access to {subject.location}."
        yield Finding.of("locked", words, state=State.DOWN)
    else:
        yield Finding.of("unreachable", str(error))


def _open_once(open_store: OpenStore) -> str:
    with open_store() as db:
        number = db.session_count()
    return f"Opened the store and rolled back the unfinished write; it has {number} sessions."


# ── versions ──────────────────────────────────────────────────────────────────────────────────


def _versions(subject: ExaminedStore) -> Iterable[Finding | Note]:
    file, opened_store = subject.file, subject.opened
    if file is not None:
        if file.is_of_another_program:
            yield Finding.of("foreign-file", f"{file.path} is another program's database.")
            return
        if file.is_of_later_hermes:
            words = f"{file.path} is a file of hermes-agent (schema version {file.version})."
            yield Finding.of("hermes-file", words)
            return
        if file.is_written_by_newer():
            yield Finding.of("newer-schema", f"{file.path} was written by version {file.version}.")
            return
    elif _writer_level(subject) > _known_level():
        yield Finding.of("newer-schema", f"{subject.location} was changed by a newer version.")
        return
    steps = opened_store.steps() if opened_store is not None else None
    if steps is not None and steps.waiting:
        yield Finding.of("unfinished-migration", f"Pending: {', '.join(steps.waiting)}.", _upgrade)
    if steps is not None and steps.finishing:
        yield Note(
            f"Once no older version is running, finish {', '.join(steps.finishing)}: "
            f"hermes sessiondb upgrade --finish"
        )


def _upgrade(open_store: OpenStore) -> str:
    with open_store() as db:
        waiting = db.store.provider.steps().waiting
    return (
        "Some migrations are still pending."
        if waiting
        else "Ran the migrations; the tables are up to date."
    )


def _writer_level(subject: ExaminedStore) -> int:
    with subject.read() as tx:
        row = tx.one("SELECT MAX(writer_level) FROM store_migrations")
    return int(row[0] or 0) if row else 0


def _known_level() -> int:
    from hermes_sessions.storage.tables import KNOWN_LEVEL

    return KNOWN_LEVEL


# ── blocked writers ───────────────────────────────────────────────────────────────────────────


def _lock(subject: ExaminedStore) -> Iterable[Finding]:
    if subject.is_file:
        still = set(_blocking_processes(subject.path))
        for _ in range(_LOOKS - 1):
            if not still:
                return
            time.sleep(_APART)
            still &= set(_blocking_processes(subject.path))
        if still:
            names = ", ".join(map(file_care().process_name, sorted(still)))
            yield Finding.of("locked", f"{names} is blocking writes to {subject.path}.")
        return
    still_there = _blockers(subject)
    for _ in range(_LOOKS - 1):
        if not still_there:
            return
        time.sleep(_APART)
        now = _blockers(subject)
        still_there = {who: words for who, words in still_there.items() if who in now}
    for words in still_there.values():
        yield Finding.of("locked", words)


def _blocking_processes(path: Path) -> list[int]:
    return file_care().processes_blocking_writers(path)


def _blockers(subject: ExaminedStore) -> dict[Any, str]:
    """Return a sentence about each process that blocks others, by the server's process id."""
    failure = StoreError(f"Lock waits cannot be inspected on {subject.provider}.")
    for sql in subject.server.blockers if subject.server else ():
        try:
            with subject.read() as tx:
                rows = tx.all(sql)
        except StatementRefused as error:
            failure = error
            continue
        return {
            process: f"Server process {process} ({program or user or 'unknown'}, {state}) "
            f"holds a lock that others wait for in {subject.location}."
            for process, program, user, state in rows
        }
    raise failure


# ── another product ───────────────────────────────────────────────────────────────────────────


def _foreign_writers(subject: ExaminedStore) -> Iterable[Finding]:
    names = file_care().writers_of_other_products(subject.path.resolve())
    if names:
        yield Finding.of(
            "foreign-writer", f"{', '.join(names)} has {subject.path} open for writing."
        )
    file = subject.file
    if file is not None and file.is_ours:
        version = file.foreign_version()
        if version is not None:
            yield Finding.of(
                "foreign-writer",
                f"{subject.path} has schema version {version}, which this product never writes.",
            )


ACCESS_CHECKS: Final = (
    Check(
        ("unreachable", "emptied-store", "foreign-owner", "unfinished-write"),
        _reach,
        needs="nothing",
    ),
    Check(
        ("foreign-file", "hermes-file", "newer-schema", "unfinished-migration"),
        _versions,
        needs="store",
    ),
    Check(("locked",), _lock, needs="store"),
    Check(("foreign-writer",), _foreign_writers, needs="store"),
)
