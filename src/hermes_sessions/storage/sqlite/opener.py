"""Opening a file: what is it, may we write it, and does it need our tables.

Every kind of file gets its own answer; none is changed before it is understood. Concurrent first
opens are safe: whoever gets the write lock first creates the tables, the others find them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Final

import apsw

from hermes_sessions.errors import (
    SchemaRefused,
    StoreCorrupt,
    StoreMissing,
    StoreReadOnly,
    StoreUnavailable,
)
from hermes_sessions.storage.logs import Logger
from hermes_sessions.storage.sqlite import file_access, schema
from hermes_sessions.storage.sqlite.connection import (
    Deadline,
    Options,
    connections_to,
    open_connection,
    wal_size,
)
from hermes_sessions.storage.sqlite.engine import MEMORY, SQLiteEngine
from hermes_sessions.storage.sqlite.error_translation import translated
from hermes_sessions.storage.sqlite.file_kind import (
    FileType,
    identify_file,
    remove_stale_gate,
    require_not_emptied,
)
from hermes_sessions.storage.sqlite.migrations import (
    applied_migrations,
    apply_migration,
    apply_pending_migrations,
)
from hermes_sessions.storage.sqlite.ofd_locks import install
from hermes_sessions.storage.sqlite.wal_guard import has_neighbour

logger = Logger(__name__)

#: What a file needs before it can be read.
_TO_BE_DONE: Final = {
    FileType.EMPTY: "created",
    FileType.DOCUMENTED: "upgraded",
    FileType.UNMARKED: "marked as a store again",
}
#: How often a file is created, upgraded or marked that others make something else of meanwhile.
_MOST_ROUNDS: Final = 5


def open_engine(path: Path, real: str, options: Options) -> SQLiteEngine:
    """Return an engine on *path*, creating or upgrading the store as needed.

    *real* is where links lead: SQLite names the companions after the file itself.

    Raises:
        StoreUnreachable, UnsafeStore, NotADatabase, StoreCorrupt, SchemaRefused, StoreReadOnly,
        StoreLocked, DiskFull: each says what the file is and what to do; the file was not changed.
    """
    inode = _prepare_file(path, real, options)
    if not install():
        options = _options_beside_sqlite3(real, options)
    file_system = file_access.file_system_type(real, file_access.read_mount_table())
    on_local_disk = file_access.supports_wal(file_system)
    journal = _wanted_journal(real, options, file_system)
    had_log = wal_size(real) > 0
    deadline = Deadline()
    deadline.start(options.lock_timeout)
    if had_log and not has_neighbour(real):
        _refuse_damaged_wal(path, real, options, deadline)
    with translated(real):
        connection, options, immutable = _first_connection(real, options, deadline)
        try:
            kind = _require_acceptable(path, connection, options)
        except BaseException:
            _leave(connection, has_log=had_log)
            raise
        is_as_it_was = False
        if not options.read_only:
            is_as_it_was = file_access.make_private(real) == 0
            connection = _make_current(
                connection, kind, path, real, options, deadline, journal, gated=on_local_disk
            )
        # What it is, not what was wanted: others may have kept it from changing.
        is_wal = connection.pragma("journal_mode") == "wal"
        options = options._replace(journal="wal" if is_wal else "delete")
        gated = on_local_disk and not options.read_only
        engine = SQLiteEngine(real, options, gated=gated, immutable=immutable)
        if is_as_it_was and engine.inode == inode:
            # It has read the tables; closing it would remove the log that the next one makes again.
            # (One that met other permissions would go on with them.)
            engine.start(connection, deadline)
        elif not has_neighbour(real):
            connection.close()
        else:
            # Closed after the next one is open: the file may have neighbours in this process.
            engine.start(open_connection(real, options, deadline, query_only=True), deadline)
            connection.close()
        engine.watch_for_neighbours()
    return engine


def _options_beside_sqlite3(real: str, options: Options) -> Options:
    """Have a rollback journal where Python's SQLite library may be a neighbour: where locks are the
    process's, two libraries cannot share a log.
    """
    from hermes_sessions.storage.sqlite.sqlite3_lock import (
        has_connections,
        switch_to_rollback_journal,
    )

    if options.read_only or connections_to(real) or not has_connections():
        return options
    switch_to_rollback_journal(real)
    return options._replace(journal="delete")


def open_memory(options: Options) -> SQLiteEngine:
    """Return an engine on a new database in memory."""
    engine = SQLiteEngine(MEMORY, options)
    engine.with_writer(_create)
    return engine


def _prepare_file(path: Path, real: str, options: Options) -> tuple[int, ...] | None:
    """Make sure that there is a file which may be used; return which one it is."""
    file_access.check_ownership(str(path))
    for suffix in file_access.COMPANIONS:
        # SQLite believes what stands there: another user's journal would change our file.
        file_access.check_ownership(real + suffix)
    if not options.read_only:
        file_access.require_one_name(real)
    if (inode := file_access.inode_of(real)) is not None:
        return inode
    if options.read_only:
        raise StoreMissing(
            f"unable to open database file: {path} does not exist. Open it once for writing."
        )
    file_access.prepare_directory(Path(real))
    remove_stale_gate(path)
    if file_access.create_private(Path(real)) and wal_size(real) > 0:
        from hermes_sessions.storage.sqlite.wal_files import set_aside_orphaned_wal

        with translated(real):
            set_aside_orphaned_wal(real)
    return file_access.inode_of(real)


def _refuse_damaged_wal(path: Path, real: str, options: Options, deadline: Deadline) -> None:
    """Refuse a file with a log, left by a program that is gone, of which SQLite would silently
    leave something out. Others who open the file meanwhile wait, and look themselves.

    Raises:
        StoreCorrupt: it says so; nothing was changed.
    """
    # Needed after a crash alone; not loaded otherwise.
    from hermes_sessions.storage.sqlite.exclusive_access import locked_if_unused

    with locked_if_unused(real, deadline) as is_first:
        if not is_first:
            return  # Whoever came first has read it already.
        _require_intact_wal(path, real, options)
    deadline.start(options.lock_timeout)


def _require_intact_wal(path: Path, real: str, options: Options) -> None:
    from hermes_sessions.storage.sqlite.wal_files import inspect_wal

    state = inspect_wal(Path(f"{real}-wal"))
    is_emptied = state.frames > 0 and os.stat(real).st_size == 0
    if state.drops_commits and options.durability == "normal" and not state.is_header_damaged:
        logger.warning(
            "%s: a part of the write-ahead log is not as it was written; after a power failure "
            "that may have cost the newest writes",
            path,
        )
    elif state.drops_commits or is_emptied:
        what = (
            "it is empty, but its write-ahead log is not"
            if is_emptied
            else ("its write-ahead log is damaged, and some writes would be missing")
        )
        raise StoreCorrupt(f"{path}: {what}; nothing was changed. To save them: hermes repair")


def _wanted_journal(real: str, options: Options, file_system: str | None) -> str:
    if options.journal != "auto":
        return options.journal
    if file_access.supports_wal(file_system):
        return "wal"
    logger.warning(
        "%s is on a %s file system, which cannot carry a write-ahead log; the rollback journal is "
        "used. Several writers will wait for each other; a local disk is faster and safer.",
        real,
        file_system,
    )
    return "delete"


def _first_connection(
    real: str, options: Options, deadline: Deadline
) -> tuple[apsw.Connection, Options, bool]:
    """Return a connection that can read, falling back to reading only where writing cannot be."""
    reading = options._replace(read_only=True)
    attempts = [(options, False)]
    if not options.read_only:
        attempts.append((reading, False))
    if wal_size(real) == 0:
        # Without room for locks: readable as long as nobody writes it.
        attempts.append((reading, True))
    failures: list[apsw.Error] = []
    for attempt, immutable in attempts:
        try:
            connection = _connect(real, attempt, deadline, immutable=immutable)
        except apsw.Error as failure:
            if not _can_perhaps_be_read(failure, real, options):
                raise
            failures.append(failure)
            continue
        read_only = attempt.read_only or connection.readonly("main")
        if read_only and not options.read_only:
            logger.warning("%s cannot be written; opened for reading only", real)
        return connection, attempt._replace(read_only=read_only), immutable
    raise failures[0]


def _connect(
    real: str, options: Options, deadline: Deadline, *, immutable: bool
) -> apsw.Connection:
    connection = open_connection(real, options, deadline, query_only=False, immutable=immutable)
    try:
        connection.pragma("application_id")
    except BaseException:
        connection.close(True)
        raise
    return connection


def _can_perhaps_be_read(failure: apsw.Error, real: str, options: Options) -> bool:
    """Return whether the failure came from a lack of permission or, for readers, of space.

    Anything else, such as a lack of file descriptors, must not turn a store into a read-only one.
    """
    if getattr(failure, "extendedresult", None) == apsw.SQLITE_IOERR_SHMSIZE:
        return options.read_only
    kinds = (apsw.CantOpenError, apsw.ReadOnlyError, apsw.PermissionsError)
    return isinstance(failure, kinds) and not file_access.can_write(real)


def _require_acceptable(path: Path, connection: apsw.Connection, options: Options) -> FileType:
    """Return what the file is; refuse what we must not touch."""
    file_kind = identify_file(connection)
    if file_kind.kind is FileType.EMPTY:
        require_not_emptied(path, connection)
    if file_kind.kind is FileType.OTHER:
        raise SchemaRefused(
            f"{path} is a database of another program; it was not changed. Choose another path "
            f"with sessiondb.sqlite.path in config.yaml, or db_path."
        )
    if file_kind.kind is FileType.LATER:
        raise SchemaRefused(
            f"{path} was written by a later Hermes (schema version {file_kind.version}, this "
            f"program upgrades up to {schema.DOCUMENTED_VERSION}); it was not changed. To read it "
            f"and copy everything into a new store, run: hermes sessions import {path}"
        )
    if options.read_only and file_kind.kind is not FileType.OURS:
        raise StoreReadOnly(
            f"{path} must be {_TO_BE_DONE[file_kind.kind]} first, and "
            f"it was opened for reading only. Open it once for writing, as its owner."
        )
    is_ours = file_kind.kind in (FileType.OURS, FileType.UNMARKED)
    if is_ours and file_kind.version > schema.WRITER_LEVEL and not options.read_only:
        raise SchemaRefused(
            f"{path} was written by a newer Hermes Sessions (level {file_kind.version}, this "
            f"program knows {schema.WRITER_LEVEL}); it was not changed. Update this program, or "
            f"open the store with read_only=True."
        )
    return file_kind.kind


def _leave(connection: apsw.Connection, *, has_log: bool) -> None:
    """Close a file that is not ours to change."""
    if has_log:
        # Closing would copy the log into it.
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    connection.close(True)


def _make_current(
    connection: apsw.Connection,
    kind: FileType,
    path: Path,
    real: str,
    options: Options,
    deadline: Deadline,
    journal: str,
    *,
    gated: bool,
) -> apsw.Connection:
    """Create, upgrade or migrate the store; return a connection to it.

    Other programs may make something else of the file while this one waits for its lock, so it is
    looked at again after every wait.

    Raises:
        StoreUnavailable: they did so every time.
    """
    rounds = 0
    try:
        while kind is not FileType.OURS:
            rounds += 1
            if rounds > _MOST_ROUNDS:
                raise StoreUnavailable(
                    f"{path} is not yet {_TO_BE_DONE[kind]} after {_MOST_ROUNDS} attempts: another "
                    f"program undoes it. Find out what else writes to the file, then try again."
                )
            deadline.start(options.lock_timeout)
            if kind is FileType.EMPTY:
                _claim_incremental_vacuum(connection)
                _set_journal(connection, deadline, journal)
                if _create(connection):
                    return connection
            elif kind is FileType.UNMARKED:
                _mark(connection)
            else:
                # Our own connection would count as somebody who still uses the old layout.
                connection.close()
                _upgrade(real, deadline, options, gated=gated)
                connection = open_connection(real, options, deadline, query_only=False)
            kind = _require_acceptable(path, connection, options)
        deadline.start(options.lock_timeout)
        _switch_journal(connection, deadline, journal, must=not gated)
        if not _up_to_date(connection):
            with _backed_up_first(connection, real, options):
                deadline.start(options.lock_timeout)
                _migrate(connection, path, options)
    except SchemaRefused:
        _leave(connection, has_log=wal_size(real) > 0)
        raise
    except BaseException:
        connection.close(True)
        raise
    return connection


def _up_to_date(connection: apsw.Connection) -> bool:
    applied = applied_migrations(connection)
    return all(step.name in applied for step in schema.MIGRATIONS)


def _upgrade(real: str, deadline: Deadline, options: Options, *, gated: bool) -> None:
    # Needed once in a file's life; not loaded otherwise.
    from hermes_sessions.storage.sqlite.upgrade import upgrade_documented_layout

    deadline.start(options.lock_timeout)
    upgrade_documented_layout(Path(real), options, deadline, gated=gated)
    deadline.start(options.lock_timeout)


def _claim_incremental_vacuum(connection: apsw.Connection) -> None:
    # A file without pages takes this setting, one that has some only with VACUUM.
    connection.pragma("auto_vacuum", 2)
    if connection.pragma("auto_vacuum") != 2:
        connection.execute("VACUUM")


def _switch_journal(
    connection: apsw.Connection, deadline: Deadline, mode: str, *, must: bool
) -> None:
    """Give an existing store the kind of journal that is wanted now.

    It may have come from another place, or the setting may have changed. Nobody else may have it
    open at that moment; when somebody has, it keeps the kind it has, unless it *must* change.
    """
    if connection.pragma("journal_mode") == mode:
        return
    if must:
        _set_journal(connection, deadline, mode)
        return
    try:
        connection.pragma("journal_mode", mode)
    except apsw.BusyError:
        logger.debug("others have the store open; its journal stays as it is for now")


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


def _create(connection: apsw.Connection) -> bool:
    """Create the tables, unless somebody was faster; return whether that was done."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        is_empty = identify_file(connection).kind is FileType.EMPTY
        if is_empty:
            connection.pragma("application_id", schema.APPLICATION_ID)
            connection.pragma("user_version", schema.WRITER_LEVEL)
            for step in schema.MIGRATIONS:
                apply_migration(connection, step)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return is_empty


