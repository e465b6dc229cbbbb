"""Sessions that lanes point at: queries and changes inside transactions of the lifecycle."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from hermes_sessions.model.scope import Scope
from hermes_sessions.storage.provider import ReadTransaction, Row, WriteTransaction, placeholders
from hermes_sessions.storage.repositories.leases import LEASE_IS_HELD, holder_has_ended
from hermes_sessions.storage.repositories.lineage import follow_compression
from hermes_sessions.storage.repositories.rows import VISIBLE, scope_condition
from hermes_sessions.storage.repositories.sessions import Sessions

_COUNTERS: Final = (
    "message_count",
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "estimated_cost_usd",
)
#: Joined with the head of the chain, whose row names the tip.
_SELECT: Final = (
    f"SELECT s.id, s.chain_id, s.user_id, s.ended_at, s.trashed_at, s.cost_status, "
    f"{', '.join(f'COALESCE(s.{name}, 0)' for name in _COUNTERS)}, head.tip_id "
    f"FROM sessions s LEFT JOIN sessions head ON head.id = s.chain_id"
)
#: The lane points at a session or another one of its compression chain. Takes the session id
#: twice.
IS_IN_THREAD: Final = (
    "(session_id = ? OR EXISTS (SELECT 1 FROM sessions mine JOIN sessions meant "
    "ON meant.chain_id = mine.chain_id WHERE mine.id = lanes.session_id AND meant.id = ?))"
)
#: Sessions per query.
_PAGE: Final = 500


class LaneSession(NamedTuple):
    """The session that a lane points at."""

    id: str
    chain_id: str
    user_id: str | None = None
    ended_at: float | None = None
    trashed_at: float | None = None
    cost_status: str | None = None
    message_count: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    estimated_cost_usd: float = 0.0
    #: The session that continues the thread according to derived columns; see `tip_of`.
    tip_id: str | None = None

    @property
    def is_there(self) -> bool:
        """Whether it can be continued, because it is not in the trash."""
        return self.trashed_at is None


def find(tx: ReadTransaction, session_id: str) -> LaneSession | None:
    """Return a session, even from the trash, or None."""
    row = tx.one(f"{_SELECT} WHERE s.id = ?", (session_id,))
    return None if row is None else _pointed(row)


def find_many(tx: ReadTransaction, session_ids: Iterable[str]) -> dict[str, LaneSession]:
    """Return the sessions that exist, by id."""
    wanted, found = list(session_ids), dict[str, LaneSession]()
    for start in range(0, len(wanted), _PAGE):
        part = wanted[start : start + _PAGE]
        for row in tx.all(f"{_SELECT} WHERE s.id IN ({placeholders(len(part))})", part):
            session = _pointed(row)
            found[session.id] = session
    return found


def find_in_scope(tx: ReadTransaction, session_id: str, scope: Scope) -> LaneSession | None:
    """Return a session that the caller may see, or None."""
    seen, params = scope_condition(scope, lambda name: f"s.{name}")
    row = tx.one(f"{_SELECT} WHERE s.id = ? AND s.{VISIBLE} AND {seen}", (session_id, *params))
    return None if row is None else _pointed(row)


def tip_of(tx: ReadTransaction, session: LaneSession) -> LaneSession:
    """Return the session that continues this one after compaction, or the session itself."""
    if session.tip_id == session.id:
        return session
    tip_id = follow_compression(tx, session.id)
    tip = session if tip_id == session.id else find(tx, tip_id)
    return tip or session


def in_thread(tx: ReadTransaction, session_id: str) -> list[str]:
    """Return the session ids of the compression chain of a session: itself first, if it exists,
    then those before and after it.
    """
    row = tx.one(
        "SELECT COALESCE(conversation_id, id), COALESCE(chain_id, id) FROM sessions WHERE id = ?",
        (session_id,),
    )
    if row is None:
        return []
    rows = tx.all("SELECT id FROM sessions WHERE conversation_id = ? AND chain_id = ?", row)
    return list(dict.fromkeys([session_id, *(found for (found,) in rows)]))


def exists(tx: ReadTransaction, session_id: str) -> bool:
    """Return whether a session has this id, including those in the trash."""
    return tx.one("SELECT 1 FROM sessions WHERE id = ?", (session_id,)) is not None


def begin(
    tx: WriteTransaction, session_id: str, *, source: str, user_id: str | None, now: float
) -> LaneSession:
    """Create a session."""
    Sessions.insert(
        tx,
        {
            "id": session_id,
            "source": source,
            "user_id": user_id,
            "model": None,
            "model_config": None,
            "system_prompt": None,
            "started_at": now,
        },
        None,
        None,
    )
    return LaneSession(session_id, session_id, user_id, tip_id=session_id)


def end(tx: WriteTransaction, session_id: str, reason: str, *, now: float, left_by: int) -> None:
    """End a session that the lane *left_by* leaves, unless another lane still uses it.

    A lane that the expiry watcher has finalized no longer uses its session.
    """
    # If two lanes leave at the same time, the second waits here and then ends the session.
    tx.run("UPDATE sessions SET ended_at = ended_at WHERE id = ?", (session_id,))
    tx.run(
        f"UPDATE sessions SET ended_at = ?, end_reason = ? WHERE id = ? AND ended_at IS NULL "
        f"AND {VISIBLE} AND NOT EXISTS (SELECT 1 FROM lanes WHERE session_id = ? AND id <> ? "
        f"AND finalized_at IS NULL)",
        (now, reason, session_id, session_id, left_by),
    )


def reopen(tx: WriteTransaction, session_id: str) -> None:
    """Clear the end of a session that a lane continues."""
    tx.run("UPDATE sessions SET ended_at = NULL, end_reason = NULL WHERE id = ?", (session_id,))


def is_running(tx: ReadTransaction, chain_id: str, now: float) -> bool:
    """Return whether a turn runs on this chain: it has not ended, and its lease is valid.

    A turn left behind by a dead process is not running.
    """
    row = tx.one(
        "SELECT l.process_id FROM turns t "
        "JOIN leases l ON l.chain_id = t.chain_id AND l.token = t.token "
        f"WHERE t.chain_id = ? AND t.ended_at IS NULL AND {LEASE_IS_HELD} LIMIT 1",
        (chain_id, now, now),
    )
    return row is not None and not holder_has_ended(tx, row[0])


def _pointed(row: Row) -> LaneSession:
    found = LaneSession(*row)
    return found._replace(
        chain_id=found.chain_id or found.id, estimated_cost_usd=float(found.estimated_cost_usd)
    )
