"""The ordered migrations of a SQLite store, its triggers, and the ledger of what was applied.

Tables and columns carry the documented names, in the documented order, with ours after them.
``schema_version`` says 11, the documented layout that scripts know. Beside it stand our own marks:
``application_id`` tells our files from others, ``store_migrations`` lists the steps applied, and
``user_version`` is the level a program must know to be allowed to write.

Triggers complete rows that other programs insert with the documented columns alone, and note which
sessions such programs changed (`CHANGE_TRIGGERS`). They are plain SQL, so any SQLite library can
write the file.

The tables are declared in ``storage/tables.py``; ``table_ddl.py`` renders them.
"""

import time
from collections.abc import Callable
from typing import Final, NamedTuple

import apsw

from hermes_sessions.storage.tables import COLUMN_STEPS

APPLICATION_ID: Final = 0x48535342  # "HSSB"
WRITER_LEVEL: Final = 1
DOCUMENTED_VERSION: Final = 11
#: The latest version of Hermes whose files are upgraded in place when a program asks for it.
LATEST_UPGRADED_VERSION: Final = 22
#: See `Dialect.tables_query`.
TABLES_QUERY: Final = "SELECT name FROM sqlite_master WHERE type = 'table'"

#: The only token of document 0, which every sound index has.
SENTINEL_WORD: Final = "w__"
SEARCH_INDEX: Final = f"""
CREATE VIRTUAL TABLE search_index USING fts5(
    tokens, content='', contentless_delete=1, detail=full, tokenize="ascii tokenchars '_'");
INSERT INTO search_index(search_index, rank) VALUES ('automerge', 0);
INSERT INTO search_index(search_index, rank) VALUES ('secure-delete', 1);
INSERT INTO search_index(rowid, tokens) VALUES (0, '{SENTINEL_WORD}');
"""


class Migration(NamedTuple):
    """One named step; applied in the transaction that records its name."""

    name: str
    written: str | Callable[[apsw.Connection], str]

    def sql(self, connection: apsw.Connection) -> str:
        """Return the statements for this file."""
        return self.written if isinstance(self.written, str) else self.written(connection)


#: These triggers queue changes of indexed messages; see ``search/index_maintenance.py``.
#: `search_notes` recreates missing ones.
SEARCH_TRIGGERS: Final = """
INSERT INTO search_state (segmenter, indexed_through)
SELECT 0, 0 WHERE NOT EXISTS (SELECT 1 FROM search_state);
INSERT INTO search_titles (session_id) SELECT id FROM sessions WHERE title IS NOT NULL
ON CONFLICT (session_id) DO NOTHING;
CREATE TRIGGER IF NOT EXISTS messages_search_insert AFTER INSERT ON messages
WHEN new.id <= (SELECT indexed_through FROM search_state) BEGIN
    INSERT INTO search_queue (message_id) VALUES (new.id);
END;
CREATE TRIGGER IF NOT EXISTS messages_search_update
AFTER UPDATE OF content, content_type, tool_name, tool_calls, timestamp ON messages
WHEN old.id <= (SELECT indexed_through FROM search_state) BEGIN
    INSERT INTO search_queue (message_id) VALUES (old.id);
END;
CREATE TRIGGER IF NOT EXISTS messages_search_move AFTER UPDATE OF id ON messages
WHEN new.id <> old.id BEGIN
    INSERT INTO search_queue (message_id)
    SELECT old.id FROM search_state WHERE old.id <= indexed_through;
    INSERT INTO search_queue (message_id)
    SELECT new.id FROM search_state WHERE new.id <= indexed_through;
END;
CREATE TRIGGER IF NOT EXISTS messages_search_delete AFTER DELETE ON messages
WHEN old.id <= (SELECT indexed_through FROM search_state) BEGIN
    INSERT INTO search_queue (message_id) VALUES (old.id);
END;
CREATE TRIGGER IF NOT EXISTS sessions_search_insert AFTER INSERT ON sessions
WHEN new.title IS NOT NULL BEGIN
    INSERT INTO search_titles (session_id) VALUES (new.id)
    ON CONFLICT (session_id) DO UPDATE SET stale = 1;
END;
CREATE TRIGGER IF NOT EXISTS sessions_search_title AFTER UPDATE OF title ON sessions
WHEN new.title IS NOT old.title BEGIN
    INSERT INTO search_titles (session_id) VALUES (new.id)
    ON CONFLICT (session_id) DO UPDATE SET stale = 1;
END;
CREATE TRIGGER IF NOT EXISTS sessions_search_delete AFTER DELETE ON sessions
WHEN old.title IS NOT NULL BEGIN
    UPDATE search_titles SET stale = 1 WHERE session_id = old.id;
END;
"""

