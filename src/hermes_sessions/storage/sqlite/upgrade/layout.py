"""The layout of the file: drop the old search index; add our columns, tables, indexes, triggers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import apsw

from hermes_sessions.storage import tables
from hermes_sessions.storage.logs import Logger
from hermes_sessions.storage.sqlite import hermes_schema, migrations, table_ddl
from hermes_sessions.storage.sqlite.row_scan import fetch, quoted

logger = Logger(__name__)

_SEARCH_INDEXES: Final = ("messages_fts", "messages_fts_trigram")
_SEARCH_PARTS: Final = ("data", "idx", "content", "docsize", "config")
#: The search indexes of Hermes, with SQLite's tables for them.
SEARCH_TABLES: Final = frozenset(_SEARCH_INDEXES) | {
    f"{index}_{part}" for index in _SEARCH_INDEXES for part in _SEARCH_PARTS
}
#: Indexes of the documented layout; ours are created afresh.
_DOCUMENTED_INDEXES: Final = (
    "idx_sessions_source",
    "idx_sessions_parent",
    "idx_sessions_started",
    "idx_sessions_title_unique",
    "idx_messages_session",
    # Of later versions.
    "idx_messages_active_null",
    "idx_messages_platform_msg_id",
    "idx_messages_session_active",
    "idx_sessions_gateway_peer",
    "idx_sessions_handoff_state",
    "idx_sessions_session_key",
    "idx_sessions_source_id",
)
_TOPICS: Final = "telegram_dm_topic_bindings"
_REFERENCE: Final = re.compile(
    r"\bREFERENCES\s+[\"`\[]?sessions[\"`\]]?\s*\(\s*id\s*\)(?!\s+ON\b)", re.IGNORECASE
)
#: The suffix for a foreign column or table when one of ours needs its name.
_SUFFIX: Final = "_before_upgrade"


_KEYS: Final = frozenset({"id", "session_id", "parent_session_id"})
_SCHEMA_TEXTS: Final = {"sessions": hermes_schema.SESSIONS, "messages": hermes_schema.MESSAGES}


class Column(NamedTuple):
    """The declaration of a column, as far as it matters for writing rows."""

    type: str
    not_null: bool
    default: str | None
    hidden: int


@dataclass(frozen=True, slots=True)
class Layout:
    """The names and columns of a new store."""

    tables: Mapping[str, Mapping[str, Column]]
    indexes: tuple[str, ...]
    triggers: tuple[str, ...]


def columns_of(connection: apsw.Connection, table: str) -> dict[str, Column]:
    """Return the columns of a table by lower-case name; empty if it does not exist."""
    rows = connection.execute(
        'SELECT lower(name), upper(type), "notnull", dflt_value, hidden FROM pragma_table_xinfo(?)',
        (table,),
    )
    return {
        name: Column(kind, bool(nn), default, hidden) for name, kind, nn, default, hidden in rows
    }


def base_layout() -> Layout:
    """Return the layout that the first migration of a fresh store creates."""
    fresh = apsw.Connection(":memory:")
    try:
        fresh.execute(migrations.MIGRATIONS[0].sql(fresh))
        objects = fetch(
            fresh,
            "SELECT type, name FROM sqlite_master WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'",
        )
        return Layout(
            tables={name: columns_of(fresh, name) for kind, name in objects if kind == "table"},
            indexes=tuple(name for kind, name in objects if kind == "index"),
            triggers=migrations.CHANGE_NOTES_NAMES,
        )
    finally:
        fresh.close()


def text_columns(connection: apsw.Connection, table: tables.Table) -> list[str]:
    """Return the columns of Hermes, as far as the file has them, that hold text and no key."""
    theirs = hermes_schema.names(_SCHEMA_TEXTS[table.name], 22)
    found = columns_of(connection, table.name)
    return [
        column.name
        for column in table.columns
        if column.kind in ("name", "text")
        and column.name in theirs
        and column.name in found
        and column.name not in _KEYS
    ]


# Removals


def drop_search_index(connection: apsw.Connection) -> None:
    """Remove the full-text tables and everything that writes to them: they are derived."""
    writers = fetch(
        connection,
        "SELECT name FROM sqlite_master WHERE type = 'trigger' "
        "AND instr(lower(sql), 'messages_fts')",
    )
    for (name,) in writers:
        connection.execute(f"DROP TRIGGER {quoted(name)}")
    for table in _SEARCH_INDEXES:
        try:
            connection.execute(f"DROP TABLE IF EXISTS {table}")
        except apsw.SQLError as error:
            # A part is missing, so SQLite cannot load it to drop it.
            logger.warning("The old search index %s is damaged and removed: %s", table, error)
            connection.pragma("writable_schema", 1)
            connection.execute("DELETE FROM sqlite_master WHERE name = ?", (table,))
            connection.pragma("writable_schema", "RESET")
        for part in _SEARCH_PARTS:
            connection.execute(f"DROP TABLE IF EXISTS {table}_{part}")


def drop_indexes_and_triggers(connection: apsw.Connection, layout: Layout) -> None:
    """Remove the documented indexes, and indexes or triggers that have the name of one of ours."""
    for name in (*layout.indexes, *_DOCUMENTED_INDEXES):
        connection.execute(f"DROP INDEX IF EXISTS {name}")
    for name in layout.triggers:
        connection.execute(f"DROP TRIGGER IF EXISTS {name}")


# Additions


def add_tables_and_columns(connection: apsw.Connection, layout: Layout) -> None:
    """Add every missing table and column of a new store's base; foreign ones stay."""
    for table in tables.ALL_TABLES:
        if table in (tables.SESSIONS, tables.MESSAGES):
            continue
        found = columns_of(connection, table.name)
        if found and not {column.name for column in table.created_with()} <= found.keys():
            _rename_table(connection, table.name)
    connection.execute(table_ddl.side_tables())
    for declared in (tables.SESSIONS, tables.MESSAGES):
        for column in declared.created_with():
            declaration = table_ddl.declaration(declared, column)
            if not column.documented:
                wanted = layout.tables[declared.name][column.name]
                _add_column(connection, declared.name, column.name, declaration, wanted)
            elif column.name not in columns_of(connection, declared.name):
                connection.execute(f"ALTER TABLE {declared.name} ADD COLUMN {declaration}")


