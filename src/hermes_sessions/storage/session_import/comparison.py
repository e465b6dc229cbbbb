"""Compares an incoming session with the stored one of the same id.

An import only extends sessions, so the question is whether one transcript, with its rewinds, is a
prefix of the other.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from hermes_sessions.storage.codec import JSON
from hermes_sessions.storage.provider import ReadTransaction
from hermes_sessions.storage.repositories.attachments import restored
from hermes_sessions.storage.repositories.rows import MESSAGE_VALUES, STORED_FIELDS
from hermes_sessions.storage.session_import.incoming_session import IncomingSession

_CONTENT: Final = STORED_FIELDS.index("content")
_CONTENT_TYPE: Final = STORED_FIELDS.index("content_type")
#: Positions whose texts are JSON: other programs may write the same value differently.
_JSON: Final = frozenset(STORED_FIELDS.index(name) for name in ("tool_calls", *MESSAGE_VALUES))

_COLUMNS: Final = ("ordinal", "active", "compacted", "attachments", *STORED_FIELDS)


class Relation(Enum):
    """The relation of an incoming session to the stored one of the same id."""

    NEW = "new"
    GROWN = "grown"
    KNOWN = "known"
    CONFLICT = "conflict"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonResult:
    """The relation, and the stored state that it was found in."""

    relation: Relation
    reason: str = ""
    message_count: int = 0
    next_ordinal: int = 1
    rewind_count: int = 0
    #: The stored session has no parent, so it can get the incoming one.
    lacks_parent: bool = True
    #: (stored ordinal, index) of stored messages that are rewound or compacted in the import.
    changed: Sequence[tuple[int, int]] = ()


def compare(tx: ReadTransaction, incoming: IncomingSession) -> ComparisonResult:
    """Return the relation of *incoming* to the stored session; reads no more than necessary."""
    row = tx.one(
        "SELECT trashed_at, next_ordinal, rewind_count, parent_session_id FROM sessions "
        "WHERE id = ?",
        (incoming.id,),
    )
    if row is None:
        return ComparisonResult(relation=Relation.NEW)
    trashed_at, next_ordinal, rewind_count, parent_id = row
    if trashed_at is not None:
        return ComparisonResult(
            relation=Relation.CONFLICT,
            reason="it is in the trash: restore it or purge the trash, then import again",
        )
    known, ahead, changed = 0, False, []
    for row in tx.stream(
        f"SELECT {', '.join(_COLUMNS)} FROM messages WHERE session_id = ? ORDER BY ordinal",
        (incoming.id,),
    ):
        [[ordinal, active, compacted, _, *stored]] = restored(tx, _COLUMNS, [row])
        if known == len(incoming.messages):
            ahead = True
            break
        message = incoming.messages[known]
        if not _same_message(stored, message.values):
            return ComparisonResult(
                relation=Relation.CONFLICT,
                reason=f"message {known + 1} differs from the stored one",
            )
        if (active, compacted) != (message.active, message.compacted):
            changed.append((ordinal, known))
        known += 1
    behind = known < len(incoming.messages)
    rewinds = _compare_rewinds(tx, incoming, rewind_count)
    if rewinds is None or (behind and rewinds < 0) or (ahead and rewinds > 0):
        return ComparisonResult(
            relation=Relation.CONFLICT, reason="both were rewound or continued independently"
        )
    return ComparisonResult(
        relation=Relation.GROWN if behind or rewinds > 0 else Relation.KNOWN,
        message_count=known,
        next_ordinal=next_ordinal,
        rewind_count=rewind_count,
        lacks_parent=parent_id is None,
        changed=changed,
    )


def _same_message(stored: Sequence[Any], values: Sequence[Any]) -> bool:
    for position, value in enumerate(values):
        other = stored[position]
        if other == value:
            continue
        is_json = position in _JSON or (
            position == _CONTENT and stored[_CONTENT_TYPE] == values[_CONTENT_TYPE] == JSON
        )
        if not is_json or not _same_json(other, value):
            return False
    return True


def _same_json(one: Any, other: Any) -> bool:
    try:
        return bool(json.loads(one) == json.loads(other))
    except (TypeError, ValueError, RecursionError):
        return False


def _compare_rewinds(tx: ReadTransaction, incoming: IncomingSession, count: int) -> int | None:
    """Return 1 if the incoming rewinds extend the stored ones, -1 for the reverse, 0 if equal, else
    None.
    """
    theirs_count = int(incoming.columns["rewind_count"])
    if incoming.rewinds is None:
        return (theirs_count > count) - (theirs_count < count)
    mine = tx.all(
        "SELECT target_ordinal, rewound_at, restored_at FROM rewinds WHERE session_id = ? "
        "ORDER BY id",
        (incoming.id,),
    )
    theirs = [(r["target_ordinal"], r["rewound_at"], r["restored_at"]) for r in incoming.rewinds]
    if mine == theirs:
        return (theirs_count > count) - (theirs_count < count)
    if _goes_on(theirs, mine):
        return 1
    return -1 if _goes_on(mine, theirs) else None


def _goes_on(later: Sequence[tuple[Any, ...]], earlier: Sequence[tuple[Any, ...]]) -> bool:
    return len(later) >= len(earlier) and all(
        new[:2] == old[:2] and old[2] in (None, new[2])
        for new, old in zip(later, earlier, strict=False)
    )
