"""The opponents, each in a file of its own."""

from __future__ import annotations

from benchmarks.opponents.base import AgentStore, Opponent, Store
from benchmarks.opponents.hermes import HERMES_0_13, HERMES_0_19
from benchmarks.opponents.langgraph import LANGGRAPH
from benchmarks.opponents.openai_agents import OPENAI_AGENTS
from benchmarks.opponents.ours import OURS, OURS_NORMAL
from benchmarks.opponents.raw import RAW, RAW_NORMAL

OPPONENTS: dict[str, Opponent] = {
    opponent.name: opponent
    for opponent in (
        OURS,
        OURS_NORMAL,
        HERMES_0_13,
        HERMES_0_19,
        OPENAI_AGENTS,
        LANGGRAPH,
        RAW,
        RAW_NORMAL,
    )
}

__all__ = ["OPPONENTS", "AgentStore", "Opponent", "Store"]
