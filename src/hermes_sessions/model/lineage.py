"""Lineage: why a session has a parent, and what follows for chains and listings.

An edge kind is stored when the child is created and never guessed from clocks. Sessions joined by
``compression`` edges form a chain: one conversation thread that was continued under new ids. Its
first member is the head, the member that continues it now is the tip. A listing shows one row per
chain: the head's identity with the tip's present state.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from hermes_sessions.errors import InvalidInput

# How the documented layouts, which store no edge kind, tell why a session has a parent.

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


COMPRESSION: Final = "compression"
BRANCH: Final = "branch"
SUBAGENT: Final = "subagent"
HANDOFF: Final = "handoff"
EDGE_KINDS: Final = (COMPRESSION, BRANCH, SUBAGENT, HANDOFF)

#: Children of these kinds stand in listings beside roots; others only behind their parent.
LISTED_KINDS: Final = (BRANCH, HANDOFF)

#: Children of these kinds are for the person their parent is for, unless somebody else is named.
SAME_PERSON_KINDS: Final = (COMPRESSION, BRANCH, SUBAGENT)

_KIND_BY_PARENT_END: Final = {"compression": COMPRESSION, "branched": BRANCH}


def require_edge_kind(kind: str) -> str:
    """Return *kind* if it is one of `EDGE_KINDS`, else raise `InvalidInput`."""
    if kind not in EDGE_KINDS:
        raise InvalidInput(f"Unknown edge kind {kind!r}; use one of: {', '.join(EDGE_KINDS)}.")
    return kind


def edge_kind_at_creation(
    parent_end_reason: str | None, model_config: dict[str, Any] | None
) -> str | None:
    """Return the kind of edge a caller means who did not state it.

    Markers in the model configuration come first; then the documented protocol, in which the
    parent is ended with ``compression`` or ``branched`` before the child is created. None means
    an unspecified child, hidden behind its parent like a subagent's.
    """
    if model_config:
        if model_config.get("_delegate_from"):
            return SUBAGENT
        if model_config.get("_branched_from"):
            return BRANCH
    return _KIND_BY_PARENT_END.get(parent_end_reason or "")


class Member(NamedTuple):
    """One session of a conversation, as far as lineage is concerned."""

    id: str
    parent_id: str | None
    edge_kind: str | None
    started_at: float
    #: Sessions in the trash take part in no chain.
    trashed: bool = False


class Placement(NamedTuple):
    """Where a session stands: its chain's head, the chain's tip, and what listings show."""

    chain_id: str
    #: On heads that are listed, the tip whose state the row shows; None on every other session.
    tip_id: str | None
    #: Whether this session is the tip of a listed chain.
    listed: bool


def place(members: Iterable[Member]) -> dict[str, Placement]:
    """Return the placement of every member of one conversation (any subset closed by parents).

    Parents outside *members*, trashed parents and cycles count as no parent.
    """
    by_id = {member.id: member for member in members if not member.trashed}
    continuations: dict[str, list[Member]] = {}
    for member in by_id.values():
        if member.edge_kind == COMPRESSION and member.parent_id in by_id:
            continuations.setdefault(member.parent_id or "", []).append(member)
    placements: dict[str, Placement] = {}
    for member in by_id.values():
        head = _head_of(member, by_id)
        tip = _tip_of(head, continuations)
        shown = _is_listed_head(head, by_id)
        placements[member.id] = Placement(
            chain_id=head.id,
            tip_id=tip.id if shown and member.id == head.id else None,
            listed=shown and member.id == tip.id,
        )
    return placements


def _head_of(member: Member, by_id: dict[str, Member]) -> Member:
    seen = {member.id}
    while member.edge_kind == COMPRESSION and member.parent_id in by_id:
        parent = by_id[member.parent_id or ""]
        if parent.id in seen:
            break
        seen.add(parent.id)
        member = parent
    return member


def _tip_of(head: Member, continuations: dict[str, list[Member]]) -> Member:
    seen = {head.id}
    while candidates := [c for c in continuations.get(head.id, ()) if c.id not in seen]:
        head = max(candidates, key=lambda child: (child.started_at, child.id))
        seen.add(head.id)
    return head


def _is_listed_head(head: Member, by_id: dict[str, Member]) -> bool:
    return head.parent_id not in by_id or head.edge_kind in LISTED_KINDS
