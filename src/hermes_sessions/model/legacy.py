"""How the documented layouts, which store no edge kind, tell why a session has a parent."""

from __future__ import annotations

from typing import Any, Final

from hermes_sessions.model.lineage import BRANCH, COMPRESSION, SUBAGENT

#: From this schema version on a continuation may be written before its parent is ended, by as
#: long as one compression may take there.
_UNORDERED_SINCE: Final = 17
_COMPRESSION_SECONDS: Final = 300.0
_HIDDEN_SOURCE: Final = "tool"


def documented_edge_kind(
    *,
    config: dict[str, Any] | None,
    source: str,
    started_at: float,
    parent_end_reason: str | None,
    parent_ended_at: float | None,
    schema_version: int,
) -> str | None:
    """Return the kind of an edge that was stored without one; None when nothing tells.

    A marker in the child's model configuration says it. Otherwise the child continues or branches
    from a parent that was ended for that reason before the child started; later versions also
    take a child that started shortly before its parent was ended for compression.
    """
    if config:
        if config.get("_delegate_from"):
            return SUBAGENT
        if config.get("_branched_from"):
            return BRANCH
    if parent_ended_at is None or source == _HIDDEN_SOURCE:
        return None
    if parent_end_reason == "compression":
        early = _COMPRESSION_SECONDS if schema_version >= _UNORDERED_SINCE else 0.0
        return COMPRESSION if started_at >= parent_ended_at - early else None
    if parent_end_reason == "branched" and started_at >= parent_ended_at:
        return BRANCH
    return None