#: Whether a row has structured content, which Hermes marks by a prefix. Compared as bytes, because
#: the prefix starts with NUL, where text functions stop.
_MARKED: Final = "substr(CAST(new.content AS BLOB), 1, 6) = x'006a736f6e3a'"


def _seconds(column: str) -> str:
    """Return the SQL for a time that another program wrote: seconds, also for a date as text."""
    since_1970 = "ROUND((julianday({}) - 2440587.5) * 86400.0, 3)"
    return (
        f"CASE WHEN typeof({column}) = 'text' THEN COALESCE({since_1970.format(column)}, "
        + since_1970.format("'now'")
        + f") ELSE {column} END"
    )


#: The edge kind, derived from documented columns; see model.lineage.documented_edge_kind.
_EDGE_KIND: Final = """CASE
            WHEN new.parent_session_id IS NULL THEN NULL
            WHEN instr(new.model_config, '"_delegate_from"') THEN 'subagent'
            WHEN instr(new.model_config, '"_branched_from"') THEN 'branch'
            WHEN new.source <> 'tool' THEN (
                SELECT CASE p.end_reason WHEN 'compression' THEN 'compression'
                    WHEN 'branched' THEN 'branch' END
                FROM sessions p WHERE p.id = new.parent_session_id AND p.ended_at <= new.started_at)
        END"""
#: Whether another program changed the parent. The store itself also changes the conversation, or
#: sets the parent of a copied row whose edge kind is already known.
_MOVED: Final = """new.parent_session_id IS NOT old.parent_session_id
    AND new.conversation_id IS old.conversation_id
    AND (old.parent_session_id IS NOT NULL OR old.edge_kind IS NULL)"""
