"""The released hermes-agent, 0.13.0 and 0.19.0, driven through its public ``SessionDB``."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from benchmarks.corpus import CorpusSession
from benchmarks.environments import Environment
from benchmarks.opponents import sqlite_rows
from benchmarks.opponents.base import Opponent
from benchmarks.opponents.hermes_api import SessionDBStore


def _load(path: Path, sessions: Iterable[CorpusSession]) -> None:
    SessionDBStore(path).close()  # creates its tables, indexes and triggers
    sqlite_rows.load(path, sessions)


def _release(version: str) -> Opponent:
    short = version.rsplit(".", 1)[0]
    return Opponent(
        name=f"hermes-{short}",
        label=f"Hermes {short}",
        environment=Environment(
            name=f"hermes-agent-{version}",
            # Its declared dependencies serve the whole agent; these serve `hermes sessions list`.
            requirements=("pyyaml==6.0.3", "python-dotenv==1.2.4", "rich==15.0.0"),
            without_dependencies=(f"hermes-agent=={version}",),
        ),
        open=SessionDBStore,
        open_agent=SessionDBStore,
        load=_load,
        select_rows=sqlite_rows.select_rows,
        sqlite_version=sqlite_rows.sqlite_version,
    )


HERMES_0_13 = _release("0.13.0")
HERMES_0_19 = _release("0.19.0")
