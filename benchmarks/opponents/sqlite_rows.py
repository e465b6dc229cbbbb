"""Rows of the documented ``sessions`` and ``messages`` tables, for loading and for bare reads.

Only for files that the standard library's SQLite may open: the other products' and the raw one.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from benchmarks.corpus import CorpusMessage, CorpusSession

SESSIONS_PER_TRANSACTION = 200

INSERT_SESSION = (
    "INSERT INTO sessions(id, source, model, system_prompt, parent_session_id, started_at,"
    " ended_at, end_reason, message_count, tool_call_count) VALUES (?,?,?,?,?,?,?,?,?,?)"
)
INSERT_MESSAGE = (
    "INSERT INTO messages(session_id, role, content, tool_call_id, tool_calls, tool_name,"
    " timestamp, token_count, finish_reason, reasoning, reasoning_content, reasoning_details,"
    " codex_reasoning_items, codex_message_items) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
)
#: The columns a conversation is made of; the order of the rows is the reader's to add.
SELECT_CONVERSATION = (
    "SELECT role, content, tool_call_id, tool_calls, tool_name, finish_reason, reasoning,"
    " reasoning_content, reasoning_details, codex_reasoning_items, codex_message_items"
    " FROM messages WHERE session_id = ?"
)


def message_row(session_id: str, message: CorpusMessage, timestamp: float) -> tuple[Any, ...]:
    """The values for :data:`INSERT_MESSAGE`."""
    calls = json.dumps(message.tool_calls, ensure_ascii=False) if message.tool_calls else None
    return (
        session_id,
        message.role,
        message.content,
        message.tool_call_id,
        calls,
        message.tool_name,
        timestamp,
        message.token_count,
        message.finish_reason,
        *(None,) * 5,
    )


def load(path: Path, sessions: Iterable[CorpusSession]) -> None:
    """Fill an existing, empty store through plain inserts; its own triggers do their work."""
    connection = sqlite3.connect(path, isolation_level=None)
    for pragma in ("journal_mode=WAL", "synchronous=OFF", "cache_size=-200000"):
        connection.execute(f"PRAGMA {pragma}")
    connection.execute("BEGIN")
    now = time.time() - 1_000_000
    for number, session in enumerate(sessions, 1):
        now += 0.5
        ended_at = now + 0.4 if session.end_reason else None
        calls = sum(len(message.tool_calls or ()) for message in session.messages)
        connection.execute(
            INSERT_SESSION,
            (
                session.id,
                session.source,
                session.model,
                session.system_prompt,
                session.parent_id,
                now,
                ended_at,
                session.end_reason,
                len(session.messages),
                calls,
            ),
        )
        connection.executemany(
            INSERT_MESSAGE,
            (
                message_row(session.id, message, now + place * 1e-4)
                for place, message in enumerate(session.messages)
            ),
        )
        if number % SESSIONS_PER_TRANSACTION == 0:
            connection.execute("COMMIT")
            connection.execute("BEGIN")
    connection.execute("COMMIT")
    connection.close()


def select_rows(path: Path) -> Callable[[str], list[Any]]:
    """A reader of a conversation's rows with nothing on top of the driver."""
    connection = sqlite3.connect(path, isolation_level=None)
    sql = f"{SELECT_CONVERSATION} ORDER BY id"
    return lambda session_id: connection.execute(sql, (session_id,)).fetchall()


def sqlite_version() -> str:
    """The version of the standard library's SQLite."""
    return sqlite3.sqlite_version
