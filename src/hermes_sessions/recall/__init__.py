"""Recall for agents: the ``session_search`` tool.

>>> from hermes_sessions import SessionDB
>>> from hermes_sessions.recall import session_search
>>> session_search(SessionDB(":memory:"), "docker")["count"]
0
"""

from __future__ import annotations

from hermes_sessions.model.scope import OWNER, Scope
from hermes_sessions.recall.summaries import Summarise, SummaryBounds
from hermes_sessions.recall.tool import call, session_search
from hermes_sessions.recall.tool_schema import SYSTEM_PROMPT_SENTENCE, TOOL_SCHEMA

__all__ = [
    "OWNER",
    "SYSTEM_PROMPT_SENTENCE",
    "TOOL_SCHEMA",
    "Scope",
    "Summarise",
    "SummaryBounds",
    "call",
    "session_search",
]
