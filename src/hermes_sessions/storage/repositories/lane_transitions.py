"""Lane transitions, an audit log: what changed, why, by whom, and on which facts.

A transition is written in the transaction that makes the change, and never updated.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from hermes_sessions.storage.codec import from_json, to_json
from hermes_sessions.storage.provider import ReadTransaction, Row, WriteTransaction, placeholders


class Transition(NamedTuple):
    """One change of a lane."""

    lane_id: int
    #: Seconds since the epoch.
    at: float
    #: ``create``, ``reset``, ``switch``, ``suspend``, …
    action: str
    reason: str | None = None
    #: The component that made the change.
    actor: str | None = None
    from_session_id: str | None = None
    to_session_id: str | None = None
    #: The reset policy in force, if it mattered.
    policy: Mapping[str, Any] | None = None
    #: The facts behind the decision.
    facts: Mapping[str, Any] | None = None
    #: Given by the database.
    id: int | None = None


#: The columns that a caller states; the database gives the last one.
_COLUMNS: Final = Transition._fields[:-1]
_SELECT: Final = f"SELECT {', '.join(_COLUMNS)}, id FROM lane_transitions"
_INSERT: Final = (
    f"INSERT INTO lane_transitions ({', '.join(_COLUMNS)}) VALUES ({placeholders(len(_COLUMNS))})"
)


def record(tx: WriteTransaction, transition: Transition) -> int:
    """Write a transition and return its id."""
    plain = transition[: len(_COLUMNS) - 2]
    return tx.insert(_INSERT, (*plain, _text(transition.policy), _text(transition.facts)))


def history(tx: ReadTransaction, lane_id: int, *, limit: int | None = None) -> list[Transition]:
    """Return the transitions of a lane, oldest first; with *limit* the latest ones only."""
    if limit is None:
        rows = tx.all(f"{_SELECT} WHERE lane_id = ? ORDER BY id", (lane_id,))
    else:
        rows = tx.all(f"{_SELECT} WHERE lane_id = ? ORDER BY id DESC LIMIT ?", (lane_id, limit))
        rows.reverse()
    return [_transition(row) for row in rows]


def lanes_through(tx: ReadTransaction, session_id: str, limit: int) -> list[int]:
    """Return the lanes that moved from or to a session, latest first. Scans the whole table."""
    rows = tx.all(
        "SELECT lane_id, MAX(id) FROM lane_transitions "
        "WHERE from_session_id = ? OR to_session_id = ? GROUP BY lane_id ORDER BY 2 DESC LIMIT ?",
        (session_id, session_id, limit),
    )
    return [int(row[0]) for row in rows]


def forget(tx: WriteTransaction, lane_id: int) -> None:
    """Delete the transitions of a lane."""
    tx.run("DELETE FROM lane_transitions WHERE lane_id = ?", (lane_id,))


def _transition(row: Row) -> Transition:
    *plain, policy, facts, number = row
    values = zip(_COLUMNS[:-2], plain, strict=True)
    return Transition(
        **dict(values), policy=_mapping(policy), facts=_mapping(facts), id=int(number)
    )


def _text(value: Mapping[str, Any] | None) -> str | None:
    return None if value is None else to_json(dict(value))


def _mapping(text: str | None) -> dict[str, Any] | None:
    found = None if text is None else from_json(text, None)
    return found if isinstance(found, dict) else None
