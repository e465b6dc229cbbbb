"""The tables on MySQL and MariaDB, and the ordered steps that lead to them.

Text is collated bytewise and without padding, so that comparing and sorting is the same as on
SQLite. The server commits every change of a table by itself: a step can be interrupted in the
middle, so it is noted when it starts and when it is done, and can be taken again.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import Final

import pymysql

from hermes_sessions.errors import StoreLocked, StoreMissing, StoreReadOnly
from hermes_sessions.storage.mysql import message_append
from hermes_sessions.storage.mysql.error_translation import number_of
from hermes_sessions.storage.mysql.migration_lock import (
    MigrationLock,
    migration_lock,
    persistently,
)
from hermes_sessions.storage.mysql.server_session import ServerSession
from hermes_sessions.storage.mysql.transaction import with_values
from hermes_sessions.storage.servers.migrations import (
    STEPS_TAKEN,
    WRITER_LEVEL,
    BackUp,
    Migration,
    missing,
    owner_required,
)
from hermes_sessions.storage.servers.response_timeouts import MIGRATION_TURN_SECONDS
from hermes_sessions.storage.tables import (
    ALL_TABLES,
    COLUMN_STEPS,
    SEARCH_TABLES,
    SERVER_TABLES,
    TABLES,
    TABLES_BY_STEP,
    Column,
    Index,
    Table,
    added_by,
)

_NO_TABLE: Final = 1146
#: The user lacks a privilege on a table or on the database.
_DENIED: Final = frozenset({1142, 1044})
#: The server writes a binary log, and requires more privileges than those on a table.
_BINARY_LOG: Final = 1419
_TRIGGER_EXISTS: Final = 1359
#: A column, index or trigger of a step that was interrupted, or of a statement that a node did and
#: reported as failed. MySQL has no ADD COLUMN IF NOT EXISTS.
_DONE_BEFORE: Final = frozenset({1060, 1061, _TRIGGER_EXISTS})

_TYPES: Final = {
    "serial": "BIGINT NOT NULL AUTO_INCREMENT",
    "name": "VARCHAR(191)",
    "text": "LONGTEXT",
    "real": "DOUBLE",
    "integer": "BIGINT",
    "bytes": "LONGBLOB",
}
#: A title is bounded before characters are escaped; this is as much as an index takes.
_TITLE: Final = "VARCHAR(768)"
#: The length of the prefix of a text that is indexed.
_PREFIX: Final = 64


def ascii_lower(expression: str) -> str:
    """Return SQL that folds the case of ASCII letters only; ``lower`` folds all of Unicode."""
    for code in range(ord("A"), ord("Z") + 1):
        expression = f"REPLACE({expression}, '{chr(code)}', '{chr(code + 32)}')"
    return expression


#: The key that numbered variants of a title share; see model.title.family_key.
_FAMILY: Final = ascii_lower("REGEXP_REPLACE(title, ' #[0-9]+$', '')")
_GENERATED: Final = {
    "title_key": f'"title_key" {_TITLE} GENERATED ALWAYS AS ({_FAMILY}) STORED',
    "archived": '"archived" BIGINT GENERATED ALWAYS AS (archived_at IS NOT NULL) VIRTUAL',
    "revision": '"revision" BIGINT GENERATED ALWAYS AS '
    "(next_ordinal + rewind_count + change_count - 1) VIRTUAL",
}

#: The only token of document 0, which every intact index contains.
SENTINEL_WORD: Final = "w__"
#: Tokens stand between blanks, also at both ends. They are ASCII, which is compared fastest.
SEARCH_INDEX: Final = """CREATE TABLE IF NOT EXISTS search_documents (
    number BIGINT NOT NULL PRIMARY KEY,
    written DATETIME(6) NOT NULL,
    tokens LONGTEXT CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    INDEX idx_search_documents_written (written),
    FULLTEXT INDEX idx_search_documents_tokens (tokens)
) ENGINE=InnoDB"""
_FIRST_STATE: Final = (
    "INSERT INTO search_state (segmenter, indexed_through) "
    "SELECT 0, 0 FROM DUAL WHERE NOT EXISTS (SELECT 1 FROM search_state)"
)
INSERT_SENTINEL: Final = (
    f"INSERT INTO search_documents (number, written, tokens) "
    f"VALUES (0, UTC_TIMESTAMP(6), ' {SENTINEL_WORD} ') "
    f"ON DUPLICATE KEY UPDATE tokens = VALUES(tokens)"
)

_NOTED_COLUMNS: Final = ("content", "content_type", "tool_name", "tool_calls", "timestamp")
_UNCHANGED: Final = " AND ".join(f"NEW.{name} <=> OLD.{name}" for name in _NOTED_COLUMNS)
#: Queue each change of a message or a title for indexing, whichever program makes it; see
#: ``search.index_maintenance``.
_TRIGGERS: Final = {
    "messages_search_insert": "AFTER INSERT ON messages FOR EACH ROW "
    "INSERT INTO search_queue (message_id) VALUES (NEW.id)",
    "messages_search_delete": "AFTER DELETE ON messages FOR EACH ROW "
    "INSERT INTO search_queue (message_id) VALUES (OLD.id)",
    "messages_search_update": f"AFTER UPDATE ON messages FOR EACH ROW "
    f"IF NOT ({_UNCHANGED}) THEN "
    f"INSERT INTO search_queue (message_id) VALUES (OLD.id); END IF",
    "sessions_search_insert": "AFTER INSERT ON sessions FOR EACH ROW "
    "IF NEW.title IS NOT NULL THEN INSERT INTO search_titles (session_id) VALUES (NEW.id) "
    "ON DUPLICATE KEY UPDATE stale = 1; END IF",
    "sessions_search_title": "AFTER UPDATE ON sessions FOR EACH ROW "
    "IF NOT (NEW.title <=> OLD.title) THEN "
    "INSERT INTO search_titles (session_id) VALUES (NEW.id) "
    "ON DUPLICATE KEY UPDATE stale = 1; END IF",
    "sessions_search_delete": "AFTER DELETE ON sessions FOR EACH ROW "
    "IF OLD.title IS NOT NULL THEN "
    "UPDATE search_titles SET stale = 1 WHERE session_id = OLD.id; END IF",
}

#: The edge kind, derived from documented columns; see model.lineage.documented_edge_kind.
_EDGE_KIND: Final = """CASE
    WHEN NEW.parent_session_id IS NULL THEN NULL
    WHEN INSTR(NEW.model_config, '"_delegate_from"') > 0 THEN 'subagent'
    WHEN INSTR(NEW.model_config, '"_branched_from"') > 0 THEN 'branch'
    WHEN NEW.source <> 'tool' THEN (
        SELECT CASE p.end_reason WHEN 'compression' THEN 'compression'
            WHEN 'branched' THEN 'branch' END
        FROM sessions p WHERE p.id = NEW.parent_session_id AND p.ended_at <= NEW.started_at)
