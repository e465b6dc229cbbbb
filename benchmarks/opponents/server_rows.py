"""The plain drivers of server databases, doing the same durable work: psycopg and PyMySQL.

The tables are ours, with their keys and indexes, but without the triggers, which mostly feed the
search index. One transaction and one round trip a message: the message's row, and the counters and
summary columns of its session. It is what the server and the driver allow.
"""

# ruff: noqa: D102 - the verbs are described once, in opponents/base.py

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from benchmarks.corpus import CorpusMessage, CorpusSession
from benchmarks.opponents.base import Opponent
from benchmarks.opponents.ours import SERVERS_ENVIRONMENT, OwnServerStore

_TRIGGERS = {
    "messages": (
        *("messages_search_insert", "messages_search_delete", "messages_search_update"),
        *("messages_append_place", "messages_append_mark"),
    ),
    "sessions": ("sessions_search_insert", "sessions_search_title", "sessions_search_delete"),
}
_COLUMNS = (
    "role, content, tool_call_id, tool_calls, tool_name, timestamp, token_count, finish_reason,"
    " reasoning, reasoning_content, reasoning_details, codex_reasoning_items, codex_message_items"
)
_INSERT_SESSION = (
    "INSERT INTO sessions (id, source, model, system_prompt, parent_session_id, started_at,"
    " last_active, conversation_id, chain_id, tip_id, listed)"
    " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, 1)"
)
_COUNT = (
    "UPDATE sessions SET message_count = message_count + 1,"
    " tool_call_count = tool_call_count + %s, last_active = %s,"
    " preview = COALESCE(preview, %s), next_ordinal = {next_ordinal} WHERE id = %s"
)
_PSYCOPG_APPEND = f"""
WITH session AS (
    {_COUNT.format(next_ordinal="next_ordinal + 1")} RETURNING id, next_ordinal - 1 AS ordinal
)
INSERT INTO messages (session_id, ordinal, {_COLUMNS})
SELECT id, ordinal, %s, %s, %s, %s, %s, %s::FLOAT8, %s::BIGINT, %s, %s, %s, %s, %s, %s FROM session
RETURNING id"""
_PYMYSQL_APPEND = f"""BEGIN;
{_COUNT.format(next_ordinal="LAST_INSERT_ID(next_ordinal) + 1")};
INSERT INTO messages (session_id, ordinal, {_COLUMNS})
VALUES (%s, LAST_INSERT_ID(), %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s);
COMMIT"""


class _PlainDriverStore:
    """What both drivers share: DB-API connections that take ``%s``."""

    _connection: Any

    def _make_tables(self, path: Path) -> None:
        OwnServerStore(path).close()

    def create_session(self, session: CorpusSession) -> None:
        now = time.time()
        values = (session.id, session.source, session.model, session.system_prompt)
        lineage = (session.id, session.id, session.id)
        self._connection.cursor().execute(
            _INSERT_SESSION, (*values, session.parent_id, now, now, *lineage)
        )

    def contents(self, session_id: str) -> list[str]:
        cursor = self._connection.cursor()
        cursor.execute(
            "SELECT content FROM messages WHERE session_id = %s ORDER BY ordinal", (session_id,)
        )
        return [content for (content,) in cursor.fetchall()]

    def count_messages(self) -> int:
        cursor = self._connection.cursor()
        cursor.execute("SELECT count(*) FROM messages")
        return int(cursor.fetchone()[0])

    def close(self) -> None:
        self._connection.close()


class PsycopgStore(_PlainDriverStore):
    """One statement: an UPDATE in a common table expression, and the INSERT that uses it."""

    def __init__(self, path: Path) -> None:
        import psycopg

        self._make_tables(path)
        self._connection = psycopg.connect(path.read_text(), autocommit=True)
        for table, triggers in _TRIGGERS.items():
            for trigger in triggers:
                self._connection.execute(f"DROP TRIGGER IF EXISTS {trigger} ON {table}")

    def append(self, session_id: str, message: CorpusMessage) -> None:
        now = time.time()
        values = (*_counted(message, now), session_id, *_row(message, now))
        self._connection.execute(_PSYCOPG_APPEND, values).fetchone()


class PyMySQLStore(_PlainDriverStore):
    """A transaction of four statements, sent at once."""

    def __init__(self, path: Path) -> None:
        import pymysql
        from pymysql.constants import CLIENT

        self._make_tables(path)
        url = urlsplit(path.read_text())
        self._connection = pymysql.connect(
            host=url.hostname,
            port=url.port or 3306,
            user=url.username,
            database=url.path.lstrip("/"),
            charset="utf8mb4",
            autocommit=True,
            client_flag=CLIENT.MULTI_STATEMENTS,
        )
        cursor = self._connection.cursor()
        for triggers in _TRIGGERS.values():
            for trigger in triggers:
                cursor.execute(f"DROP TRIGGER IF EXISTS {trigger}")

    def append(self, session_id: str, message: CorpusMessage) -> None:
        now = time.time()
        cursor = self._connection.cursor()
        cursor.execute(
            _PYMYSQL_APPEND,
            (*_counted(message, now), session_id, session_id, *_row(message, now)),
        )
        while cursor.nextset():
            pass


def _counted(message: CorpusMessage, now: float) -> tuple[Any, ...]:
    preview = message.content[:60] if message.role == "user" else None
    return (len(message.tool_calls or ()), now, preview)


def _row(message: CorpusMessage, now: float) -> tuple[Any, ...]:
    calls = json.dumps(message.tool_calls, ensure_ascii=False) if message.tool_calls else None
    return (
        message.role,
        message.content,
        message.tool_call_id,
        calls,
        message.tool_name,
        now,
        message.token_count,
        message.finish_reason,
        *(None,) * 5,
    )


PSYCOPG = Opponent(
    name="psycopg",
    label="psycopg, no search",
    environment=SERVERS_ENVIRONMENT,
    server="postgresql",
    open=PsycopgStore,
)
PYMYSQL = Opponent(
    name="pymysql",
    label="PyMySQL, no search",
    environment=SERVERS_ENVIRONMENT,
    server="mysql",
    open=PyMySQLStore,
)
