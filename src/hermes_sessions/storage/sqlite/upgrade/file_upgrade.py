"""The whole upgrade: exclusive access, backup, one transaction, verification, commit."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import NamedTuple

import apsw

from hermes_sessions.errors import StoreError
from hermes_sessions.storage.logs import Logger
from hermes_sessions.storage.provider import FileUpgrade, UpgradedTable
from hermes_sessions.storage.sqlite import migrations, table_ddl
from hermes_sessions.storage.sqlite.connection import Deadline, SQLiteOptions
from hermes_sessions.storage.sqlite.exclusive_access import exclusive_access
from hermes_sessions.storage.sqlite.file_kind import FileType, identify_file
from hermes_sessions.storage.sqlite.migrations import apply_pending_migrations, record_migration
from hermes_sessions.storage.sqlite.transaction import ApswTransaction
from hermes_sessions.storage.sqlite.upgrade.backup_copy import ensure_backup
from hermes_sessions.storage.sqlite.upgrade.layout import (
    Layout,
    add_tables_and_columns,
    base_layout,
    cascade_topic_bindings,
    drop_indexes_and_triggers,
    drop_search_index,
    replace_archived,
)
from hermes_sessions.storage.sqlite.upgrade.lineage import settle_lineage
from hermes_sessions.storage.sqlite.upgrade.messages import convert_messages
from hermes_sessions.storage.sqlite.upgrade.report import account_for_tables, count_rows
from hermes_sessions.storage.sqlite.upgrade.sessions import (
    convert_meta,
    convert_session_ids,
    convert_sessions,
    convert_texts,
    fill_summaries,
    keep_usage_details,
    recover_lost_sessions,
    resolve_duplicate_titles,
    usage_details,
)
from hermes_sessions.storage.sqlite.upgrade.topics import adopt_topics
from hermes_sessions.storage.sqlite.usage_table import restore_usage_table
from hermes_sessions.storage.tables import ROUTING, USAGE

logger = Logger(__name__)


def upgrade_documented_layout(
    path: Path, options: SQLiteOptions, deadline: Deadline, *, gated: bool
) -> FileUpgrade | None:
    """Turn a file of a documented version into a store of ours, in place.

    Atomic: after any failure, even a crash of the process or the machine, the file is unchanged,
    and the next open starts again. A verified backup stays beside it. *gated* says whether
    processes take turns at the gate of this file.

    Returns:
        What was done with each table; None if another process was faster.

    Raises:
        StoreLocked: another program had the file open until the deadline.
        DiskFull, StoreCorrupt, StoreUnavailable, StoreIOError, StoreError: the message says why;
            the file was not changed.
    """
    with exclusive_access(
        path, options, deadline, gated=gated, still_needed=partial(_is_wanted, options)
    ) as connection:
        if connection is None:
            return None
        version = identify_file(connection).version
        started = time.monotonic()
        # A warning, because it takes time and leaves a second file of the same size.
        logger.warning(
            "%s has Hermes schema version %d and is being upgraded, once; a backup is kept "
            "beside it",
            path,
            version,
        )
        backup = ensure_backup(connection, path, version)
        counts, done = _upgrade(connection, path, version)
        logger.info(
            "%s: upgraded %d sessions with %d messages in %.1f s",
            path,
            *counts,
            time.monotonic() - started,
        )
        return FileUpgrade(version, str(backup), *counts, done)


def _is_wanted(options: SQLiteOptions, connection: apsw.Connection) -> bool:
    kind, version = identify_file(connection)
    if kind is FileType.LATER:
        return options.upgrade_later and version <= migrations.LATEST_UPGRADED_VERSION
    return kind is FileType.DOCUMENTED


class _Counts(NamedTuple):
    sessions: int
    messages: int


def _upgrade(
    connection: apsw.Connection, path: Path, version: int
) -> tuple[_Counts, tuple[UpgradedTable, ...]]:
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
        before = count_rows(connection)
        counts = _transform(connection, path, version)
        done = account_for_tables(connection, before)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return counts, done


def _transform(connection: apsw.Connection, path: Path, version: int) -> _Counts:
    before = _count(connection)
    layout = base_layout()
    convert_session_ids(connection)
    drop_search_index(connection)
    drop_indexes_and_triggers(connection, layout)
    if version > migrations.DOCUMENTED_VERSION:
        _add_to_later_layout(connection, layout, f"{path.name}, schema version {version}")
    else:
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
    replace_archived(connection)
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


def _add_to_later_layout(connection: apsw.Connection, layout: Layout, origin: str) -> None:
    """Add tables and columns to a file of version 12 or later, whose table of usage is another."""
    details = usage_details(connection)
    for table in (USAGE, ROUTING):
        texts = [c.name for c in table.columns if c.holds in ("text", "json")]
        convert_texts(connection, table.name, texts)
    restore_usage_table(ApswTransaction(connection))
    add_tables_and_columns(connection, layout)
    keep_usage_details(connection, origin, details)
    # Later versions set compacted messages inactive; here, inactive means rewound.
    connection.execute("UPDATE messages SET active = 1 WHERE active IS NULL OR compacted <> 0")


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