END"""
#: Whether another program gave a row another parent. The store changes the conversation, too, or
#: gives a row that it copied the parent to which its edge kind belongs.
_MOVED: Final = """NOT (NEW.parent_session_id <=> OLD.parent_session_id)
    AND NEW.conversation_id <=> OLD.conversation_id
    AND (OLD.parent_session_id IS NOT NULL OR OLD.edge_kind IS NULL)"""
_NOTE_SESSION: Final = "INSERT INTO stale_sessions (session_id) VALUES (NEW.id)"
_NOTE_OLD: Final = "INSERT INTO stale_sessions (session_id) VALUES (OLD.session_id)"
#: A statement that reads sessions must not change them (error 1442): then the message gets its
#: place when the session is settled.
_PLACE: Final = """BEGIN
    DECLARE has_place INT DEFAULT 1;
    DECLARE CONTINUE HANDLER FOR 1442 SET has_place = 0;
    UPDATE sessions SET
        next_ordinal = next_ordinal + 1,
        last_active = GREATEST(COALESCE(last_active, NEW.timestamp), NEW.timestamp),
        preview = COALESCE(preview, IF(NEW.role = 'user', LEFT(NEW.content, 60), NULL))
    WHERE id = NEW.session_id;
    SET NEW.ordinal = IF(has_place,
        (SELECT next_ordinal - 1 FROM sessions WHERE id = NEW.session_id), NULL);
    INSERT INTO stale_sessions (session_id) VALUES (NEW.session_id);