def _mark(connection: apsw.Connection) -> None:
    """Give a store that was made of a dump the marks again that are not in one."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        if identify_file(connection) == (FileType.UNMARKED, schema.WRITER_LEVEL):
            connection.pragma("application_id", schema.APPLICATION_ID)
            connection.pragma("user_version", schema.WRITER_LEVEL)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _backed_up_first(
    connection: apsw.Connection, real: str, options: Options
) -> AbstractContextManager[None]:
    """Lend the time to take steps, after a backup."""
    if not options.back_up_first:
        return nullcontext()
    # Needed as rarely as a migration.
    from hermes_sessions.storage.migration_backup import BackupSource, back_up_before_migration
    from hermes_sessions.storage.sqlite.store_image import copy_snapshot, snapshot

    def copy_image(target: Path, on_progress: Callable[[int, int], None]) -> None:
        is_wal = connection.pragma("journal_mode") == "wal"
        with snapshot(connection):
            copy_snapshot(connection, target, nobody_waits=is_wal, on_progress=on_progress)

    source = BackupSource(
        "sqlite",
        f"sqlite:///{real}",
        tuple(sorted(applied_migrations(connection))),
        os.stat(real).st_size + wal_size(real),
        lambda: snapshot(connection),
        copy_image,
    )
    return back_up_before_migration(
        source,
        file=Path(real),
        patience=options.lock_timeout,
        still_needed=lambda: not _up_to_date(connection),
    )


def _migrate(connection: apsw.Connection, path: Path, options: Options) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        _require_acceptable(path, connection, options)
        apply_pending_migrations(connection)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
