"""Writes a store as a file that released versions of Hermes open and continue.

Schema 22 is that of Hermes 0.19, schema 11 that of Hermes 0.13. The search index is left to Hermes,
which builds it when it first opens the file. What a schema cannot express is counted, so that the
report accounts for every row.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import apsw

from hermes_sessions.errors import InvalidInput, StoreError
from hermes_sessions.model.lineage import BRANCH, COMPRESSION, HANDOFF, SUBAGENT
from hermes_sessions.storage.codec import JSON
from hermes_sessions.storage.file_care import HermesExport, HermesSchema
from hermes_sessions.storage.fsync import sync_directory, sync_file
from hermes_sessions.storage.provider import ReadTransaction, placeholders
from hermes_sessions.storage.sqlite import hermes_schema
from hermes_sessions.storage.sqlite.file_access import create_private
from hermes_sessions.storage.sqlite.row_scan import quoted
from hermes_sessions.storage.sqlite.upgrade.topics import BINDINGS, MODES
from hermes_sessions.storage.tables import ALL_TABLES, USAGE

if TYPE_CHECKING:
    from hermes_sessions.storage.sessiondb import SessionDB

#: How Hermes marks structured content.
_STRUCTURED: Final = "\0json:"
#: Opened with a version below its own, Hermes 0.13 builds its search index; Hermes 0.19 builds a
#: missing one in any case.
_STATED_VERSION: Final[dict[HermesSchema, int]] = {11: 10, 22: 22}
_USAGE_KEY: Final = (
    "session_id",
    "model",
    "billing_provider",
    "billing_base_url",
    "billing_mode",
    "task",
)
_USAGE_DETAILS: Final = ("cost_status", "cost_source")
#: Columns whose values must stay different from each other, and those that refer to them.
_DISTINCT: Final = frozenset(("id", "session_id", "parent_session_id", "title", "key"))
#: Tables of a store that are neither declared with the others nor another program's.
_NOT_FOREIGN: Final = ("schema_version", "store_migrations", "search_index", MODES, BINDINGS)
#: Whether Hermes does not see by the parent's end that a session is a branch, and such a session.
_NOT_SHOWN: Final = (
    "NOT EXISTS (SELECT 1 FROM sessions p WHERE p.id = sessions.parent_session_id "
    "AND p.end_reason = 'branched' AND p.ended_at <= sessions.started_at)"
)
_UNMARKED: Final = (
    "SELECT id, model_config, parent_session_id FROM sessions "
    f"WHERE id = ? AND parent_session_id IS NOT NULL AND {_NOT_SHOWN}"
)


def export_database(
    db: SessionDB,
    target: Path,
    schema: HermesSchema,
    on_progress: Callable[[int], None] = lambda sessions: None,
) -> HermesExport:
    """See `FileCare.export_database`."""
    if target.exists():
        raise InvalidInput(f"{target} already exists. Choose a new file.")
    if not target.parent.is_dir():
        raise InvalidInput(f"The directory {target.parent} does not exist. Create it first.")
    draft = target.with_name(f"{target.name}.{os.getpid()}.partial")
    try:
        create_private(draft)
        with closing(apsw.Connection(str(draft))) as connection:
            # Whatever goes wrong, the draft is removed.
            connection.pragma("journal_mode", "off")
            connection.pragma("synchronous", "off")
            connection.execute("BEGIN")
            written = _Writer(connection, schema).write(db, on_progress)
            connection.execute("COMMIT")
            if connection.pragma("integrity_check") != "ok":
                raise StoreError(f"{target} was not written: it cannot be read back. Try again.")
        sync_file(draft)
        _publish(draft, target)
    except FileExistsError as error:
        raise InvalidInput(f"{target} already exists. Choose a new file.") from error
    except apsw.FullError as error:
        raise StoreError(
            f"{target} was not written: the disk is full. Free some space, or choose another disk."
        ) from error
    except (apsw.Error, OSError) as error:
        raise StoreError(f"{target} was not written: {error}. Check the disk.") from error
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
    sync_directory(target.parent)
    return written


def _publish(draft: Path, target: Path) -> None:
    """Give a finished file its name; never replaces one that appeared meanwhile."""
    try:
        os.link(draft, target)
    except FileExistsError:
        raise
    except OSError:
        # The file system has no hard links: an empty file reserves the name.
        with target.open("xb"):
            draft.replace(target)


class _Writer:
    """Fills an empty file in one transaction."""

    def __init__(self, connection: apsw.Connection, schema: HermesSchema) -> None:
        self._connection = connection
        self._schema = schema
        self._left_out: Counter[str] = Counter()
        #: Start and parent of sessions that continue another one; ids of branches.
        self._continuations: list[tuple[float, str]] = []
        self._branches: list[tuple[str]] = []
        #: What Hermes knows of usage and this store does not, by Hermes's key.
        self._usage_details: Mapping[tuple[str, ...], Mapping[str, Any]] = {}
        self._usage_details_written = 0
        self._session_columns = hermes_schema.names(hermes_schema.SESSIONS, schema)
        self._message_columns = hermes_schema.names(hermes_schema.MESSAGES, schema)

    def write(self, db: SessionDB, on_progress: Callable[[int], None]) -> HermesExport:
        """Write everything that the schema can express."""
        self._create("sessions", hermes_schema.SESSIONS)
        self._create("messages", hermes_schema.MESSAGES)
        self._create("state_meta", hermes_schema.META)
        self._create("schema_version", "|version INTEGER NOT NULL")
        self._insert("schema_version", ["version"], [(_STATED_VERSION[self._schema],)])
        sessions = messages = 0
        if self._schema == 22:
            self._create("session_model_usage", hermes_schema.USAGE, hermes_schema.USAGE_KEY)
            with db.store.provider.read() as tx:
                self._usage_details = _usage_details(tx)
        for record in db.iter_export():
            messages += self._write_session(record)
            sessions += 1
            on_progress(sessions)
        self._settle_lineage()
        self._connection.execute(
            "CREATE UNIQUE INDEX idx_sessions_title_unique ON sessions(title) "
            "WHERE title IS NOT NULL"
        )
        with db.store.provider.read() as tx:
            self._copy(tx, "state_meta", "state_meta", hermes_schema.META)
            if self._schema == 22:
                key = "PRIMARY KEY (scope, session_key)"
                self._create("gateway_routing", hermes_schema.ROUTING, key)
                self._copy(tx, "gateway_routing", "gateway_routing", hermes_schema.ROUTING)
            self._copy_topics(tx)
            if db.store.provider.is_file:
                self._copy_foreign_tables(tx)
            for (name,) in tx.stream("SELECT table_name FROM foreign_rows"):
                self._left_out[f"rows of {name}"] += 1
        self._left_out[f"rows of {USAGE.name}"] -= self._usage_details_written
        return HermesExport(sessions, messages, dict(sorted((+self._left_out).items())))

    def _create(self, table: str, columns: str, key: str = "") -> None:
        lines = [*hermes_schema.declarations(columns, self._schema), *([key] if key else [])]
        self._connection.execute(f"CREATE TABLE {table} ({', '.join(lines)})")

    def _insert(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        self._connection.executemany(
            f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({placeholders(len(columns))})",
            (
                [self._storable(name, value) for name, value in zip(columns, row, strict=True)]
                for row in rows
            ),
        )

    def _storable(self, column: str, value: Any) -> Any:
        """Return a value that every SQLite library can read back."""
        if isinstance(value, str) and not value.isascii():
            # Texts that must stay different are escaped.
            instead = "backslashreplace" if column in _DISTINCT else "surrogatepass"
            cleaned = value.encode("utf-8", instead).decode("utf-8", "replace")
            if cleaned != value:
                self._left_out["lone surrogates, replaced"] += 1
            return cleaned
        return value

    def _write_session(self, record: Mapping[str, Any]) -> int:
        shown = [m for m in record["messages"] if self._is_expressed(m)]
        row = dict(record)
        row["model_config"] = self._readable_config(record["model_config"])
        if record["edge_kind"] == SUBAGENT and record["parent_session_id"] is not None:
            row["model_config"] = _marked(
                row["model_config"], "_delegate_from", record["parent_session_id"]
            )
        row["message_count"] = sum(1 for m in shown if m["active"] and not m["compacted"])
        if record["edge_kind"] == COMPRESSION and record["parent_session_id"] is not None:
            self._continuations.append((record["started_at"], record["parent_session_id"]))
        if record["edge_kind"] in (BRANCH, HANDOFF):
            self._branches.append((record["id"],))
        if self._schema == 11:
            self._left_out["archived sessions, shown as others"] += record["archived"]
        self._insert(
            "sessions", self._session_columns, [[row[name] for name in self._session_columns]]
        )
        self._insert("messages", self._message_columns, map(self._message_row, shown))
        if self._schema == 22:
            self._insert(
                "session_model_usage",
                hermes_schema.names(hermes_schema.USAGE, 22),
                self._usage_rows(record),
            )
        return len(shown)

    def _readable_config(self, config: str | None) -> str | None:
        """Return a configuration that SQLite reads as JSON: Hermes 0.19 cannot list any session
        once one configuration is something else.
        """
        if config is None or self._connection.execute("SELECT json_valid(?)", (config,)).get:
            return config
        self._left_out["model configurations that are no JSON, quoted"] += 1
        return json.dumps(config)

    def _usage_rows(self, record: Mapping[str, Any]) -> list[list[Any]]:
        """Return one row for each key of Hermes, which tells no missing value from an empty one."""
        rows: dict[tuple[str, ...], dict[str, Any]] = {}
        for usage in record.get("model_usage", ()):
            texts = {name: usage[name] or "" for name in _USAGE_KEY[1:]}
            fresh = {"session_id": record["id"], **usage, **texts}
            fresh |= {"first_seen": usage["first_at"], "last_seen": usage["last_at"]}
            row = rows.setdefault(tuple(texts.values()), fresh)
            if row is not fresh:
                for name, value in fresh.items():
                    if name.endswith(("_tokens", "_count", "_usd")):
                        row[name] = (row[name] or 0) + (value or 0)
                row["last_seen"] = max(row["last_seen"], fresh["last_seen"])
        for key, row in rows.items():
            details = self._usage_details.get((record["id"], *key))
            if details is not None:
                row |= {name: details.get(name) for name in _USAGE_DETAILS}
                self._usage_details_written += 1
        names = hermes_schema.names(hermes_schema.USAGE, 22)
        return [[row.get(name) for name in names] for row in rows.values()]

    def _is_expressed(self, message: Mapping[str, Any]) -> bool:
        """Return whether the schema can tell a message from one that is in force."""
        if self._schema == 22 or (message["active"] and not message["compacted"]):
            return True
        kind = "compacted messages" if message["compacted"] else "rewound messages"
        self._left_out[kind] += 1
        return False

    def _message_row(self, message: Mapping[str, Any]) -> list[Any]:
        row = dict(message)
        content = message["content"]
        if message.get("content_type") == JSON:
            row["content"] = _STRUCTURED + json.dumps(content)
        if isinstance(message["tool_calls"], (list, dict)):
            row["tool_calls"] = json.dumps(message["tool_calls"])
        # Hermes sets compacted messages inactive; here, inactive means rewound.
        row["active"] = int(bool(message["active"] and not message["compacted"]))
        return [row[name] for name in self._message_columns]

    def _settle_lineage(self) -> None:
        """Drop parents that are not in the file, and let the clocks of chains agree with their
        edges: Hermes recognises a continuation by the end of its parent.
        """
        self._connection.execute(
            "UPDATE sessions SET parent_session_id = NULL "
            "WHERE parent_session_id NOT IN (SELECT id FROM sessions)"
        )
        if self._connection.changes():
            self._left_out["parents in the trash"] = self._connection.changes()
        self._connection.executemany(
            f"UPDATE sessions SET end_reason = '{COMPRESSION}', "
            f"ended_at = MIN(COALESCE(ended_at, ?1), ?1) WHERE id = ?2",
            self._continuations,
        )
        unmarked = [
            self._connection.execute(_UNMARKED, branch).fetchone() for branch in self._branches
        ]
        self._connection.executemany(
            "UPDATE sessions SET model_config = ? WHERE id = ?",
            [(_marked(row[1], "_branched_from", row[2]), row[0]) for row in unmarked if row],
        )
        if self._schema == 11:
            # Hermes 0.13 hides the branches of a session that has not ended by branching.
            before = self._connection.total_changes()
            self._connection.executemany(
                f"UPDATE sessions SET parent_session_id = NULL WHERE id = ? AND {_NOT_SHOWN}",
                self._branches,
            )
            detached = self._connection.total_changes() - before
            self._left_out["parents of branches, which would be hidden"] = detached

    def _copy(self, tx: ReadTransaction, source: str, table: str, columns: str) -> None:
        names = hermes_schema.names(columns, self._schema)
        there = ", ".join(map(quoted, names))
        self._insert(table, names, tx.stream(f"SELECT {there} FROM {source}"))

    def _copy_foreign_tables(self, tx: ReadTransaction) -> None:
        """Copy the tables of other programs in the same file, such as those of Hermes's modules."""
        ours = {table.name for table in ALL_TABLES} | set(_NOT_FOREIGN)
        foreign = tx.all(
            "SELECT m.name, m.sql, t.type FROM sqlite_master m JOIN pragma_table_list t "
            "ON t.name = m.name AND t.schema = 'main' "
            "WHERE m.type = 'table' AND t.type <> 'shadow' AND m.name NOT LIKE 'sqlite\\_%' "
            "ESCAPE '\\' ORDER BY m.name"
        )
        for name, declaration, kind in foreign:
            if name.lower() in ours:
                continue
            if kind == "virtual":
                self._left_out[f"virtual table {name}"] += 1
                continue
            self._connection.execute(declaration)
            found = tx.all("SELECT name FROM pragma_table_xinfo(?) WHERE hidden = 0", (name,))
            columns = [quoted(column) for (column,) in found]
            rows = tx.stream(f"SELECT {', '.join(columns)} FROM {quoted(name)}")
            self._insert(quoted(name), columns, rows)

    def _copy_topics(self, tx: ReadTransaction) -> None:
        if tx.one("SELECT 1 FROM topic_modes") is None and tx.one("SELECT 1 FROM topics") is None:
            return
        self._create("telegram_dm_topic_mode", hermes_schema.TOPIC_MODES)
        self._create(
            "telegram_dm_topic_bindings", hermes_schema.TOPICS, "PRIMARY KEY (chat_id, thread_id)"
        )
        self._copy(tx, "topic_modes", "telegram_dm_topic_mode", hermes_schema.TOPIC_MODES)
        self._copy(tx, "topics", "telegram_dm_topic_bindings", hermes_schema.TOPICS)
        self._connection.execute(
            "DELETE FROM telegram_dm_topic_bindings "
            "WHERE session_id NOT IN (SELECT id FROM sessions)"
        )
        if self._connection.changes():
            self._left_out["topics of sessions in the trash"] = self._connection.changes()


def _marked(config: str | None, mark: str, parent_id: str) -> str | None:
    """Return the configuration with the mark by which Hermes knows the kind of a child."""
    values = json.loads(config or "{}")
    if not isinstance(values, dict) or mark in values:
        return config
    return json.dumps({**values, mark: parent_id})


def _usage_details(tx: ReadTransaction) -> dict[tuple[str, ...], dict[str, Any]]:
    """Return what an upgrade or import kept of Hermes's own columns of usage, by Hermes's key."""
    rows = tx.stream('SELECT "row" FROM foreign_rows WHERE table_name = ?', (USAGE.name,))
    found = (json.loads(row) for (row,) in rows)
    return {tuple(str(row.get(name) or "") for name in _USAGE_KEY): row for row in found}
