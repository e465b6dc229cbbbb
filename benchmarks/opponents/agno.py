"""Agno's ``PostgresDb``: one run a message, stored as JSON."""

# ruff: noqa: D102 - the verbs are described once, in opponents/base.py

from __future__ import annotations

import time
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.corpus import CorpusMessage, CorpusSession
from benchmarks.environments import Environment
from benchmarks.opponents.base import Opponent

_RUNS = "agno_runs"


class RunStore:
    """A session's row, and a run for each of its messages."""

    def __init__(self, path: Path) -> None:
        url = path.read_text().replace("postgresql://", "postgresql+psycopg://")
        self._db: Any = import_module("agno.db.postgres").PostgresDb(
            db_url=url, db_schema="public", runs_table=_RUNS
        )
        self._session: Any = import_module("agno.session").AgentSession
        self._run: Any = import_module("agno.run.agent").RunOutput
        self._message: Any = import_module("agno.models.message").Message
        self._lengths: dict[str, int] = {}

    def create_session(self, session: CorpusSession) -> None:
        self._db.upsert_session(
            self._session(session_id=session.id, agent_id="benchmarks", created_at=int(time.time()))
        )
        self._lengths[session.id] = 0

    def append(self, session_id: str, message: CorpusMessage) -> None:
        place = self._lengths[session_id]
        further = {
            name: value
            for name, value in asdict(message).items()
            if value is not None and name not in ("role", "content", "kind")
        }
        run = self._run(
            run_id=f"{session_id}-{place}",
            session_id=session_id,
            agent_id="benchmarks",
            messages=[self._message(role=message.role, content=message.content)],
            metadata=further or None,
        )
        self._db.upsert_run(run, session_id, run_index=place)
        self._lengths[session_id] = place + 1

    def contents(self, session_id: str) -> list[str]:
        runs = self._db.get_runs(session_id=session_id)
        return [message.content for run in runs for message in run.messages]

    def count_messages(self) -> int:
        return int(self._db.get_runs(deserialize=False, limit=1)[1])

    def close(self) -> None:
        self._db.close()


AGNO_POSTGRESQL = Opponent(
    name="agno-postgresql",
    label="Agno PostgresDb",
    environment=Environment(
        name="agno",
        requirements=(
            "agno==3.1.10",
            "sqlalchemy==2.1.8",
            "psycopg[binary]==3.3.8",
            "greenlet==3.5.6",
        ),
    ),
    server="postgresql",
    open=RunStore,
)
