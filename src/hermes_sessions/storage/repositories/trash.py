"""Archive, pins and trash: hide sessions or protect them from pruning, without loss."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from hermes_sessions.errors import InvalidInput
from hermes_sessions.model.prune_filters import (
    PruneFilters,
    ThreadMember,
    checked_filters,
    thread_matches,
    threads_of,
)
from hermes_sessions.storage.provider import WriteTransaction
from hermes_sessions.storage.repositories.holds import require_no_hold
from hermes_sessions.storage.repositories.leases import release_expired_leases, require_free
from hermes_sessions.storage.repositories.lineage import place_family, subagents_of
from hermes_sessions.storage.repositories.rows import (
    SESSION_COLUMNS,
    VISIBLE,
    names,
    session_values,
)
from hermes_sessions.storage.repositories.stale_sessions import settle_first, settled_read
from hermes_sessions.storage.repositories.titles import free_variant
from hermes_sessions.storage.store_context import StoreContext

if TYPE_CHECKING:
    from hermes_sessions.storage.records import TrashedSession

DAY: Final = 86400.0
#: Later than every time: an age of 0 days means all sessions, even if a clock that was set back
#: makes some appear to be in the future.
_ANY_TIME: Final = 1e18
#: `trashed_at` of a session whose permanent deletion has begun; see ``deletion.py``.
DELETION_PENDING = 0


class Trash:
    """Archives, pins, trashes and restores sessions."""

    def __init__(self, store: StoreContext) -> None:
        self._store = store

    def set_archived(self, session_id: str, *, archived: bool) -> bool:
        """See `SessionDB.set_session_archived`."""
        return self._mark("archived_at", session_id, wanted=archived)

    def archive_matching(
        self, older_than_days: float | None, source: str | None, filters: Mapping[str, Any]
    ) -> int:
        """See `SessionDB.archive_sessions`."""
        wanted = checked_filters({"archived": False} | dict(filters))
        cutoff = age_cutoff(self._store, older_than_days or 0, wanted)
        with settled_read(self._store) as tx:
            rows = tx.all(f"SELECT {names(ThreadMember._fields)} FROM sessions WHERE {VISIBLE}")
        chosen = [
            thread
            for thread in threads_of(map(ThreadMember._make, rows))
            if all(m.ended_at is not None and m.last_active <= cutoff for m in thread)
            and source in (None, "", thread[0].source)
            and thread_matches(thread, wanted)
        ]
        now = self._store.clock()
        archived = [(now, *_chain(thread)) for thread in chosen]
        self._store.provider.write(
            lambda tx: tx.run_many(
                f"UPDATE sessions SET archived_at = ? WHERE conversation_id = ? AND chain_id = ? "
                f"AND archived_at IS NULL AND ended_at IS NOT NULL AND {VISIBLE}",
                archived,
            )
        )
        return sum(map(len, chosen))

    def set_pinned(self, session_id: str, *, pinned: bool) -> bool:
        """See `SessionDB.set_session_pinned`."""
        return self._mark("pinned_at", session_id, wanted=pinned)

    def _mark(self, column: str, session_id: str, *, wanted: bool) -> bool:
        """Set or clear a time on every session of a compression chain."""
        settle_first(self._store)
        now = self._store.clock()

        def work(tx: WriteTransaction) -> bool:
            row = tx.one(
                f"SELECT conversation_id, chain_id FROM sessions WHERE id = ? AND {VISIBLE}",
                (session_id,),
            )
            if row is None:
                return False
            tx.run(
                f"UPDATE sessions SET {column} = ? "
                f"WHERE conversation_id = ? AND chain_id = ? AND {VISIBLE}",
                (now if wanted else None, *row),
            )
            return True

        return self._store.provider.write(work)

    def put(self, session_ids: Iterable[str]) -> list[str]:
        """See `SessionDB.trash_sessions`."""
        wanted = list(session_ids)
        settle_first(self._store)
        now = self._store.clock()

        def work(tx: WriteTransaction) -> list[str]:
            moved: list[str] = []
            for session_id in wanted:
                victims = (session_id, *subagents_of(tx, session_id))
                require_no_hold(tx, victims)
                require_free(tx, self._store, victims)
                moved += [victim for victim in victims if hide(tx, victim, now)]
            for conversation_id in _families(tx, moved):
                place_family(tx, conversation_id)
            return moved

        return self._store.provider.write(work)

    def restore(self, session_ids: Iterable[str]) -> list[str]:
        """See `SessionDB.restore_sessions`."""
        wanted = list(session_ids)

        def work(tx: WriteTransaction) -> list[str]:
            restored: list[str] = []
            for session_id in wanted:
                for candidate in (session_id, *subagents_of(tx, session_id)):
                    if candidate not in restored and _show(tx, candidate):
                        restored.append(candidate)
            for conversation_id in _families(tx, restored):
                # Restoring its first session changes a chain; an expired lease must not block it.
                release_expired_leases(tx, self._store, conversation_id)
                place_family(tx, conversation_id)
            return restored

        return self._store.provider.write(work)

    def list(self) -> list[TrashedSession]:
        """See `SessionDB.list_trash`."""
        with settled_read(self._store) as tx:
            rows = tx.all(
                f"SELECT {names(SESSION_COLUMNS)}, trashed_title, trashed_at, preview, last_active "
                f"FROM sessions WHERE trashed_at > ? ORDER BY trashed_at DESC, id DESC",
                (DELETION_PENDING,),
            )
        columns = (*SESSION_COLUMNS, "trashed_title", "trashed_at", "preview", "last_active")
        records = []
        for row in rows:
            record = session_values(columns, row)
            record["title"] = record.pop("trashed_title")
            record["preview"] = record["preview"] or ""
            records.append(record)
        return cast("list[TrashedSession]", records)


def _chain(thread: Sequence[ThreadMember]) -> tuple[str, str]:
    return thread[0].conversation_id, thread[0].chain_id


def age_cutoff(store: StoreContext, older_than_days: float | None, wanted: PruneFilters) -> float:
    """Return the time by which a session must have been active for the last time.

    Raises:
        InvalidInput: the age is not a number of days, or there is neither an age nor a filter.
    """
    if (older_than_days is None and wanted) or "started_before" in wanted:
        return _ANY_TIME
    if isinstance(older_than_days, bool) or not isinstance(older_than_days, (int, float)):
        raise InvalidInput("An age must be a number of days.")
    if not older_than_days >= 0:
        raise InvalidInput(f"An age must be 0 days or more, not {older_than_days}.")
    return _ANY_TIME if older_than_days == 0 else store.clock() - older_than_days * DAY


def hide(tx: WriteTransaction, session_id: str, when: float) -> bool:
    """Hide a session from all operations and free its title; return whether it was visible. The
    caller places the families afterwards.
    """
    return bool(
        tx.run(
            f"UPDATE sessions SET trashed_at = ?, trashed_title = title, title = NULL "
            f"WHERE id = ? AND {VISIBLE}",
            (when, session_id),
        )
    )


def _show(tx: WriteTransaction, session_id: str) -> bool:
    row = tx.one(
        "SELECT trashed_title FROM sessions WHERE id = ? AND trashed_at > ?",
        (session_id, DELETION_PENDING),
    )
    if row is None:
        return False
    title = free_variant(tx, row[0]) if row[0] is not None else None
    tx.run(
        "UPDATE sessions SET trashed_at = NULL, trashed_title = NULL, title = ? WHERE id = ?",
        (title, session_id),
    )
    return True


def _families(tx: WriteTransaction, session_ids: Iterable[str]) -> list[str]:
    return sorted(
        {
            row[0]
            for session_id in session_ids
            if (row := tx.one("SELECT conversation_id FROM sessions WHERE id = ?", (session_id,)))
        }
    )
