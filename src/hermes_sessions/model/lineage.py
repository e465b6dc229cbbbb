"""Lineage: why a session has a parent, and what follows for chains and listings.

The edge kind is stored when the child is created and never guessed from timestamps. Sessions
joined by ``compression`` edges form a chain: one thread continued under new ids. Its first member
is the head, the member that continues it now is the tip. A listing shows one row per chain: the
head's identity with the tip's current state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from hermes_sessions.errors import InvalidInput

# The documented layouts store no edge kind; these rules infer why a session has a parent.

#: From this schema version on, a continuation may be written before its parent is ended, by up to
#: the duration of one compression.
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
    """Return the edge kind of a child that was stored without one; None if it cannot be inferred.

    A marker in the child's model configuration decides. Otherwise the child continues or branches
    from a parent that was ended for that reason before the child started. Later schema versions
    also accept a child that started shortly before its parent was ended for compression.
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

#: Children of these kinds are listed beside roots; others only under their parent.
LISTED_KINDS: Final = (BRANCH, HANDOFF)

#: Children of these kinds belong to their parent's user, unless another user is named.
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
    """Infer the edge kind when the caller did not state it.

    Markers in the model configuration come first; then the documented protocol, in which the
    parent is ended with ``compression`` or ``branched`` before the child is created. None means
    an unspecified child, hidden under its parent like a subagent's session.
    """
    if model_config:
        if model_config.get("_delegate_from"):
            return SUBAGENT
        if model_config.get("_branched_from"):
            return BRANCH
    return _KIND_BY_PARENT_END.get(parent_end_reason or "")


def roots_of(parents: Mapping[str, str | None], age: Callable[[str], Any] = str) -> dict[str, str]:
    """Return the topmost ancestor of each session; in a cycle, the first one by *age*. Parents
    outside of *parents* do not count.
    """
    roots: dict[str, str] = {}
    for start in parents:
        path: dict[str, None] = {}
        current = start
        while current not in roots and current not in path:
            path[current] = None
            parent = parents[current]
            if parent is None or parent not in parents:
                roots[current] = current
            else:
                current = parent
        if current not in roots:
            circle = list(path)[list(path).index(current) :]
            roots[current] = min(circle, key=age)
        roots |= dict.fromkeys(path, roots[current])
    return roots


class LineageMember(NamedTuple):
    """One session of a conversation, reduced to its lineage."""

    id: str
    parent_id: str | None
    edge_kind: str | None
    started_at: float
    #: Sessions in the trash belong to no chain.
    trashed: bool = False


class LineagePlacement(NamedTuple):
    """The position of a session: its chain's head, the chain's tip, and whether it is listed."""

    chain_id: str
    #: On listed heads, the tip whose state the row shows; None on every other session.
    tip_id: str | None
    #: Whether this session is the tip of a listed chain.
    listed: bool


def place_members(members: Iterable[LineageMember]) -> dict[str, LineagePlacement]:
    """Return the placement of every member of one conversation (any subset closed by parents).

    Parents outside *members*, trashed parents and cycles are ignored.
    """
    by_id = {member.id: member for member in members if not member.trashed}
    continuations: dict[str, list[LineageMember]] = {}
    for member in by_id.values():
        if member.edge_kind == COMPRESSION and member.parent_id in by_id:
            continuations.setdefault(member.parent_id or "", []).append(member)
    placements: dict[str, LineagePlacement] = {}
    for member in by_id.values():
        head = _head_of(member, by_id)
        tip = _tip_of(head, continuations)
        shown = _is_listed_head(head, by_id)
        placements[member.id] = LineagePlacement(
            chain_id=head.id,
            tip_id=tip.id if shown and member.id == head.id else None,
            listed=shown and member.id == tip.id,
        )
    return placements


def _head_of(member: LineageMember, by_id: dict[str, LineageMember]) -> LineageMember:
    seen = {member.id}
    while member.edge_kind == COMPRESSION and member.parent_id in by_id:
        parent = by_id[member.parent_id or ""]
        if parent.id in seen:
            break
        seen.add(parent.id)
        member = parent
    return member


def _tip_of(head: LineageMember, continuations: dict[str, list[LineageMember]]) -> LineageMember:
    seen = {head.id}
    while candidates := [c for c in continuations.get(head.id, ()) if c.id not in seen]:
        head = max(candidates, key=lambda child: (child.started_at, child.id))
        seen.add(head.id)
    return head


def _is_listed_head(head: LineageMember, by_id: dict[str, LineageMember]) -> bool:
    return head.parent_id not in by_id or head.edge_kind in LISTED_KINDS
