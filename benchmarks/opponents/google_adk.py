"""Google ADK's ``DatabaseSessionService`` on PostgreSQL: one event a message."""

# ruff: noqa: D102 - the verbs are described once, in opponents/base.py

from __future__ import annotations

import asyncio
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.corpus import CorpusMessage, CorpusSession
from benchmarks.environments import Environment
from benchmarks.opponents.asyncpg_url import asyncpg_url, count_rows
from benchmarks.opponents.base import Opponent

_WHO = {"app_name": "benchmarks", "user_id": "benchmarks"}


class EventStore:
    """Keeps the session objects it was given, as an application does, and one event loop."""

    def __init__(self, path: Path) -> None:
        self._url = asyncpg_url(path)
        self._loop = asyncio.new_event_loop()
        sessions: Any = import_module("google.adk.sessions.database_session_service")
        self._service = sessions.DatabaseSessionService(self._url)
        self._event: Any = import_module("google.adk.events.event").Event
        self._types: Any = import_module("google.genai.types")
        self._sessions: dict[str, Any] = {}

    def create_session(self, session: CorpusSession) -> None:
        self._sessions[session.id] = self._wait(
            self._service.create_session(session_id=session.id, **_WHO)
        )

    def append(self, session_id: str, message: CorpusMessage) -> None:
        part = self._types.Part(text=message.content)
        further = {
            name: value
            for name, value in asdict(message).items()
            if value is not None and name not in ("role", "content", "kind")
        }
        event = self._event(
            author=message.role,
            content=self._types.Content(parts=[part], role=message.role),
            custom_metadata=further or None,
        )
        self._wait(self._service.append_event(self._sessions[session_id], event))

    def contents(self, session_id: str) -> list[str]:
        session = self._wait(self._service.get_session(session_id=session_id, **_WHO))
        return [event.content.parts[0].text for event in session.events]

    def count_messages(self) -> int:
        self._wait(self._service.prepare_tables())
        return int(self._wait(count_rows(self._url, "events")))

    def close(self) -> None:
        self._wait(self._service.close())
        self._loop.close()

    def _wait(self, coroutine: Any) -> Any:
        return self._loop.run_until_complete(coroutine)


GOOGLE_ADK_POSTGRESQL = Opponent(
    name="google-adk-postgresql",
    label="Google ADK DatabaseSessionService",
    environment=Environment(
        name="google-adk",
        requirements=(
            "google-adk==2.13.0",
            "sqlalchemy==2.1.8",
            "asyncpg==0.32.0",
            "greenlet==3.5.6",
        ),
    ),
    server="postgresql",
    open=EventStore,
)