_NOT_NOTED: Final = "NOT EXISTS (SELECT 1 FROM stale_sessions WHERE session_id = {0})"
_NOTE: Final = f"INSERT INTO stale_sessions (session_id) SELECT {{0}} WHERE {_NOT_NOTED};"
_NOTE_SESSION: Final = _NOTE.format("new.id")
_NOTE_NEW: Final = _NOTE.format("new.session_id")
_NOTE_OLD: Final = _NOTE.format("old.session_id")
_OLD_NOT_NOTED: Final = _NOT_NOTED.format("old.session_id")
#: What other programs do to documented columns: triggers complete their rows, and note sessions
#: whose derived columns have to be worked out again; see `repositories.derived_columns`. What the
#: store itself writes does not meet their conditions, apart from rare changes for which a note does
#: no harm. Lost ones can be made again by `change_notes`.
CHANGE_TRIGGERS: Final = f"""
CREATE TRIGGER IF NOT EXISTS sessions_complete AFTER INSERT ON sessions
WHEN new.conversation_id IS NULL BEGIN
    UPDATE sessions SET
        conversation_id = COALESCE(
            (SELECT p.conversation_id FROM sessions p WHERE p.id = new.parent_session_id), new.id),
        edge_kind = {_EDGE_KIND},
        chain_id = new.id,
        tip_id = CASE WHEN new.parent_session_id IS NULL THEN new.id END,
        listed = new.parent_session_id IS NULL,
        started_at = {_seconds("new.started_at")},
        ended_at = {_seconds("new.ended_at")},
        last_active = COALESCE(new.last_active, {_seconds("new.started_at")}),
        next_ordinal = COALESCE(
            (SELECT MAX(m.ordinal) + 1 FROM messages m WHERE m.session_id = new.id), 1)
    WHERE id = new.id;
    {_NOTE_SESSION}
END;
CREATE TRIGGER IF NOT EXISTS sessions_adopt AFTER UPDATE OF parent_session_id ON sessions
WHEN {_MOVED} AND new.edge_kind IS old.edge_kind BEGIN
    UPDATE sessions SET edge_kind = {_EDGE_KIND} WHERE id = new.id;
END;
CREATE TRIGGER IF NOT EXISTS sessions_note_update
AFTER UPDATE OF id, parent_session_id, started_at, ended_at, end_reason ON sessions
WHEN new.id <> old.id OR new.started_at IS NOT old.started_at
    OR ({_MOVED})
    OR (new.end_reason IN ('compression', 'branched')
        AND (new.end_reason IS NOT old.end_reason OR new.ended_at IS NOT old.ended_at)
        AND EXISTS (SELECT 1 FROM sessions c WHERE c.parent_session_id = new.id
            AND c.edge_kind IS NULL AND c.started_at >= new.ended_at)) BEGIN
    UPDATE sessions SET
        started_at = {_seconds("new.started_at")}, ended_at = {_seconds("new.ended_at")}
    WHERE id = new.id
        AND (typeof(new.started_at) = 'text' OR typeof(new.ended_at) = 'text');
    {_NOTE_SESSION}
    INSERT INTO stale_sessions (session_id) SELECT id FROM sessions
    WHERE new.id <> old.id AND parent_session_id = old.id;
END;
CREATE TRIGGER IF NOT EXISTS sessions_note_delete AFTER DELETE ON sessions BEGIN
    INSERT INTO stale_sessions (session_id)
    SELECT id FROM sessions WHERE parent_session_id = old.id;
END;
CREATE TRIGGER IF NOT EXISTS messages_complete AFTER INSERT ON messages
WHEN new.ordinal IS NULL BEGIN
    UPDATE messages SET
        ordinal = (SELECT s.next_ordinal FROM sessions s WHERE s.id = new.session_id),
        content = CASE WHEN {_MARKED}
            THEN CAST(substr(CAST(new.content AS BLOB), 7) AS TEXT) ELSE new.content END,
        content_type = CASE WHEN {_MARKED} THEN 'json' ELSE new.content_type END,
        timestamp = {_seconds("new.timestamp")}
    WHERE id = new.id;
    UPDATE sessions SET
        next_ordinal = next_ordinal + 1,
        last_active = MAX(
            COALESCE(last_active, {_seconds("new.timestamp")}), {_seconds("new.timestamp")}),
        preview = COALESCE(preview, CASE WHEN new.role = 'user' AND NOT {_MARKED}
            THEN substr(new.content, 1, 60) END)
    WHERE id = new.session_id;
    {_NOTE_NEW}
END;
CREATE TRIGGER IF NOT EXISTS messages_leave BEFORE UPDATE OF session_id ON messages
WHEN new.session_id <> old.session_id AND new.ordinal IS old.ordinal BEGIN
    UPDATE messages SET ordinal = NULL WHERE id = old.id;
END;
CREATE TRIGGER IF NOT EXISTS messages_arrive AFTER UPDATE OF session_id ON messages
WHEN new.session_id <> old.session_id AND new.ordinal IS NULL BEGIN
    UPDATE messages SET
        ordinal = (SELECT s.next_ordinal FROM sessions s WHERE s.id = new.session_id)
    WHERE id = new.id;
    UPDATE sessions SET next_ordinal = next_ordinal + 1 WHERE id = new.session_id;
END;
CREATE TRIGGER IF NOT EXISTS messages_note_update
AFTER UPDATE OF session_id, role, content, timestamp ON messages
WHEN new.session_id <> old.session_id OR new.role <> old.role OR new.content IS NOT old.content
    OR new.timestamp IS NOT old.timestamp BEGIN
    UPDATE messages SET
        content = CAST(substr(CAST(new.content AS BLOB), 7) AS TEXT), content_type = 'json'
    WHERE id = new.id AND {_MARKED};
    UPDATE messages SET timestamp = {_seconds("new.timestamp")}
    WHERE id = new.id AND typeof(new.timestamp) = 'text';
    {_NOTE_NEW}
    {_NOTE_OLD}
END;
CREATE TRIGGER IF NOT EXISTS messages_note_delete AFTER DELETE ON messages
WHEN {_OLD_NOT_NOTED}
    AND EXISTS (SELECT 1 FROM sessions
        WHERE id = old.session_id AND trashed_at IS NOT 0 AND last_active IS NOT NULL) BEGIN
    INSERT INTO stale_sessions (session_id) VALUES (old.session_id);
END;
"""
_REPLACED_TRIGGERS: Final = """
DROP TRIGGER IF EXISTS sessions_complete;
DROP TRIGGER IF EXISTS messages_complete;
"""
#: Earlier versions did not note changes by other programs, so everything is recomputed once.
NOTE_ALL: Final = "INSERT INTO stale_sessions (session_id) SELECT id FROM sessions;"


