"""Can the store be opened, what is it, and who keeps others from writing?"""

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
from hermes_sessions.storage.provider import OpenOptions
from hermes_sessions.storage.provider_registry import find_provider
from hermes_sessions.storage.sqlite.file_access import (
    process_name,
    processes_blocking_writers,
    read_lock_table,
)
from hermes_sessions.storage.sqlite.file_kind import FileType, StoreEmptied
from hermes_sessions.storage.sqlite.inspection import (
    FileInspection,
    InspectionTimeout,
    UnfinishedWrite,
)
from hermes_sessions.storage.sqlite.schema import DOCUMENTED_VERSION

#: Seconds that a server is given for what takes no time.
_PATIENCE: Final = 5.0
#: A lock that is still there after so many looks, so far apart, is no passing one.
_LOOKS: Final = 4
_APART: Final = 0.25


@contextmanager
def opened(subject: ExaminedStore) -> Iterator[ExaminedStore]:
    """Open the subject for looking, if that is possible, until the block ends."""
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
            # Whoever closes a file has it alone for a moment.
            if look == _LOOKS - 1:
                raise
            time.sleep(_APART)
        else:
            return


def _open_file(subject: ExaminedStore) -> None:
    from hermes_sessions.storage.sqlite.search_index import FTS5Index

    subject.location = str(subject.path)
    file = FileInspection(subject.path, until=subject.until, stopwatch=subject.stopwatch)
    if file.file_kind.kind is FileType.EMPTY:
        subject.is_missing = True
        file.close()
        return
    subject.file, subject.opened, subject.index = file, file, FTS5Index()


def _open_server(subject: ExaminedStore) -> None:
    settings = subject.settings.sessiondb
    provider_class = find_provider(subject.provider)
    subject.location = location_of_server(subject)
    open_options = OpenOptions(
        read_only=True, lock_timeout=_PATIENCE, seconds_left=lambda: subject.seconds_left
    )
    provider = provider_class.from_settings(settings, open_options)
    subject.opened, subject.index = provider, provider.search_index
    subject.location = str(provider.describe().get("location", subject.location))


def location_of_server(subject: ExaminedStore) -> str:
    """Return where a server is that cannot be asked, without secrets."""
    section: Any = getattr(subject.settings.sessiondb, subject.provider, None)
    url = getattr(section, "dsn", None) or subject.settings.sessiondb.dsn
    if url is not None:
        scheme, _, rest = str(url).partition("://")
        place = rest.rpartition("@")[2].partition("?")[0]
        return f"{scheme}://{place}" if rest else subject.provider
    host, port = getattr(section, "host", None) or "local socket", getattr(section, "port", "")
    return f"{subject.provider}://{host}:{port}/{getattr(section, 'database', None) or ''}"


# ── can it be opened ──────────────────────────────────────────────────────────────────────────


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
    elif isinstance(error, StoreEmptied):
        yield Finding.of("emptied-store", str(error))
    elif isinstance(error, StoreCorrupt):
        yield Finding.of("damaged-page", str(error), state=State.DOWN)
    elif isinstance(error, UnfinishedWrite):
        yield Finding.of("unfinished-write", str(error), _open_once)
    elif isinstance(error, SchemaRefused):
        yield Finding.of("newer-schema", str(error))
    elif isinstance(error, StoreLocked):
        who = _in_the_way(subject.path) if subject.is_file else []
        names = ", ".join(map(process_name, who)) or "Some process"
        words = f"{names} keeps even readers out of {subject.location}."
        yield Finding.of("locked", words, state=State.DOWN)
    else:
        yield Finding.of("unreachable", str(error))


def _open_once(open_store: OpenStore) -> str:
    with open_store() as db:
        number = db.session_count()
    return f"Opened the store; the unfinished write is rolled back, {number} sessions are there."


# ── which tables ──────────────────────────────────────────────────────────────────────────────


def _versions(subject: ExaminedStore) -> Iterable[Finding | Note]:
    file, opened_store = subject.file, subject.opened
    if file is not None:
        if file.file_kind.kind is FileType.OTHER:
            yield Finding.of("foreign-file", f"{file.path} is a database of another program.")
            return
        if file.is_written_by_newer():
            yield Finding.of(
                "newer-schema", f"{file.path} was written by version {file.file_kind.version}."
            )
            return
    elif _writer_level(subject) > _known_level():
        yield Finding.of("newer-schema", f"{subject.location} was changed by a newer version.")
        return
    steps = opened_store.steps() if opened_store is not None else None
    if steps is not None and steps.waiting:
        yield Finding.of(
            "unfinished-migration", f"To be taken: {', '.join(steps.waiting)}.", _upgrade
        )
    if steps is not None and steps.finishing:
        yield Note(
            f"When no older version runs any more: hermes sessiondb upgrade --finish "
            f"({', '.join(steps.finishing)})."
        )


