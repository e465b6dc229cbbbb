"""Opening a file: identify it, check permissions, and create or upgrade its tables.

Every kind of file is handled separately; none is changed before it is identified. Concurrent first
opens are safe: the first to get the write lock creates the tables, the others find them.
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
    StoreMissing,
    StoreReadOnly,
    StoreUnavailable,
)
from hermes_sessions.storage.logs import Logger
from hermes_sessions.storage.provider import FileUpgrade
from hermes_sessions.storage.sqlite import file_access, migrations
from hermes_sessions.storage.sqlite.connection import (
    Deadline,
    SQLiteOptions,
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
from hermes_sessions.storage.tables import KNOWN_LEVEL

logger = Logger(__name__)

#: What a file needs before it can be read.
_TO_BE_DONE: Final = {
    FileType.EMPTY: "created",
    FileType.SIDE_TABLES: "created",
    FileType.DOCUMENTED: "upgraded",
    FileType.LATER: "upgraded",
    FileType.UNMARKED: "marked as a store again",
}
#: Attempts to create, upgrade or mark a file that other programs change meanwhile.
_MOST_ROUNDS: Final = 5


def open_engine(path: Path, real: str, options: SQLiteOptions) -> SQLiteEngine:
    """Return an engine on *path*, creating or upgrading the store as needed.

    *real* is the resolved path: SQLite names the companion files after the file itself.

    Raises:
        StoreUnreachable, UnsafeStore, NotADatabase, StoreCorrupt, SchemaRefused, StoreReadOnly,
        StoreLocked, DiskFull: the message says what to do; the file was not changed.
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
        upgraded = None
        if not options.read_only:
            is_as_it_was = file_access.make_private(real) == 0
            connection, upgraded = _make_current(
                connection, kind, path, real, options, deadline, journal, gated=on_local_disk
            )
        # The actual mode, not the requested one: others may have prevented the change.
        is_wal = connection.pragma("journal_mode") == "wal"
        options = options._replace(journal="wal" if is_wal else "delete")
        gated = on_local_disk and not options.read_only
        engine = SQLiteEngine(real, options, gated=gated, immutable=immutable)
        engine.upgraded = upgraded
        if is_as_it_was and engine.inode == inode:
            # It has read the tables; closing it would remove the log that the next one recreates.
            # (A connection that saw other permissions would keep them.)
            engine.start(connection, deadline)
        elif not has_neighbour(real):
            connection.close()
        else:
            # Closed after the next one is open: another library in this process may use the file.
            engine.start(open_connection(real, options, deadline, query_only=True), deadline)
            connection.close()
        engine.watch_for_neighbours()
    return engine


def _options_beside_sqlite3(real: str, options: SQLiteOptions) -> SQLiteOptions:
    """Use a rollback journal where Python's SQLite library may have the file open.

    Where locks belong to the process, two libraries cannot share a log.
    """
    from hermes_sessions.storage.sqlite.sqlite3_lock import (
        has_connections,
        switch_to_rollback_journal,
    )

    if options.read_only or connections_to(real) or not has_connections():
        return options
    switch_to_rollback_journal(real)
    return options._replace(journal="delete")


def open_memory(options: SQLiteOptions) -> SQLiteEngine:
    """Return an engine on a new in-memory database."""
    engine = SQLiteEngine(MEMORY, options)
    engine.with_writer(_create)
    return engine


def _prepare_file(path: Path, real: str, options: SQLiteOptions) -> tuple[int, ...] | None:
    """Make sure that a usable file exists; return its identity."""
    file_access.check_ownership(str(path))
    for suffix in file_access.COMPANIONS:
        # SQLite trusts these files: another user's journal would change our file.
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


def _refuse_damaged_wal(path: Path, real: str, options: SQLiteOptions, deadline: Deadline) -> None:
    """Refuse a file with a log of a dead program from which SQLite would silently drop commits.

    Other processes that open the file meanwhile wait, and check it themselves.

    Raises:
        StoreCorrupt: nothing was changed.
    """
    # Only needed after a crash; not loaded otherwise.
    from hermes_sessions.storage.sqlite.exclusive_access import locked_if_unused

    with locked_if_unused(real, deadline) as is_first:
        if not is_first:
            return  # The first process to open it has checked it.
        _require_intact_wal(path, real, options)
    deadline.start(options.lock_timeout)


def _require_intact_wal(path: Path, real: str, options: SQLiteOptions) -> None:
    from hermes_sessions.storage.sqlite.wal_files import inspect_wal, unusable_wal

    state = inspect_wal(Path(f"{real}-wal"))
    is_emptied = state.frames > 0 and os.stat(real).st_size == 0
    if state.drops_commits and options.durability == "normal" and not state.is_header_damaged:
        logger.warning(
            "%s: a part of the write-ahead log is damaged; after a power failure "
            "the newest writes may be lost",
            path,
        )
    elif state.drops_commits or is_emptied:
        raise unusable_wal(path, is_emptied=is_emptied)