END"""
#: For other programs that write documented columns: triggers complete their rows, and record the
#: sessions whose derived columns must be computed again; see ``repositories.derived_columns``.
_CHANGE_TRIGGERS: Final = {
    "sessions_complete": f"BEFORE INSERT ON sessions FOR EACH ROW "
    f"IF NEW.conversation_id IS NULL THEN "
    f"SET NEW.conversation_id = COALESCE((SELECT p.conversation_id FROM sessions p "
    f"WHERE p.id = NEW.parent_session_id), NEW.id), "
    f"NEW.edge_kind = {_EDGE_KIND}, NEW.chain_id = NEW.id, "
    f"NEW.tip_id = IF(NEW.parent_session_id IS NULL, NEW.id, NULL), "
    f"NEW.listed = NEW.parent_session_id IS NULL, "
    f"NEW.last_active = COALESCE(NEW.last_active, NEW.started_at); "
    f"{_NOTE_SESSION}; END IF",
    "sessions_note_update": f"BEFORE UPDATE ON sessions FOR EACH ROW "
    f"IF NEW.id <> OLD.id OR NEW.started_at <> OLD.started_at "
    f"OR ({_MOVED}) "
    f"OR (NOT (NEW.end_reason <=> OLD.end_reason AND NEW.ended_at <=> OLD.ended_at) "
    f"AND NEW.end_reason IN ('compression', 'branched') AND EXISTS (SELECT 1 FROM sessions c "
    f"WHERE c.parent_session_id = NEW.id AND c.edge_kind IS NULL "
    f"AND c.started_at >= NEW.ended_at)) "
    f"THEN IF {_MOVED} AND NEW.edge_kind <=> OLD.edge_kind "
    f"THEN SET NEW.edge_kind = {_EDGE_KIND}; END IF; "
    f"{_NOTE_SESSION}; END IF",
    # Replaces the one of `message_append`: each trigger slows every append.
    "messages_append_place": f"BEFORE INSERT ON messages FOR EACH ROW "
    f"IF {message_append.IS_APPENDED} THEN {message_append.PLACE}; "
    f"ELSEIF NEW.ordinal IS NULL THEN {_PLACE}; END IF",
    "messages_move": f"BEFORE UPDATE ON messages FOR EACH ROW "
    f"IF NEW.session_id <> OLD.session_id AND NEW.ordinal <=> OLD.ordinal THEN {_PLACE}; END IF",
    "messages_note_update": f"AFTER UPDATE ON messages FOR EACH ROW "
    f"IF NEW.session_id <> OLD.session_id OR NEW.role <> OLD.role "
    f"OR NOT (NEW.content <=> OLD.content) OR NEW.timestamp <> OLD.timestamp "
    f"THEN {_NOTE_OLD}; END IF",
    "messages_note_delete": f"AFTER DELETE ON messages FOR EACH ROW "
    f"IF EXISTS (SELECT 1 FROM sessions s WHERE s.id = OLD.session_id "
    f"AND NOT (s.trashed_at <=> 0) AND s.last_active IS NOT NULL) "
    f"THEN {_NOTE_OLD}; END IF",
}
_CHANGES: Final = "0008_changes"
#: Changes by other programs were not recorded before this step: everything is computed once.
_NOTE_ALL: Final = "INSERT INTO stale_sessions (session_id) SELECT id FROM sessions"


def _column(column: Column) -> str:
    if column.generated:
        return _GENERATED[column.name]
    kind = _TITLE if column.name == "title" else _TYPES[column.kind]
    parts = [f'"{column.name}"', kind]
    if column.required:
        parts.append("NOT NULL")
    if column.default is not None:
        parts.append(f"DEFAULT {column.default}")
    return " ".join(parts)


def _create(table: Table) -> str:
    lines = [_column(column) for column in table.created_with()]
    key = ", ".join(f'"{name}"' for name in table.key)
    lines.append(f"PRIMARY KEY ({key})")
    lines += [_index(table, index) for index in table.indexes_of()]
    lines += [
        f'FOREIGN KEY ("{column.name}") REFERENCES {column.references} (id)'
        for column in table.created_with()
        if column.references is not None
    ]
    body = ",\n    ".join(lines)
    return (
        f"CREATE TABLE IF NOT EXISTS {table.name} (\n    {body}\n) ENGINE=InnoDB "
        f"ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE {{collation}}"
    )


def _index(table: Table, index: Index) -> str:
    kinds = {column.name: column.kind for column in table.columns}
    columns = ", ".join(
        f'"{name}"({_PREFIX})' if kinds.get(name) == "text" else f'"{name}"'
        for name in index.columns
    )
    return f"{'UNIQUE ' if index.unique else ''}INDEX {index.name} ({columns})"


def _triggers(bodies: Mapping[str, str]) -> tuple[str, ...]:
    found: list[str] = []
    for name, body in bodies.items():
        found += [f"DROP TRIGGER IF EXISTS {name}", f"CREATE TRIGGER {name} {body}"]
    return tuple(found)


def _declared(step: str) -> tuple[str, ...]:
    """Return the statements by which a step adds what is declared with its name."""
    added = [
        f"ALTER TABLE {table.name} ADD COLUMN {_column(column)}" for table, column in added_by(step)
    ]
    indexes = [
        f"ALTER TABLE {table.name} ADD {_index(table, index)}"
        for table in ALL_TABLES
        for index in table.indexes_of(step)
    ]
    return (*added, *indexes, *map(_create, TABLES_BY_STEP.get(step, ())))


MIGRATIONS: Final = (
    Migration("0001_base", tuple(_create(table) for table in (*TABLES, *SEARCH_TABLES))),
    Migration(
        "0002_search",
        (
            _FIRST_STATE,
            SEARCH_INDEX,
            INSERT_SENTINEL,
            *_triggers(_TRIGGERS),
        ),
    ),
    Migration("0003_lifecycle", _declared("0003_lifecycle")),
    Migration("0004_gateway", _declared("0004_gateway")),
    Migration("0005_append", _triggers(message_append.TRIGGERS)),
    Migration("0006_erasure", _declared("0006_erasure")),
    Migration("0007_holds", _declared("0007_holds")),
    Migration(
        _CHANGES,
        (
            *_declared(_CHANGES),
            *_triggers(_CHANGE_TRIGGERS),
            _NOTE_ALL,
        ),
    ),
    *(Migration(step, _declared(step)) for step in COLUMN_STEPS),
)


def make_current(session: ServerSession, *, may_write: bool, back_up: BackUp) -> int:
    """Migrate the tables, if that is needed and allowed; return the level that a writer must
    know. *session* must not be in a transaction.

    Raises:
        StoreMissing: the tables do not exist, and may not be created.
    """
    done = _steps_taken(session)
    if not may_write and not done:
        raise StoreMissing("There is no store in this database yet. Open it once for writing.")
    if missing(MIGRATIONS, done) and may_write:
        try:
            done = _migrate(session, back_up, finishing=False)
        except pymysql.err.OperationalError as error:
            if not done or number_of(error) not in _DENIED:
                raise
            raise StoreReadOnly(_owner_required(session, done)) from error
    if may_write:
        _make_missing_triggers(session, notes_changes=_CHANGES in done)
    return max(done.values(), default=WRITER_LEVEL)


def _make_missing_triggers(session: ServerSession, *, notes_changes: bool) -> None:
    """Recreate missing triggers: dumps by users without the privilege to see triggers omit them,
    and so do copies by many tools. Rows written since may be missing in the search index and in
    lists.
    """
    seen = {name for name, *_ in session.execute("SHOW TRIGGERS").fetchall()}
    declared = {
        **_TRIGGERS,
        **message_append.TRIGGERS,
        **(_CHANGE_TRIGGERS if notes_changes else {}),
    }
    gone = {name: declared[name] for name in declared if name not in seen}
    if not gone:
        return
    with migration_lock(session, 0, partial(_create_server_tables, session)) as lock:
        if lock is None:
            return  # Another process creates them, or migrates the tables.
        made = _make_triggers(session, gone, sees_others=bool(seen))
        if not made.isdisjoint(_TRIGGERS):
            _execute(session, "UPDATE search_state SET segmenter = 0")
        if notes_changes and not made.isdisjoint(_CHANGE_TRIGGERS):
            _execute(session, _NOTE_ALL)


def _make_triggers(
    session: ServerSession, wanted: Mapping[str, str], *, sees_others: bool
) -> set[str]:
    made: set[str] = set()
    for name, body in wanted.items():
        try:
            session.execute(f"CREATE TRIGGER {name} {body}")
            made.add(name)
        except pymysql.err.OperationalError as error:
            number = number_of(error)
            if not sees_others and (number in _DENIED or number == _BINARY_LOG):
                break  # Users who may not create triggers cannot see them: they probably exist.
            if number != _TRIGGER_EXISTS:
                raise
    return made


def finish(session: ServerSession, back_up: BackUp) -> tuple[str, ...]:
    """Run the finishing steps, which remove something; return their names. *session* must not be in
    a transaction.
    """
    before = _steps_taken(session)
    return tuple(sorted(set(_migrate(session, back_up, finishing=True)) - set(before)))


def _owner_required(session: ServerSession, done: Mapping[str, int]) -> str:
    [(user,)] = session.execute("SELECT CURRENT_USER()").fetchall()
    return owner_required(
        missing(MIGRATIONS, done), f"the user {user!r}", "a user with CREATE, ALTER and TRIGGER"
    )


def _steps_taken(session: ServerSession) -> dict[str, int]:
    try:
        cursor = persistently(lambda: session.execute(STEPS_TAKEN))
    except pymysql.err.ProgrammingError as error:
        if number_of(error) == _NO_TABLE:
            return {}
        raise
    return dict(cursor.fetchall())


def _migrate(session: ServerSession, back_up: BackUp, *, finishing: bool = False) -> dict[str, int]:
    no_limit = "max_statement_time" if session.is_mariadb else "max_execution_time"
    [(before,)] = session.execute(f"SELECT @@{no_limit}").fetchall()
    session.execute(f"SET {no_limit} = 0")
    make_tables = partial(_create_server_tables, session)
    try:
        # Only one process at a time migrates.
        with migration_lock(session, MIGRATION_TURN_SECONDS, make_tables) as lock:
            if lock is None:
                raise StoreLocked(
                    "Another process is changing the tables of this store. Try again."
                )
            make_tables()
            done = _steps_taken(session)
            steps = missing(MIGRATIONS, done, finishing=finishing)
            if steps and done:
                with lock.kept():
                    back_up(tuple(done))
            for step in steps:
                _take(session, lock, step)
                done[step.name] = step.writer_level
            return done
    finally:
        if session.connection.open:
            session.execute(f"SET {no_limit} = {before}")


def _create_server_tables(session: ServerSession) -> None:
    for table in SERVER_TABLES:
        _execute(session, _create(table))


def _take(session: ServerSession, lock: MigrationLock, step: Migration) -> None:
    written = partial(with_values, session.connection)
    started = written(
        "INSERT INTO store_migrations (name, applied_at, writer_level) VALUES (?, 0, ?) "
        "ON DUPLICATE KEY UPDATE applied_at = 0",
        (step.name, step.writer_level),
    )
    for statement in (started, *step.statements):
        lock.renew()
        _execute(session, statement)
    lock.renew()
    ended = "UPDATE store_migrations SET applied_at = ? WHERE name = ?"
    _execute(session, written(ended, (time.time(), step.name)))


def _execute(session: ServerSession, statement: str) -> None:
    statement = statement.replace("{collation}", session.collation)
    try:
        persistently(lambda: session.execute(statement))
    except pymysql.err.OperationalError as error:
        if number_of(error) not in _DONE_BEFORE:
            raise
