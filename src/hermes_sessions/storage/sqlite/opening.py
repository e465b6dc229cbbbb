"""Opening a file: what is it, may we write it, and does it need our tables.

Every kind of file gets its own answer; none is changed before it is understood. Concurrent first
opens are safe: whoever gets the write lock first creates the tables, the others find them.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import apsw

from hermes_sessions.errors import (
    SchemaRefused,
    StoreReadOnly,
    StoreUnreachable,
)
from hermes_sessions.storage.sqlite import location, schema
from hermes_sessions.storage.sqlite.connection import Deadline, Options, log_size, open_connection
from hermes_sessions.storage.sqlite.engine import MEMORY, Engine
from hermes_sessions.storage.sqlite.failures import translated
from hermes_sessions.storage.sqlite.ledger import (
    applied_migrations,
    apply_migration,
    apply_pending_migrations,
)
from hermes_sessions.storage.sqlite.nature import Kind, Nature, nature_of

logger = logging.getLogger(__name__)


def open_engine(path: Path, options: Options) -> Engine:
    """Return an engine on *path*, creating or upgrading the store as needed.

    Raises:
        StoreUnreachable, UnsafeStore, NotADatabase, StoreCorrupt, SchemaRefused, StoreReadOnly,
        StoreLocked: each says what the file is and what to do; the file was not changed.
    """
    if str(path) == MEMORY:
        return _open_memory(options)
    _prepare_file(path, options)
    real = str(path.resolve())
    carries_wal = _carries_wal(path, options)
    deadline = Deadline()
    deadline.start(options.lock_timeout)
    with translated(real):
        connection, options, immutable = _first_connection(real, options, deadline)
    try:
        with translated(real):
            nature = nature_of(connection)
            if nature.kind is not Kind.OURS:
                _refuse_what_we_must_not_touch(path, nature, options)
            if nature.kind is Kind.DOCUMENTED:
                # Our own connection would count as somebody who still uses the old layout.
                connection.close()
                _upgrade(Path(real), deadline, options, carries_wal)
                connection = open_connection(real, options, deadline, query_only=False)
                _set_journal(connection, deadline, "wal" if carries_wal else "delete")
                nature = nature_of(connection)
            if nature.kind is not Kind.OURS or not _up_to_date(connection):
                _bring_up_to_date(connection, nature, deadline, options, carries_wal)
            _refuse_newer(path, connection, options)
            if not options.read_only:
                _prefer_journal(connection, "wal" if carries_wal else "delete")
    finally:
        connection.close()
    return Engine(real, options, gated=carries_wal and not immutable, immutable=immutable)


def _open_memory(options: Options) -> Engine:
    engine = Engine(MEMORY, options)
    with engine.writer() as connection:
        _create(connection)
    return engine


def _prepare_file(path: Path, options: Options) -> None:
    if not options.read_only:
        location.prepare_directory(path)
    location.check_ownership(path)
    if not path.exists():
        if options.read_only:
            raise StoreUnreachable(
                f"unable to open database file: {path} does not exist. Open it once for writing."
            )
        location.create_private(path)
    elif not options.read_only:
        try:
            location.make_private(path)
        except OSError as error:
            logger.warning("%s stays readable for others: %s", path, error)


def _carries_wal(path: Path, options: Options) -> bool:
    if options.journal != "auto":
        return options.journal == "wal"
    kind = location.file_system_type(path, location.read_mount_table())
    if location.carries_wal(kind):
        return True
    logger.warning(
        "%s is on a %s file system, which cannot carry a write-ahead log; the rollback journal is "
        "used. Several writers will wait for each other; a local disk is faster and safer.",
        path,
        kind,
    )
    return False


def _first_connection(
    real: str, options: Options, deadline: Deadline
) -> tuple[apsw.Connection, Options, bool]:
    """Return a connection that can read, falling back to reading only where writing cannot be."""
    attempts = [(options, False)]
    if not options.read_only:
        attempts.append((replace(options, read_only=True), False))
    if log_size(real) == 0:
        # A log-mode file in a directory we cannot write: readable as long as nobody writes it.
        attempts.append((replace(options, read_only=True), True))
    error: apsw.Error | None = None
    for attempt, immutable in attempts:
        try:
            connection = open_connection(
                real, attempt, deadline, query_only=False, immutable=immutable
            )
        except (apsw.CantOpenError, apsw.ReadOnlyError, apsw.PermissionsError) as failure:
            error = error or failure
            continue
        try:
            connection.pragma("application_id")
        except (apsw.CantOpenError, apsw.ReadOnlyError, apsw.PermissionsError) as failure:
            connection.close()
            error = error or failure
            continue
        read_only = attempt.read_only or connection.readonly("main")
        if read_only and not options.read_only:
            logger.warning("%s cannot be written; opened for reading only", real)
        return connection, replace(attempt, read_only=read_only), immutable
    if error is None:
        raise StoreUnreachable(f"unable to open database file: {real}")
    raise error


def _refuse_what_we_must_not_touch(path: Path, nature: Nature, options: Options) -> None:
    if nature.kind is Kind.OTHER:
        raise SchemaRefused(
            f"{path} is a database of another program; it was not changed. Choose another path "
            f"with sessiondb.sqlite.path in config.yaml, or db_path."
        )
    if nature.kind is Kind.LATER:
        raise SchemaRefused(
            f"{path} was written by a later Hermes (schema version {nature.version}, this program "
            f"upgrades up to {schema.DOCUMENTED_VERSION}); it was not changed. To read it and copy "
            f"everything into a new store, run: hermes sessions import {path}"
        )
    if options.read_only and nature.kind is not Kind.OURS:
        raise StoreReadOnly(
            f"{path} must be {'created' if nature.kind is Kind.EMPTY else 'upgraded'} first, and "
            f"it was opened for reading only. Open it once for writing, as its owner."
        )


def _refuse_newer(path: Path, connection: apsw.Connection, options: Options) -> None:
    level = int(connection.pragma("user_version"))
    if level > schema.WRITER_LEVEL and not options.read_only:
        raise SchemaRefused(
            f"{path} was written by a newer Hermes Sessions (level {level}, this program knows "
            f"{schema.WRITER_LEVEL}); it was not changed. Update this program, or open the store "
            f"with read_only=True."
        )


def _up_to_date(connection: apsw.Connection) -> bool:
    applied = applied_migrations(connection)
    return all(step.name in applied for step in schema.MIGRATIONS)


def _upgrade(real: Path, deadline: Deadline, options: Options, carries_wal: bool) -> None:
    # Needed once in a file's life; not loaded otherwise.
    from hermes_sessions.storage.sqlite.upgrade import upgrade_documented_layout

    deadline.start(options.lock_timeout)
    upgrade_documented_layout(real, options, deadline, gated=carries_wal)
    deadline.start(options.lock_timeout)


def _bring_up_to_date(
    connection: apsw.Connection,
    nature: Nature,
    deadline: Deadline,
    options: Options,
    carries_wal: bool,
) -> None:
    if options.read_only or (nature.version > schema.WRITER_LEVEL and nature.kind is Kind.OURS):
        return
    deadline.start(options.lock_timeout)
    if nature.kind is Kind.EMPTY:
        # Only a file without pages takes this setting; set it before anything else is written.
        connection.pragma("auto_vacuum", 2)
        _set_journal(connection, deadline, "wal" if carries_wal else "delete")
        _create(connection)
    else:
        _migrate(connection)


def _set_journal(connection: apsw.Connection, deadline: Deadline, mode: str) -> None:
    """Switch the journal; SQLite does not ask the busy handler here, so we do."""
    attempt = 0
    while True:
        try:
            current = connection.pragma("journal_mode")
            if current != mode:
                current = connection.pragma("journal_mode", mode)
        except apsw.BusyError:
            if not deadline.wait_for_lock(attempt):
                raise
            attempt += 1
        else:
            if current != mode:
                logger.warning("journal mode %s is not possible here; %s is used", mode, current)
            return


def _prefer_journal(connection: apsw.Connection, mode: str) -> None:
    """Give a store its kind of journal back, unless somebody is using it with another."""
    try:
        if connection.pragma("journal_mode") != mode:
            connection.pragma("journal_mode", mode)
    except apsw.BusyError:
        logger.debug("the store is in use with another journal than %s; it stays so", mode)


def _create(connection: apsw.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        if nature_of(connection).kind is Kind.EMPTY:
            connection.pragma("application_id", schema.APPLICATION_ID)
            connection.pragma("user_version", schema.WRITER_LEVEL)
            for step in schema.MIGRATIONS:
                apply_migration(connection, step)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _migrate(connection: apsw.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        apply_pending_migrations(connection)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
