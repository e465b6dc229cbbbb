"""OpenAI Agents' ``SQLiteSession`` and ``SQLAlchemySession``: one item a message, no search, no
listing.
"""

# ruff: noqa: D102 - the verbs are described once, in opponents/base.py

from __future__ import annotations

import asyncio
import sqlite3
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.corpus import CorpusMessage, CorpusSession
from benchmarks.environments import Environment
from benchmarks.opponents import sqlite_rows
from benchmarks.opponents.asyncpg_url import asyncpg_url, count_rows
from benchmarks.opponents.base import Opponent


class SQLiteSessionStore:
    """One ``SQLiteSession`` for each session, all on one file and one event loop."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._loop = asyncio.new_event_loop()
        self._session_class: Any = import_module("agents.memory").SQLiteSession
        self._sessions: dict[str, Any] = {}

    def create_session(self, session: CorpusSession) -> None:
        self._session(session.id)

    def append(self, session_id: str, message: CorpusMessage) -> None:
        self._loop.run_until_complete(self._session(session_id).add_items([_item(message)]))

    def contents(self, session_id: str) -> list[str]:
        items = self._loop.run_until_complete(self._session(session_id).get_items())
        return [item["content"] for item in items]

    def count_messages(self) -> int:
        if not self._path.exists():
            return 0  # The first session creates the file.
        connection = sqlite3.connect(self._path)
        stored = connection.execute("SELECT count(*) FROM agent_messages").fetchone()[0]
        connection.close()
        return int(stored)

    def close(self) -> None:
        for session in self._sessions.values():
            session.close()
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    def _session(self, session_id: str) -> Any:
        if session_id not in self._sessions:
            self._sessions[session_id] = self._session_class(session_id, self._path)
        return self._sessions[session_id]


class SQLAlchemySessionStore:
    """One ``SQLAlchemySession`` for each session, all on one engine and one event loop."""

    def __init__(self, path: Path) -> None:
        self._url = asyncpg_url(path)
        self._loop = asyncio.new_event_loop()
        sqlalchemy: Any = import_module("sqlalchemy.ext.asyncio")
        self._engine = sqlalchemy.create_async_engine(self._url)
        self._session_class: Any = import_module("agents.extensions.memory").SQLAlchemySession
        self._sessions: dict[str, Any] = {}
        self._wait(self._session("first").get_items())  # creates the tables

    def create_session(self, session: CorpusSession) -> None:
        self._session(session.id)

    def append(self, session_id: str, message: CorpusMessage) -> None:
        self._wait(self._session(session_id).add_items([_item(message)]))

    def contents(self, session_id: str) -> list[str]:
        return [item["content"] for item in self._wait(self._session(session_id).get_items())]

    def count_messages(self) -> int:
        return int(self._wait(count_rows(self._url, "agent_messages")))

    def close(self) -> None:
        self._wait(self._engine.dispose())
        self._loop.close()

    def _session(self, session_id: str) -> Any:
        if session_id not in self._sessions:
            self._sessions[session_id] = self._session_class(
                session_id, engine=self._engine, create_tables=True
            )
        return self._sessions[session_id]

    def _wait(self, coroutine: Any) -> Any:
        return self._loop.run_until_complete(coroutine)


def _item(message: CorpusMessage) -> dict[str, Any]:
    item: dict[str, Any] = {"role": message.role, "content": message.content}
    for field in ("tool_name", "tool_call_id", "tool_calls", "token_count", "finish_reason"):
        value = getattr(message, field)
        if value is not None:
            item[field] = value
    return item


OPENAI_AGENTS = Opponent(
    name="openai-agents",
    label="OpenAI Agents SQLiteSession",
    environment=Environment(name="openai-agents", requirements=("openai-agents==0.24.0",)),
    open=SQLiteSessionStore,
    sqlite_version=sqlite_rows.sqlite_version,
)

OPENAI_AGENTS_POSTGRESQL = Opponent(
    name="openai-agents-postgresql",
    label="OpenAI Agents SQLAlchemySession",
    environment=Environment(
        name="openai-agents-postgresql",
        requirements=(
            "openai-agents==0.24.0",
            "sqlalchemy==2.1.8",
            "asyncpg==0.32.0",
            "greenlet==3.5.6",
        ),
    ),
    server="postgresql",
    open=SQLAlchemySessionStore,
)
