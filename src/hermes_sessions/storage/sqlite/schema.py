"""The tables of a SQLite store, and the ordered steps that lead to them.

Tables and columns carry the documented names, in the documented order, with ours after them.
``schema_version`` says 11, the documented layout that scripts know. Beside it stand our own marks:
``application_id`` tells our files from others, ``store_migrations`` lists the steps applied, and
``user_version`` is the level a program must know to be allowed to write.

Triggers complete rows that other programs insert with the documented columns alone, and note which
sessions such programs changed (`CHANGE_NOTES`). They are plain SQL, so any SQLite library can write
the file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

APPLICATION_ID: Final = 0x48535342  # "HSSB"
WRITER_LEVEL: Final = 1
DOCUMENTED_VERSION: Final = 11

SESSIONS_COLUMNS: Final = """
    id TEXT PRIMARY KEY,
    source TEXT NOT NULL,
    user_id TEXT,
    model TEXT,
    model_config TEXT,
    system_prompt TEXT,
    parent_session_id TEXT,
    started_at REAL NOT NULL,
    ended_at REAL,
    end_reason TEXT,
    message_count INTEGER DEFAULT 0,
    tool_call_count INTEGER DEFAULT 0,
    input_tokens INTEGER DEFAULT 0,
    output_tokens INTEGER DEFAULT 0,
    cache_read_tokens INTEGER DEFAULT 0,
    cache_write_tokens INTEGER DEFAULT 0,
    reasoning_tokens INTEGER DEFAULT 0,
    billing_provider TEXT,
    billing_base_url TEXT,
    billing_mode TEXT,
    estimated_cost_usd REAL,
    actual_cost_usd REAL,
    cost_status TEXT,
    cost_source TEXT,
    pricing_version TEXT,
    title TEXT,
    api_call_count INTEGER DEFAULT 0,
    handoff_state TEXT,
    handoff_platform TEXT,
    handoff_error TEXT"""

#: Columns beyond the documented ones; a file of an older layout gains them by ALTER TABLE.
SESSIONS_ADDED: Final = (
    # Lineage: the root's id, why there is a parent, head of the compression chain, and on
    # listed heads the tip that continues it.
    "conversation_id TEXT",
    "edge_kind TEXT",
    "chain_id TEXT",
    "tip_id TEXT",
    # Summaries kept by every append, so that no list ever reads messages.
    "listed INTEGER NOT NULL DEFAULT 0",
    "last_active REAL",
    "preview TEXT",
    "next_ordinal INTEGER NOT NULL DEFAULT 1",
    "rewind_count INTEGER NOT NULL DEFAULT 0",
    "archived_at REAL",
    # Set: never pruned.
    "pinned_at REAL",
    "trashed_at REAL",
    "trashed_title TEXT",
    # Columns of other layouts that came with an import, as a JSON object.
    "extra TEXT",
    # What numbered variants of a title share; see model.title.family_key.
    """title_key TEXT GENERATED ALWAYS AS (
        CASE
            WHEN length(rtrim(title, '0123456789')) < length(title)
                AND substr(rtrim(title, '0123456789'), -2) = ' #'
            THEN lower(substr(title, 1, length(rtrim(title, '0123456789')) - 2))
            ELSE lower(title)
        END) VIRTUAL""",
)

MESSAGES_COLUMNS: Final = """
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id TEXT NOT NULL REFERENCES sessions(id),
    role TEXT NOT NULL,
    content TEXT,
    tool_call_id TEXT,
    tool_calls TEXT,
    tool_name TEXT,
    timestamp REAL NOT NULL,
    token_count INTEGER,
    finish_reason TEXT,
    reasoning TEXT,
    reasoning_content TEXT,
    reasoning_details TEXT,
    codex_reasoning_items TEXT,
    codex_message_items TEXT"""

MESSAGES_ADDED: Final = (
    # Position in the session, given under the session's lock; order is never a clock.
    "ordinal INTEGER",
    "content_type TEXT",
    # The caller's own id of the message: appending it twice stores it once.
    "external_id TEXT",
    # 0 = rewound: hidden from replay and search, kept for audit and restore.
    "active INTEGER NOT NULL DEFAULT 1",
    # 1 = replaced by a summary: hidden from replay, still found by search.
    "compacted INTEGER NOT NULL DEFAULT 0",
    "rewind_id INTEGER",
    "extra TEXT",
)

SIDE_TABLES: Final = """
CREATE TABLE IF NOT EXISTS state_meta (key TEXT PRIMARY KEY, value TEXT);
CREATE TABLE IF NOT EXISTS schema_version (version INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS store_migrations (
    name TEXT PRIMARY KEY,
    applied_at REAL NOT NULL
);
CREATE TABLE IF NOT EXISTS rewinds (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id TEXT NOT NULL REFERENCES sessions(id),
    target_message_id INTEGER NOT NULL,
    target_ordinal INTEGER NOT NULL,
    hidden_count INTEGER NOT NULL,
    head_ordinal INTEGER NOT NULL,
    rewound_at REAL NOT NULL,
    restored_at REAL
);
CREATE INDEX IF NOT EXISTS idx_rewinds_session ON rewinds(session_id);
CREATE TABLE IF NOT EXISTS session_model_usage (
    session_id TEXT NOT NULL REFERENCES sessions(id),
    route_key TEXT NOT NULL,
    model TEXT,
    billing_provider TEXT,
    billing_base_url TEXT,
    billing_mode TEXT,
    task TEXT,
    input_tokens INTEGER NOT NULL DEFAULT 0,
    output_tokens INTEGER NOT NULL DEFAULT 0,
    cache_read_tokens INTEGER NOT NULL DEFAULT 0,
    cache_write_tokens INTEGER NOT NULL DEFAULT 0,
    reasoning_tokens INTEGER NOT NULL DEFAULT 0,
    api_call_count INTEGER NOT NULL DEFAULT 0,
    estimated_cost_usd REAL,
    actual_cost_usd REAL,
    first_at REAL NOT NULL,
    last_at REAL NOT NULL,
    PRIMARY KEY (session_id, route_key)
);
CREATE TABLE IF NOT EXISTS compression_locks (
    session_id TEXT PRIMARY KEY,
    holder TEXT NOT NULL,
    acquired_at REAL NOT NULL,
    expires_at REAL NOT NULL
);
CREATE TABLE IF NOT EXISTS foreign_rows (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    origin TEXT NOT NULL,
    table_name TEXT NOT NULL,
    row_key TEXT NOT NULL,
    row TEXT NOT NULL,
    UNIQUE (table_name, row_key)
);
"""

INDEXES: Final = """
CREATE INDEX IF NOT EXISTS idx_sessions_parent ON sessions(parent_session_id);
CREATE INDEX IF NOT EXISTS idx_sessions_started ON sessions(started_at DESC);
CREATE UNIQUE INDEX IF NOT EXISTS idx_sessions_title_unique
    ON sessions(title) WHERE title IS NOT NULL;
CREATE INDEX IF NOT EXISTS idx_sessions_title_key ON sessions(title_key)
    WHERE title_key IS NOT NULL;
CREATE INDEX IF NOT EXISTS idx_sessions_conversation ON sessions(conversation_id);
CREATE INDEX IF NOT EXISTS idx_sessions_active
    ON sessions(last_active DESC, started_at DESC, id DESC, listed, source);
CREATE INDEX IF NOT EXISTS idx_sessions_user
    ON sessions(user_id, last_active DESC, started_at DESC, id DESC, listed, source)
    WHERE user_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS idx_sessions_trashed ON sessions(trashed_at)
    WHERE trashed_at IS NOT NULL;
CREATE UNIQUE INDEX IF NOT EXISTS idx_messages_ordinal ON messages(session_id, ordinal);
CREATE UNIQUE INDEX IF NOT EXISTS idx_messages_external
    ON messages(session_id, external_id) WHERE external_id IS NOT NULL;
"""


def _table(name: str, documented: str, added: tuple[str, ...], constraints: str = "") -> str:
    return (
        f"CREATE TABLE {name} ({documented},\n    " + ",\n    ".join(added) + constraints + "\n);"
    )


CREATE_TABLES: Final = "\n".join(
    (
        _table(
            "sessions",
            SESSIONS_COLUMNS,
            SESSIONS_ADDED,
            ",\n    FOREIGN KEY (parent_session_id) REFERENCES sessions(id)",
        ),
        _table("messages", MESSAGES_COLUMNS, MESSAGES_ADDED),
        SIDE_TABLES,
        INDEXES,
        f"INSERT INTO schema_version (version) VALUES ({DOCUMENTED_VERSION});",
    )
)


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
    written: str | Callable[[], str]

    @property
    def sql(self) -> str:
        """The statements."""
        return self.written if isinstance(self.written, str) else self.written()


#: What stands beside the index. Triggers note what changes below the mark; see
#: ``search/index_maintenance.py``. Whatever of it is lost can be made again by this.
SEARCH_NOTES: Final = """
CREATE TABLE IF NOT EXISTS search_state (
    segmenter INTEGER NOT NULL,
    indexed_through INTEGER NOT NULL,
    newest REAL NOT NULL DEFAULT 0,
    ordered_from INTEGER NOT NULL DEFAULT 0,
    disorder REAL NOT NULL DEFAULT 0
);
INSERT INTO search_state (segmenter, indexed_through)
SELECT 0, 0 WHERE NOT EXISTS (SELECT 1 FROM search_state);
CREATE TABLE IF NOT EXISTS search_queue (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    message_id INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS search_titles (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id TEXT NOT NULL UNIQUE,
    stale INTEGER NOT NULL DEFAULT 1
);
CREATE INDEX IF NOT EXISTS idx_search_titles_stale ON search_titles(stale) WHERE stale = 1;
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

#: Whether a row has structured content, marked inside the text as Hermes does it. As bytes, because
#: the mark begins with NUL, at which functions on text stop.
_MARKED: Final = "substr(CAST(new.content AS BLOB), 1, 6) = x'006a736f6e3a'"


def _seconds(column: str) -> str:
    """Return the SQL for a time that another program wrote: seconds, also for a date as text."""
    since_1970 = "ROUND((julianday({}) - 2440587.5) * 86400.0, 3)"
    return (
        f"CASE WHEN typeof({column}) = 'text' THEN COALESCE({since_1970.format(column)}, "
        + since_1970.format("'now'")
        + f") ELSE {column} END"
    )


#: Why a row has its parent, told from documented columns; see model.legacy.documented_edge_kind.
_EDGE_KIND: Final = """CASE
            WHEN new.parent_session_id IS NULL THEN NULL
            WHEN instr(new.model_config, '"_delegate_from"') THEN 'subagent'
            WHEN instr(new.model_config, '"_branched_from"') THEN 'branch'
            WHEN new.source <> 'tool' THEN (
                SELECT CASE p.end_reason WHEN 'compression' THEN 'compression'
                    WHEN 'branched' THEN 'branch' END
                FROM sessions p WHERE p.id = new.parent_session_id AND p.ended_at <= new.started_at)
        END"""
#: Whether another program gave a row another parent. The store changes the conversation, too, or
#: gives a row that it copied the parent to which its edge kind belongs.
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
#: whose derived columns have to be worked out again; see `repositories.foreign_changes`. What the
#: store itself writes does not meet their conditions, apart from rare changes for which a note does
#: no harm. Whatever of it is lost can be made again by this.
CHANGE_NOTES: Final = f"""
CREATE TABLE IF NOT EXISTS stale_sessions (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS idx_stale_sessions_session ON stale_sessions(session_id);
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
#: The tables for scripts that make them elsewhere, with what completes the rows that they insert.
SCRIPT: Final = CREATE_TABLES + CHANGE_NOTES
#: Until now, nothing noted what other programs changed: all is worked out once.
NOTE_ALL: Final = "INSERT INTO stale_sessions (session_id) SELECT id FROM sessions;"


def _made(notes: str) -> tuple[str, ...]:
    """Return the names of the tables and triggers: the sixth word of what makes one."""
    return tuple(
        line.split()[5]
        for line in notes.splitlines()
        if line.startswith(("CREATE TABLE IF NOT EXISTS", "CREATE TRIGGER IF NOT EXISTS"))
    )


SEARCH_NOTES_NAMES: Final = _made(SEARCH_NOTES)
CHANGE_NOTES_NAMES: Final = _made(CHANGE_NOTES)


def _lifecycle() -> str:
    # Needed once in the life of a file, and not worth the time at every start.
    from hermes_sessions.storage.sqlite import table_ddl

    return table_ddl.LIFECYCLE


def _gateway() -> str:
    from hermes_sessions.storage.sqlite import table_ddl

    return table_ddl.GATEWAY


def _holds() -> str:
    from hermes_sessions.storage.sqlite import table_ddl

    return table_ddl.HOLDS


def _erasure() -> str:
    from hermes_sessions.storage.sqlite import table_ddl

    return table_ddl.ERASURE


#: In order. A fresh file and an upgraded one take the same steps after the base.
MIGRATIONS: Final = (
    Migration("0001_base", CREATE_TABLES),
    # The search index is derived: it may lag, be dropped or be built anew.
    Migration("0002_search", SEARCH_NOTES + SEARCH_INDEX),
    Migration("0003_lifecycle", _lifecycle),
    Migration("0004_gateway", _gateway),
    Migration("0006_erasure", _erasure),
    Migration("0007_holds", _holds),
    Migration("0008_changes", _REPLACED_TRIGGERS + CHANGE_NOTES + NOTE_ALL),
)