def _triggers(notes: str) -> list[str]:
    """Return the names of the triggers: the sixth word of each CREATE TRIGGER."""
    return [
        line.split()[5]
        for line in notes.splitlines()
        if line.startswith("CREATE TRIGGER IF NOT EXISTS")
    ]


#: Tables and triggers.
SEARCH_NOTES_NAMES: Final = (
    "search_state",
    "search_queue",
    "search_titles",
    *_triggers(SEARCH_TRIGGERS),
)
CHANGE_NOTES_NAMES: Final = ("stale_sessions", *_triggers(CHANGE_TRIGGERS))


# The functions below import table_ddl late, because only new or upgraded files need it.


def search_notes() -> str:
    """Return the tables and triggers beside the search index; running it recreates missing ones."""
    from hermes_sessions.storage.sqlite import table_ddl

    return table_ddl.search_notes()


def change_notes() -> str:
    """Return the table and triggers for changes by other programs; recreates missing ones."""
    from hermes_sessions.storage.sqlite import table_ddl

    return table_ddl.change_notes()


def script() -> str:
    """Return the base tables for scripts that create them elsewhere, and the triggers that
    complete inserted rows.
    """
    return _base() + change_notes()


def _base() -> str:
    from hermes_sessions.storage.sqlite import table_ddl

    return table_ddl.base_tables()


def _declared(name: str) -> Migration:
    """Return a step whose tables and columns are declared in ``storage/tables.py``."""

    def written(connection: apsw.Connection) -> str:
        from hermes_sessions.storage.sqlite import table_ddl

        return table_ddl.step(name, connection)

    return Migration(name, written)


#: In order. New and upgraded files apply the same migrations after the base.
MIGRATIONS: Final = (
    Migration("0001_base", lambda _: _base()),
    # The search index is derived data: it may lag, be dropped or be rebuilt.
    Migration("0002_search", lambda _: search_notes() + SEARCH_INDEX),
    _declared("0003_lifecycle"),
    _declared("0004_gateway"),
    _declared("0006_erasure"),
    _declared("0007_holds"),
    Migration("0008_changes", lambda _: _REPLACED_TRIGGERS + change_notes() + NOTE_ALL),
    *map(_declared, COLUMN_STEPS),
)


def record_migration(connection: apsw.Connection, name: str) -> None:
    """Record, in the open transaction, that a migration was applied."""
    connection.execute(
        "INSERT INTO store_migrations (name, applied_at) VALUES (?, ?)", (name, time.time())
    )


def apply_migration(connection: apsw.Connection, step: Migration) -> None:
    """Apply and record one migration in the open transaction."""
    connection.execute(step.sql(connection))
    record_migration(connection, step.name)


def apply_pending_migrations(connection: apsw.Connection) -> None:
    """Apply all pending migrations in the open transaction."""
    applied = applied_migrations(connection)
    for step in MIGRATIONS:
        if step.name not in applied:
            apply_migration(connection, step)


def applied_migrations(connection: apsw.Connection) -> set[str]:
    """Return the names of the applied migrations."""
    return {row[0] for row in connection.execute("SELECT name FROM store_migrations")}
