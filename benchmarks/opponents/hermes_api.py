"""The documented ``hermes_state`` verbs, shared by every opponent that offers that module."""

# ruff: noqa: D102 - the verbs are described once, in opponents/base.py

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.corpus import CorpusMessage, CorpusSession


class SessionDBStore:
    """A store behind ``hermes_state.SessionDB``."""

    def __init__(self, path: Path, **options: Any) -> None:
        self._db: Any = import_module("hermes_state").SessionDB(db_path=path, **options)

    def create_session(self, session: CorpusSession) -> None:
        self._db.create_session(
            session.id,
            session.source,
            model=session.model,
            system_prompt=session.system_prompt,
            parent_session_id=session.parent_id,
        )

    def append(self, session_id: str, message: CorpusMessage) -> None:
        self._db.append_message(
            session_id,
            message.role,
            message.content,
            tool_name=message.tool_name,
            tool_calls=message.tool_calls,
            tool_call_id=message.tool_call_id,
            token_count=message.token_count,
            finish_reason=message.finish_reason,
        )

    def contents(self, session_id: str) -> list[str]:
        return [row["content"] for row in self._db.get_messages(session_id)]

    def count_messages(self) -> int:
        return int(self._db.message_count())

    def list_recent(self, limit: int) -> list[str]:
        rows = self._db.list_sessions_rich(limit=limit, order_by_last_active=True)
        return [row["id"] for row in rows]

    def conversation(self, session_id: str) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = self._db.get_messages_as_conversation(session_id)
        return messages

    def search(self, query: str, limit: int, sort: str | None = None) -> list[dict[str, Any]]:
        options = {} if sort is None else {"sort": sort}
        found: list[dict[str, Any]] = self._db.search_messages(query, limit=limit, **options)
        return found

    def complete_index(self) -> None:
        pass  # triggers have indexed every message with its own transaction

    def end(self, session_id: str, reason: str) -> None:
        self._db.end_session(session_id, reason)

    def reopen(self, session_id: str) -> None:
        self._db.reopen_session(session_id)

    def prune_ended(self) -> int:
        return int(self._db.prune_sessions(older_than_days=0))

    def close(self) -> None:
        self._db.close()
