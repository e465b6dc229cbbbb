"""Finds ids for copied rows: their own where they are free, otherwise all moved by one distance.

Ids order the messages of a conversation over all its sessions, so rows that belong together move
together. The distance leaves room below, so that parts with lower ids can follow later.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any, Final

from hermes_sessions.model.lineage import roots_of
from hermes_sessions.storage.provider import (
    ReadTransaction,
    SessionDBProvider,
    WriteTransaction,
    bulk_insert,
    placeholders,
)

#: Larger ids are not kept, so that a file cannot use up the range of ids.
MAX_KEPT_ID: Final = 2**52
_IDS_PER_QUERY: Final = 500
#: Required values of rows that exist only within a transaction.
_PLACEHOLDERS: Final[dict[str, dict[str, Any]]] = {
    "messages": {"role": "system", "timestamp": 0.0, "ordinal": 2**52},
    "rewinds": {
        "target_message_id": 0,
        "target_ordinal": 0,
        "hidden_count": 0,
        "head_ordinal": 0,
        "rewound_at": 0.0,
    },
}


def highest_id(tx: ReadTransaction, table: str) -> int:
    """Return the highest id in a table, 0 for an empty one."""
    row = tx.one(f"SELECT MAX(id) FROM {table}")
    return int(row[0]) if row and row[0] else 0


def is_any_id_taken(
    tx: ReadTransaction, table: str, ids: Sequence[int], *, beside: str | None = None
) -> bool:
    """Return whether a row has one of these ascending ids; those of the session *beside* do not
    count.
    """
    if not ids or highest_id(tx, table) < ids[0]:
        return False
    condition, params = ("1 = 1", ()) if beside is None else ("session_id <> ?", (beside,))
    for start in range(0, len(ids), _IDS_PER_QUERY):
        part = ids[start : start + _IDS_PER_QUERY]
        marks = placeholders(len(part))
        sql = f"SELECT 1 FROM {table} WHERE id IN ({marks}) AND {condition} LIMIT 1"
        if tx.one(sql, (*part, *params)):
            return True
    return False


def reserve_ids(
    tx: WriteTransaction, provider: SessionDBProvider, table: str, through: int, session_id: str
) -> None:
    """Let the database generate only ids above *through*, so that concurrent writers do not take
    them. *session_id* is any stored session.
    """
    if highest_id(tx, table) >= through:
        return
    row = {"id": through, "session_id": session_id, **_PLACEHOLDERS[table]}
    bulk_insert(tx, table, list(row), [tuple(row.values())])
    provider.after_explicit_ids(tx, table)
    tx.run(f"DELETE FROM {table} WHERE id = ?", (through,))


def point_rewinds(tx: WriteTransaction, session_id: str) -> None:
    """Let the rewinds of a session refer to its messages, which may have got other ids."""
    tx.run(
        "UPDATE rewinds SET target_message_id = COALESCE((SELECT m.id FROM messages m "
        "WHERE m.session_id = rewinds.session_id AND m.ordinal = rewinds.target_ordinal), "
        "target_message_id) WHERE session_id = ?",
        (session_id,),
    )


class IdPlan:
    """The shift of the message ids of each lineage. Keeps every id in memory, 8 bytes each."""

    def __init__(self) -> None:
        self._parents: dict[str, str | None] = {}
        #: Ids to write, and the stored id that they must follow.
        self._wanted: dict[str, array[int]] = {}
        self._after: dict[str, int] = {}
        #: Ids of messages that were stored before, with their shift.
        self._seen: dict[str, list[tuple[int, int]]] = {}
        self._shifts: dict[str, int] = {}
        self._fresh = 0
        self._reach: int | None = None
        self.reserved = False

    def note(
        self, tx: ReadTransaction, session_id: str, parent_id: str | None, ids: Sequence[int] | None
    ) -> None:
        """Add a session that will be written; its messages have these ascending *ids*, if any."""
        self._parents[session_id] = parent_id
        if not ids:
            return
        stored = tx.one(
            "SELECT COUNT(*), MIN(id), MAX(id) FROM messages WHERE session_id = ?", (session_id,)
        )
        count, first, last = stored or (0, None, None)
        if first is not None and last is not None:
            newest = ids[min(count, len(ids)) - 1]
            self._seen[session_id] = [(ids[0], first - ids[0]), (newest, last - newest)]
            self._after[session_id] = last
        if count < len(ids):
            self._wanted[session_id] = array("q", ids[count:])

    def settle(self, tx: ReadTransaction) -> None:
        """Choose the shifts, once all sessions are known."""
        self._fresh = highest_id(tx, "messages")
        # Reuse the shift of parts of the lineage that were stored before.
        usual = max((points[0][1] for points in self._seen.values()), default=0)
        highest = 0
        for family in self._families():
            writers = [member for member in family if member in self._wanted]
            points = [point for member in family for point in self._seen.get(member, ())]
            beside = {member: self._shift_beside(member, points) for member in writers}
            known = [*sorted({shift for _, shift in points}), usual]
            plans = [beside, *(dict.fromkeys(writers, shift) for shift in known)]
            for shifts in plans:
                if all(self._fits(tx, member, shift) for member, shift in shifts.items()):
                    break
            else:
                shifts = dict.fromkeys(writers, self._fresh)
            self._shifts.update(shifts)
            for member, shift in shifts.items():
                highest = max(highest, self._wanted[member][-1] + shift)
        self._reach = highest if 0 < highest <= MAX_KEPT_ID else None

    def _shift_beside(self, session_id: str, points: list[tuple[int, int]]) -> int:
        """Return the shift of the messages just before these, else of those right after."""
        first = self._wanted[session_id][0]
        before = [shift for number, shift in points if number < first]
        return max(before) if before else min((shift for _, shift in points), default=0)

    def _fits(self, tx: ReadTransaction, session_id: str, shift: int) -> bool:
        wanted = [number + shift for number in self._wanted[session_id]]
        return wanted[0] > self._after.get(session_id, 0) and not is_any_id_taken(
            tx, "messages", wanted
        )

    def _families(self) -> list[list[str]]:
        """Return the sessions of each lineage with messages to write."""
        roots = roots_of(self._parents)
        writing = {roots[session_id] for session_id in self._wanted}
        families: dict[str, list[str]] = {}
        for session_id in self._parents:
            if roots[session_id] in writing:
                families.setdefault(roots[session_id], []).append(session_id)
        return list(families.values())

    def shifts_of(self, session_id: str) -> tuple[int, ...]:
        """Return possible shifts for the messages of a session, the best first; 0 keeps their ids.
        The last one puts them after everything that was stored before.
        """
        return self._shifts.get(session_id, self._fresh), self._fresh

    def reserve(self, tx: WriteTransaction, provider: SessionDBProvider, session_id: str) -> None:
        """Raise the generated ids above all ids to write, before the first messages are written.
        Set `reserved` after the commit.
        """
        if not self.reserved and self._reach is not None:
            reserve_ids(tx, provider, "messages", self._reach, session_id)