def _wanted_journal(real: str, options: SQLiteOptions, file_system: str | None) -> str:
    if options.journal != "auto":
        return options.journal
    if file_access.supports_wal(file_system):
        return "wal"
    logger.warning(
        "%s is on a %s file system, which does not support a write-ahead log; the rollback journal "
        "is used. Several writers will wait for each other; a local disk is faster and safer.",
        real,
        file_system,
    )
    return "delete"


def _first_connection(
    real: str, options: SQLiteOptions, deadline: Deadline
) -> tuple[apsw.Connection, SQLiteOptions, bool]:
    """Return a connection that can read; falls back to read-only if writing is impossible."""
    reading = options._replace(read_only=True)
    attempts = [(options, False)]
    if not options.read_only:
        attempts.append((reading, False))
    if wal_size(real) == 0:
        # Without room for locks: readable as long as no program writes it.
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
            logger.warning("%s cannot be written; opened read-only", real)
        return connection, attempt._replace(read_only=read_only), immutable
    raise failures[0]


def _connect(
    real: str, options: SQLiteOptions, deadline: Deadline, *, immutable: bool
) -> apsw.Connection:
    connection = open_connection(real, options, deadline, query_only=False, immutable=immutable)
    try:
        connection.pragma("application_id")
    except BaseException:
        connection.close(True)
        raise
    return connection


def _can_perhaps_be_read(failure: apsw.Error, real: str, options: SQLiteOptions) -> bool:
    """Return whether the failure was a lack of permission or, for readers, of space.

    Any other failure, such as a lack of file descriptors, must not make a store read-only.
    """
    if getattr(failure, "extendedresult", None) == apsw.SQLITE_IOERR_SHMSIZE:
        return options.read_only
    kinds = (apsw.CantOpenError, apsw.ReadOnlyError, apsw.PermissionsError)
    return isinstance(failure, kinds) and not file_access.can_write(real)


def _require_acceptable(
    path: Path, connection: apsw.Connection, options: SQLiteOptions
) -> FileType:
    """Identify the file; refuse one that must not be touched."""
    file_kind = identify_file(connection)
    if file_kind.kind is FileType.EMPTY:
        require_not_emptied(path, connection)
    if file_kind.kind is FileType.OTHER:
        raise SchemaRefused(
            f"{path} is a database of another program; it was not changed. Choose another path "
            f"with sessiondb.sqlite.path in config.yaml, or db_path."
        )
    if file_kind.kind is FileType.LATER:
        is_known = file_kind.version <= migrations.LATEST_UPGRADED_VERSION
        if not (is_known and options.upgrade_later):
            upgrade = f"to turn it into a store, hermes sessiondb upgrade {path}; " * is_known
            raise SchemaRefused(
                f"{path} was written by a later Hermes (schema version {file_kind.version}), which "
                f"may still use it; it was not changed. Run {upgrade}to copy everything into a new "
                f"store, hermes sessions import {path}"
            )
    if options.read_only and file_kind.kind is not FileType.OURS:
        raise StoreReadOnly(
            f"{path} must be {_TO_BE_DONE[file_kind.kind]} first, and "
            f"it was opened read-only. Open it once for writing, as its owner."
        )
    is_ours = file_kind.kind in (FileType.OURS, FileType.UNMARKED)
    if is_ours and file_kind.version > KNOWN_LEVEL and not options.read_only:
        raise SchemaRefused(
            f"{path} was written by a newer Hermes Sessions (level {file_kind.version}, this "
            f"program knows {KNOWN_LEVEL}); it was not changed. Update this program, "
            f"or open the store with read_only=True."
        )
    return file_kind.kind


def _leave(connection: apsw.Connection, *, has_log: bool) -> None:
    """Close a file that must not be changed."""
    if has_log:
        # Closing would copy the log into it.
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    connection.close(True)


def _make_current(
    connection: apsw.Connection,
    kind: FileType,
    path: Path,
    real: str,
    options: SQLiteOptions,
    deadline: Deadline,
    journal: str,
    *,
    gated: bool,
) -> tuple[apsw.Connection, FileUpgrade | None]:
    """Create, upgrade or migrate the store; return a connection to it, and what was upgraded.

    Other programs may change the file while this one waits for its lock, so it is identified again
    after every wait.

    Raises:
        StoreUnavailable: they did so every time.
    """
    rounds = 0
    upgraded = None
    try:
        while kind is not FileType.OURS:
            rounds += 1
            if rounds > _MOST_ROUNDS:
                raise StoreUnavailable(
                    f"{path} is not yet {_TO_BE_DONE[kind]} after {_MOST_ROUNDS} attempts: another "
                    f"program reverts it. Find out what else writes to the file, then try again."
                )
            deadline.start(options.lock_timeout)
            if kind in (FileType.EMPTY, FileType.SIDE_TABLES):
                _claim_incremental_vacuum(connection)
                _set_journal(connection, deadline, journal)
                if _create(connection):
                    return connection, None
            elif kind is FileType.UNMARKED:
                _mark(connection)
            else:
                # Our own connection would count as a user of the old layout.
                connection.close()
                upgraded = _upgrade(real, deadline, options, gated=gated) or upgraded
                connection = open_connection(real, options, deadline, query_only=False)
            kind = _require_acceptable(path, connection, options)
        deadline.start(options.lock_timeout)
        _switch_journal(connection, deadline, journal, must=not gated)
        if not _up_to_date(connection):
            with _backed_up_first(connection, real, options):
                deadline.start(options.lock_timeout)
                _migrate(connection, path, options)
        if not _has_our_usage_table(connection):
            deadline.start(options.lock_timeout)
            _restore_usage_table(connection)
    except SchemaRefused:
        _leave(connection, has_log=wal_size(real) > 0)
        raise
    except BaseException:
        connection.close(True)
        raise
    return connection, upgraded


