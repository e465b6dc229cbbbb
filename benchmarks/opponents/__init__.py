"""The opponents, each in a file of its own."""

from __future__ import annotations

from benchmarks.opponents.agno import AGNO_POSTGRESQL
from benchmarks.opponents.base import AgentStore, Opponent, Store
from benchmarks.opponents.google_adk import GOOGLE_ADK_POSTGRESQL
from benchmarks.opponents.hermes import HERMES_0_13, HERMES_0_19
from benchmarks.opponents.langgraph import LANGGRAPH, LANGGRAPH_POSTGRESQL
from benchmarks.opponents.openai_agents import OPENAI_AGENTS, OPENAI_AGENTS_POSTGRESQL
from benchmarks.opponents.ours import (
    OURS,
    OURS_GATEWAY,
    OURS_MYSQL,
    OURS_NORMAL,
    OURS_POSTGRESQL,
)
from benchmarks.opponents.raw import RAW, RAW_NORMAL
from benchmarks.opponents.server_rows import PSYCOPG, PYMYSQL

OPPONENTS: dict[str, Opponent] = {
    opponent.name: opponent
    for opponent in (
        OURS,
        OURS_NORMAL,
        OURS_GATEWAY,
        HERMES_0_13,
        HERMES_0_19,
        OPENAI_AGENTS,
        LANGGRAPH,
        RAW,
        RAW_NORMAL,
        OURS_POSTGRESQL,
        OURS_MYSQL,
        PSYCOPG,
        PYMYSQL,
        OPENAI_AGENTS_POSTGRESQL,
        LANGGRAPH_POSTGRESQL,
        AGNO_POSTGRESQL,
        GOOGLE_ADK_POSTGRESQL,
    )
}

__all__ = ["OPPONENTS", "AgentStore", "Opponent", "Store"]
