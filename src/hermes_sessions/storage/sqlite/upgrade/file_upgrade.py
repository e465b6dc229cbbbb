"""The whole upgrade: exclusive access, backup, one transaction, verification, commit."""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

import apsw

from hermes_sessions.errors import StoreError
from hermes_sessions.storage.logs import Logger
from hermes_sessions.storage.sqlite import migrations, table_ddl
from hermes_sessions.storage.sqlite.connection import Deadline, SQLiteOptions
from hermes_sessions.storage.sqlite.exclusive_access import exclusive_access
from hermes_sessions.storage.sqlite.file_kind import FileType, identify_file
from hermes_sessions.storage.sqlite.migrations import apply_pending_migrations, record_migration
from hermes_sessions.storage.sqlite.upgrade.backup_copy import ensure_backup
from hermes_sessions.storage.sqlite.upgrade.layout import (
    add_tables_and_columns,
    base_layout,
    cascade_topic_bindings,
    drop_indexes_and_triggers,
    drop_search_index,
)
from hermes_sessions.storage.sqlite.upgrade.lineage import settle_lineage
from hermes_sessions.storage.sqlite.upgrade.messages import convert_messages
from hermes_sessions.storage.sqlite.upgrade.sessions import (
    convert_meta,
    convert_session_ids,
    convert_sessions,
    fill_summaries,
    recover_lost_sessions,
    resolve_duplicate_titles,
)
from hermes_sessions.storage.sqlite.upgrade.topics import adopt_topics

logger = Logger(__name__)


def upgrade_documented_layout(
    path: Path, options: SQLiteOptions, deadline: Deadline, *, gated: bool
) -> None:
    """Turn a file of a documented version into a store of ours, in place.

    Atomic: after any failure, even a crash of the process or the machine, the file is unchanged,
    and
    the next open starts again. A verified backup stays beside it. *gated* says whether processes
    take turns at the gate of this file. No-op if another process was faster.

    Raises:
        StoreLocked: another program had the file open until the deadline.
        DiskFull, StoreCorrupt, StoreUnavailable, StoreIOError, StoreError: the message says why;
            the file was not changed.
    """
    with exclusive_access(
        path, options, deadline, gated=gated, still_needed=_is_documented
    ) as connection:
        if connection is None:
            return
        version = identify_file(connection).version
        started = time.monotonic()
        # A warning, because it takes time and leaves a second file of the same size.
        logger.warning(
            "%s has Hermes schema version %d and is being upgraded, once; a backup is kept "
            "beside it",
            path,
            version,
        )
        ensure_backup(connection, path, version)
        counts = _upgrade(connection, path, version)
        logger.info(
            "%s: upgraded %d sessions with %d messages in %.1f s",
            path,
            *counts,
            time.monotonic() - started,
        )


def _is_documented(connection: apsw.Connection) -> bool:
    return identify_file(connection).kind is FileType.DOCUMENTED


class _Counts(NamedTuple):
    sessions: int
    messages: int


def _upgrade(connection: apsw.Connection, path: Path, version: int) -> _Counts:
    # Dangling rows are repaired on the way, and foreign triggers must not run.
    connection.pragma("foreign_keys", 0)
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
    # Also makes the end of the journal durable: a journal that reappears after a power failure
    # would undo later writes.
    connection.pragma("synchronous", "EXTRA")
    connection.execute("BEGIN EXCLUSIVE")
    try:
        # From here on the transaction holds the lock and releases it.
        connection.pragma("locking_mode", "NORMAL")
        counts = _transform(connection, path, version)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return counts


def _transform(connection: apsw.Connection, path: Path, version: int) -> _Counts:
    before = _count(connection)
    layout = base_layout()
    convert_session_ids(connection)
    drop_search_index(connection)
    drop_indexes_and_triggers(connection, layout)
    add_tables_and_columns(connection, layout)
    cascade_topic_bindings(connection)
    totals = convert_messages(connection)
    convert_sessions(connection, totals)
    convert_meta(connection)
    recovered = recover_lost_sessions(connection, totals)
    resolve_duplicate_titles(connection)
    connection.execute(table_ddl.base_indexes())
    fill_summaries(connection, totals)
    settle_lineage(connection, version)
    _set_marks(connection)
    adopt_topics(connection)
    after = _count(connection)
    _require(
        path, after == _Counts(before.sessions + recovered, before.messages), "rows are missing"
    )
    for table in ("sessions", "messages"):
        broken = connection.execute(f"PRAGMA foreign_key_check({table})").fetchone()
        _require(path, broken is None, f"a row of {table} points nowhere")
    return after


def _count(connection: apsw.Connection) -> _Counts:
    return _Counts(
        *(
            int(connection.execute(f"SELECT COUNT(*) FROM {table}").get)
            for table in ("sessions", "messages")
        )
    )


def _set_marks(connection: apsw.Connection) -> None:
    connection.execute("DELETE FROM schema_version")
    connection.execute(
        "INSERT INTO schema_version (version) VALUES (?)", (migrations.DOCUMENTED_VERSION,)
    )
    connection.pragma("application_id", migrations.APPLICATION_ID)
    connection.pragma("user_version", migrations.WRITER_LEVEL)
    # The conversion above equals the first migration.
    record_migration(connection, migrations.MIGRATIONS[0].name)
    apply_pending_migrations(connection)
    # All derived columns were computed just now.
    connection.execute("DELETE FROM stale_sessions")


def _require(path: Path, truth: bool, otherwise: str) -> None:
    if not truth:
        raise StoreError(
            f"{path} was not upgraded: {otherwise} after the conversion, so it was rolled back. "
            f"The file is unchanged. Please report this."
        )
