"""Invariants of the rows of lanes."""

from __future__ import annotations

from hermes_sessions import SessionDB
from hermes_sessions.storage.repositories.lane_transitions import history
from hermes_sessions.storage.repositories.lanes import NO_SESSION, Lanes


def require_whole(db: SessionDB, namespace: str = "default") -> None:
    """Every lane is explained by its transitions, and its session exists or is known to be gone.
    What no lane is in has ended: nothing was made and forgotten.
    """
    lanes = Lanes(db.store)
    with db.provider.read() as tx:
        found = lanes.page(tx, namespace, limit=100_000)
        pointed = {lane.session_id for lane in found}
        for lane in found:
            steps = history(tx, lane.id)
            assert steps, f"nothing explains {lane.session_key}"
            assert steps[-1].to_session_id == lane.session_id
            # Each begins where the one before ended.
            place: str | None = None
            for step in steps:
                assert step.from_session_id == place
                place = step.to_session_id
            assert lane.status == _status(steps[-1].action, lane.status)
        forgotten = [
            row[0]
            for row in tx.all(
                "SELECT id FROM sessions WHERE ended_at IS NULL AND trashed_at IS NULL "
                "AND tip_id = id AND source = ?",
                ("telegram",),
            )
            if row[0] not in pointed
        ]
    assert forgotten == []
    assert NO_SESSION not in pointed


def _status(action: str, otherwise: str) -> str:
    return {"create": "active", "reset": "active", "switch": "active", "suspend": "suspended"}.get(
        action, otherwise
    )