def cascade_topic_bindings(connection: apsw.Connection) -> None:
    """Delete a topic's binding together with its session, as Hermes does since topic schema 2.

    Bindings of topic schema 1 would prevent the deletion of their sessions. Only the declaration
    changes.
    """
    declared = connection.execute(
        "SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ?", (_TOPICS,)
    ).get
    if declared is None or not _REFERENCE.search(declared):
        return
    connection.pragma("writable_schema", 1)
    connection.execute(
        "UPDATE sqlite_master SET sql = ? WHERE type = 'table' AND name = ?",
        (_REFERENCE.sub(r"\g<0> ON DELETE CASCADE", declared), _TOPICS),
    )
    connection.pragma("writable_schema", "RESET")


def replace_archived(connection: apsw.Connection) -> None:
    """Turn the flag of later versions into a time; its column's name is needed for a derived
    one.
    """
    if "archived" not in columns_of(connection, "sessions"):
        return
    connection.execute(
        "UPDATE sessions SET archived_at = last_active WHERE archived <> 0 AND archived_at IS NULL"
    )
    _remove_column(connection, "sessions", "archived")


def kept_name(name: str) -> str:
    """Return the name under which a foreign table or column is kept when ours needs its name."""
    return name + _SUFFIX


def _rename_table(connection: apsw.Connection, table: str) -> None:
    kept = kept_name(table)
    logger.warning("The table %s is not the store's; it is kept as %s", table, kept)
    _rename(connection, f"ALTER TABLE {quoted(table)} RENAME TO {quoted(kept)}")


def _rename(connection: apsw.Connection, statement: str) -> None:
    # Allows it even if a foreign view is broken.
    connection.pragma("writable_schema", 1)
    connection.execute(statement)
    connection.pragma("writable_schema", 0)


def _add_column(
    connection: apsw.Connection, table: str, name: str, declaration: str, wanted: Column
) -> None:
    found = columns_of(connection, table).get(name)
    if found == wanted:
        return
    if found is None:
        connection.execute(f"ALTER TABLE {table} ADD COLUMN {declaration}")
        return
    # A column of this name has another declaration: its values are copied, the default is ours.
    kept = _set_aside(connection, table, name)
    connection.execute(f"ALTER TABLE {table} ADD COLUMN {declaration}")
    if wanted.hidden:
        return
    connection.execute(f"UPDATE {table} SET {name} = {kept} WHERE {kept} IS NOT NULL")
    _drop_column(connection, table, name, kept)


def _remove_column(connection: apsw.Connection, table: str, name: str) -> None:
    _drop_column(connection, table, name, _set_aside(connection, table, name))


def _set_aside(connection: apsw.Connection, table: str, name: str) -> str:
    """Give a column another name, also in foreign views, and return it."""
    kept = kept_name(name)
    _rename(connection, f"ALTER TABLE {table} RENAME COLUMN {name} TO {kept}")
    return kept


def _drop_column(connection: apsw.Connection, table: str, name: str, kept: str) -> None:
    try:
        connection.execute(f"ALTER TABLE {table} DROP COLUMN {kept}")
    except apsw.SQLError as error:
        logger.warning("The column %s.%s is kept as %s: %s", table, name, kept, error)