def _upgrade(open_store: OpenStore) -> str:
    with open_store() as db:
        waiting = db.store.provider.steps().waiting
    return "Some steps are left." if waiting else "Took the steps; the tables are up to date."


def _writer_level(subject: ExaminedStore) -> int:
    with subject.read() as tx:
        row = tx.one("SELECT MAX(writer_level) FROM store_migrations")
    return int(row[0] or 0) if row else 0


def _known_level() -> int:
    from hermes_sessions.storage.servers.migrations import WRITER_LEVEL

    return WRITER_LEVEL


# ── who is in the way ─────────────────────────────────────────────────────────────────────────


def _lock(subject: ExaminedStore) -> Iterable[Finding]:
    if subject.is_file:
        still = set(_in_the_way(subject.path))
        for _ in range(_LOOKS - 1):
            if not still:
                return
            time.sleep(_APART)
            still &= set(_in_the_way(subject.path))
        if still:
            names = ", ".join(map(process_name, sorted(still)))
            yield Finding.of("locked", f"{names} keeps all others from writing {subject.path}.")
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


def _in_the_way(path: Path) -> list[int]:
    """Return the processes that hold the write lock; those that only have it open do not count."""
    real = Path(path).resolve()
    return processes_blocking_writers(real, read_lock_table(real), writers_only=True)


#: By database, what may be asked, the first that the server understands.
_BLOCKERS: Final = {
    "postgresql": (
        (
            "SELECT DISTINCT a.pid, a.application_name, a.usename, a.state "
            "FROM pg_stat_activity waiting, unnest(pg_blocking_pids(waiting.pid)) AS by(pid), "
            "pg_stat_activity a WHERE a.pid = by.pid AND waiting.datname = current_database()"
        ),
    ),
    "mysql": (
        (
            "SELECT DISTINCT trx.trx_mysql_thread_id, '', processes.user, processes.command "
            "FROM information_schema.innodb_lock_waits waits "
            "JOIN information_schema.innodb_trx trx ON trx.trx_id = waits.blocking_trx_id "
            "LEFT JOIN information_schema.processlist processes "
            "ON processes.id = trx.trx_mysql_thread_id"
        ),
        # MySQL, from 8 on.
        (
            "SELECT DISTINCT waits.blocking_pid, '', processes.user, processes.command "
            "FROM sys.innodb_lock_waits waits LEFT JOIN information_schema.processlist processes "
            "ON processes.id = waits.blocking_pid"
        ),
    ),
}


def _blockers(subject: ExaminedStore) -> dict[Any, str]:
    """Return who others wait for, in words, by the server's number for them."""
    failure = StoreError(f"It is not known how {subject.provider} tells who waits for whom.")
    for sql in _BLOCKERS.get(subject.provider, ()):
        try:
            with subject.read() as tx:
                rows = tx.all(sql)
        except StatementRefused as error:
            failure = error
            continue
        return {
            row[0]: f"The server's process {row[0]} ({row[1] or row[2] or 'unknown'}, {row[3]}) "
            f"holds what others wait for in {subject.location}."
            for row in rows
        }
    raise failure


# ── another product ───────────────────────────────────────────────────────────────────────────


def _foreign_writers(subject: ExaminedStore) -> Iterable[Finding]:
    from hermes_sessions.storage.sqlite.exclusive_access import writers_of_other_products

    names = writers_of_other_products(subject.path.resolve())
    if names:
        yield Finding.of("foreign-writer", f"{', '.join(names)} has {subject.path} open to write.")
    file = subject.file
    if file is not None and file.file_kind.kind is FileType.OURS:
        version = file.stated_version()
        if version > DOCUMENTED_VERSION:
            yield Finding.of(
                "foreign-writer",
                f"{subject.path} says schema version {version}, which this product never writes.",
            )


ACCESS_CHECKS: Final = (
    Check(
        ("unreachable", "emptied-store", "foreign-owner", "unfinished-write"),
        _reach,
        needs="nothing",
    ),
    Check(("foreign-file", "newer-schema", "unfinished-migration"), _versions, needs="store"),
    Check(("locked",), _lock, needs="store"),
    Check(("foreign-writer",), _foreign_writers, needs="store"),
)
