"""LangGraph's checkpointers for SQLite and PostgreSQL: one checkpoint a message, of all so far."""

# ruff: noqa: D102 - the verbs are described once, in opponents/base.py

from __future__ import annotations

import sqlite3
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.corpus import CorpusMessage, CorpusSession
from benchmarks.environments import Environment
from benchmarks.opponents import sqlite_rows
from benchmarks.opponents.base import Opponent


class CheckpointStore:
    """A thread for each session; appending writes the thread's next checkpoint."""

    def __init__(self, connection: Any, saver: Any) -> None:
        self._connection = connection
        self._saver = saver
        self._saver.setup()
        self._empty_checkpoint: Any = import_module("langgraph.checkpoint.base").empty_checkpoint
        self._messages: dict[str, list[dict[str, Any]]] = {}
        self._configs: dict[str, Any] = {}

    def create_session(self, session: CorpusSession) -> None:
        self._messages[session.id] = []
        self._configs[session.id] = _config(session.id)

    def append(self, session_id: str, message: CorpusMessage) -> None:
        messages = self._messages[session_id]
        messages.append(asdict(message))
        step = len(messages)
        versions = {"messages": str(step)}
        checkpoint = self._empty_checkpoint()
        checkpoint["channel_values"] = {"messages": messages}
        checkpoint["channel_versions"] = versions
        self._configs[session_id] = self._saver.put(
            self._configs[session_id],
            checkpoint,
            {"source": "loop", "step": step, "parents": {}},
            versions,
        )

    def contents(self, session_id: str) -> list[str]:
        found = self._saver.get_tuple(_config(session_id))
        if found is None:
            return []
        return [message["content"] for message in found.checkpoint["channel_values"]["messages"]]

    def count_messages(self) -> int:
        found = self._connection.execute("SELECT count(*) AS n FROM checkpoints").fetchone()
        return int(found["n"] if isinstance(found, dict) else found[0])

    def close(self) -> None:
        self._connection.close()


def _config(session_id: str) -> dict[str, Any]:
    return {"configurable": {"thread_id": session_id, "checkpoint_ns": ""}}


def _in_file(path: Path) -> CheckpointStore:
    connection = sqlite3.connect(path, check_same_thread=False)
    return CheckpointStore(
        connection, import_module("langgraph.checkpoint.sqlite").SqliteSaver(connection)
    )


def _on_postgresql(path: Path) -> CheckpointStore:
    psycopg: Any = import_module("psycopg")
    # As its own `from_conn_string` connects.
    connection = psycopg.connect(
        path.read_text(),
        autocommit=True,
        prepare_threshold=0,
        row_factory=import_module("psycopg.rows").dict_row,
    )
    return CheckpointStore(
        connection, import_module("langgraph.checkpoint.postgres").PostgresSaver(connection)
    )


LANGGRAPH = Opponent(
    name="langgraph",
    label="LangGraph SQLite checkpointer",
    environment=Environment(name="langgraph", requirements=("langgraph-checkpoint-sqlite==3.1.2",)),
    open=_in_file,
    sqlite_version=sqlite_rows.sqlite_version,
)

LANGGRAPH_POSTGRESQL = Opponent(
    name="langgraph-postgresql",
    label="LangGraph PostgreSQL checkpointer",
    environment=Environment(
        name="langgraph-postgresql",
        requirements=("langgraph-checkpoint-postgres==3.2.0", "psycopg[binary]==3.3.8"),
    ),
    server="postgresql",
    open=_on_postgresql,
)