def _up_to_date(connection: apsw.Connection) -> bool:
    applied = applied_migrations(connection)
    return all(step.name in applied for step in migrations.MIGRATIONS)


def _upgrade(
    real: str, deadline: Deadline, options: SQLiteOptions, *, gated: bool
) -> FileUpgrade | None:
    # Needed once in a file's life; not loaded otherwise.
    from hermes_sessions.storage.sqlite.upgrade import upgrade_documented_layout

    deadline.start(options.lock_timeout)
    upgraded = upgrade_documented_layout(Path(real), options, deadline, gated=gated)
    deadline.start(options.lock_timeout)
    return upgraded


def _claim_incremental_vacuum(connection: apsw.Connection) -> None:
    # Only a file without pages accepts this setting; others need a VACUUM.
    connection.pragma("auto_vacuum", 2)
    if connection.pragma("auto_vacuum") != 2:
        connection.execute("VACUUM")


def _switch_journal(
    connection: apsw.Connection, deadline: Deadline, mode: str, *, must: bool
) -> None:
    """Switch an existing store to the requested kind of journal.

    It may come from another place, or the setting may have changed. No other program may have it
    open at that moment; otherwise it keeps its kind, unless it *must* change.
    """
    if connection.pragma("journal_mode") == mode:
        return
    if must:
        _set_journal(connection, deadline, mode)
        return
    try:
        connection.pragma("journal_mode", mode)
    except apsw.BusyError:
        logger.debug("Other programs have the store open; its journal stays as it is for now")


def _set_journal(connection: apsw.Connection, deadline: Deadline, mode: str) -> None:
    """Switch the journal; SQLite does not call the busy handler here, so this does."""
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
                logger.warning("Journal mode %s is not possible here; %s is used", mode, current)
            return


def _create(connection: apsw.Connection) -> bool:
    """Create the tables unless another process was faster; return whether they were created."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        is_new = identify_file(connection).is_new
        if is_new:
            connection.pragma("application_id", migrations.APPLICATION_ID)
            connection.pragma("user_version", migrations.WRITER_LEVEL)
            for step in migrations.MIGRATIONS:
                apply_migration(connection, step)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return is_new


def _mark(connection: apsw.Connection) -> None:
    """Restore the marks that a dump does not contain."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        kind, level = identify_file(connection)
        if kind is FileType.UNMARKED and level <= KNOWN_LEVEL:
            connection.pragma("application_id", migrations.APPLICATION_ID)
            connection.pragma("user_version", level)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _has_our_usage_table(connection: apsw.Connection) -> bool:
    found = "SELECT 1 FROM pragma_table_info('session_model_usage') WHERE name = 'route_key'"
    return connection.execute(found).fetchone() is not None


def _restore_usage_table(connection: apsw.Connection) -> None:
    # Only needed after a later Hermes has opened the store.
    from hermes_sessions.storage.sqlite.transaction import ApswTransaction
    from hermes_sessions.storage.sqlite.usage_table import restore_usage_table

    connection.execute("BEGIN IMMEDIATE")
    try:
        if restore_usage_table(ApswTransaction(connection)):
            logger.warning(
                "A later Hermes has changed the table of token usage in %s; it has its layout "
                "again, and all rows. Use one of the two programs on this file",
                connection.filename,
            )
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _backed_up_first(
    connection: apsw.Connection, real: str, options: SQLiteOptions
) -> AbstractContextManager[None]:
    """Wrap migrations in a backup beforehand."""
    if not options.back_up_first:
        return nullcontext()
    # Only needed for a migration.
    from hermes_sessions.storage.migration_backup import BackupSource, back_up_before_migration
    from hermes_sessions.storage.sqlite.store_image import copy_snapshot, snapshot

    def copy_image(target: Path, on_progress: Callable[[int, int], None]) -> None:
        is_wal = connection.pragma("journal_mode") == "wal"
        with snapshot(connection):
            copy_snapshot(connection, target, blocks_no_writer=is_wal, on_progress=on_progress)

    source = BackupSource(
        "sqlite",
        f"sqlite:///{real}",
        tuple(sorted(applied_migrations(connection))),
        os.stat(real).st_size + wal_size(real),
        lambda: snapshot(connection),
        migrations.TABLES_QUERY,
        copy_image,
    )
    return back_up_before_migration(
        source,
        file=Path(real),
        patience=options.lock_timeout,
        still_needed=lambda: not _up_to_date(connection),
    )


def _migrate(connection: apsw.Connection, path: Path, options: SQLiteOptions) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        _require_acceptable(path, connection, options)
        apply_pending_migrations(connection)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
