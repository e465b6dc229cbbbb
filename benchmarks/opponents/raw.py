"""The standard library's sqlite3 doing the same durable work: no index beyond the row ids.

One transaction a message: the message's row, and the counters and summary columns of its
session. It is what the disk and SQLite allow; nothing can be searched and little can be found.
"""

# ruff: noqa: D102 - the verbs are described once, in opponents/base.py

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from benchmarks.corpus import CorpusMessage, CorpusSession
from benchmarks.environments import Environment
from benchmarks.opponents import sqlite_rows
from benchmarks.opponents.base import Opponent

SCHEMA = """
CREATE TABLE IF NOT EXISTS sessions(
    id TEXT PRIMARY KEY, source TEXT NOT NULL, model TEXT, system_prompt TEXT,
    parent_session_id TEXT, started_at REAL NOT NULL, ended_at REAL, end_reason TEXT,
    message_count INTEGER DEFAULT 0, tool_call_count INTEGER DEFAULT 0, last_active REAL);
CREATE TABLE IF NOT EXISTS messages(
    id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL, role TEXT NOT NULL,
    content TEXT, tool_call_id TEXT, tool_calls TEXT, tool_name TEXT, timestamp REAL NOT NULL,
    token_count INTEGER, finish_reason TEXT, reasoning TEXT, reasoning_content TEXT,
    reasoning_details TEXT, codex_reasoning_items TEXT, codex_message_items TEXT);
"""
COUNT_MESSAGE = (
    "UPDATE sessions SET message_count = message_count + 1,"
    " tool_call_count = tool_call_count + ?, last_active = ? WHERE id = ?"
)


class RawStore:
    """Two tables and the plain driver."""

    def __init__(self, path: Path, *, synchronous: str) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None, timeout=16)
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute(f"PRAGMA synchronous={synchronous}")
        self._connection.executescript(SCHEMA)

    def create_session(self, session: CorpusSession) -> None:
        values = (session.id, session.source, session.model, session.system_prompt)
        self._connection.execute(
            sqlite_rows.INSERT_SESSION,
            (*values, session.parent_id, time.time(), None, None, 0, 0),
        )

    def append(self, session_id: str, message: CorpusMessage) -> None:
        now = time.time()
        execute = self._connection.execute
        execute("BEGIN IMMEDIATE")
        execute(sqlite_rows.INSERT_MESSAGE, sqlite_rows.message_row(session_id, message, now))
        execute(COUNT_MESSAGE, (len(message.tool_calls or ()), now, session_id))
        execute("COMMIT")

    def contents(self, session_id: str) -> list[str]:
        sql = "SELECT content FROM messages WHERE session_id = ? ORDER BY id"
        return [content for (content,) in self._connection.execute(sql, (session_id,))]

    def count_messages(self) -> int:
        return int(self._connection.execute("SELECT count(*) FROM messages").fetchone()[0])

    def close(self) -> None:
        self._connection.close()


def _load(path: Path, sessions: Iterable[CorpusSession]) -> None:
    RawStore(path, synchronous="FULL").close()
    sqlite_rows.load(path, sessions)


def _opponent(name: str, label: str, synchronous: str) -> Opponent:
    return Opponent(
        name=name,
        label=label,
        environment=Environment(name="raw"),
        open=partial(RawStore, synchronous=synchronous),
        load=_load,
        sqlite_version=sqlite_rows.sqlite_version,
    )


RAW = _opponent("raw", "sqlite3, no index", "FULL")
RAW_NORMAL = _opponent("raw-normal", "sqlite3, no index, normal", "NORMAL")
