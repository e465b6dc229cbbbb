"""Permanent deletion: of given sessions, of the trash, or of everything old enough.

One transaction first hides ("dooms") a session together with its subagents; bounded steps then
delete its messages, so that no writer waits long. Small sessions are hidden and deleted in the same
transaction. A crash in between leaves only doomed rows, which the next deletion removes.
"""

from __future__ import annotations

import glob
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from hermes_sessions.errors import HermesSessionsError, RetentionNotApproved
from hermes_sessions.model.prune_filters import (
    PruneFilters,
    checked_filters,
    conversation_matches,
)
from hermes_sessions.storage.batches import run_in_batches
from hermes_sessions.storage.logs import Logger
from hermes_sessions.storage.provider import ReadTransaction, WriteTransaction
from hermes_sessions.storage.repositories.blobs import Blobs
from hermes_sessions.storage.repositories.derived_columns import settle
from hermes_sessions.storage.repositories.holds import (
    conversations_on_hold,
    require_no_hold,
)
from hermes_sessions.storage.repositories.leases import leased_conversations, require_free
from hermes_sessions.storage.repositories.lineage import (
    place_family,
    start_conversation,
    subagents_of,
)
from hermes_sessions.storage.repositories.meta import Meta
from hermes_sessions.storage.repositories.prune_selection import finished_conversations, members_of
from hermes_sessions.storage.repositories.rows import (
    SESSION_COLUMNS,
    VISIBLE,
    Record,
    names,
    session_values,
)
from hermes_sessions.storage.repositories.stale_sessions import (
    settle_first,
    unsettled_conversations,
)
from hermes_sessions.storage.repositories.state_documents import (
    delete_orphaned_state,
    delete_session_state,
)
from hermes_sessions.storage.repositories.trash import DELETION_PENDING, age_cutoff, hide
from hermes_sessions.storage.repositories.workspaces import remove_unused_workspace
from hermes_sessions.storage.store_context import StoreContext

if TYPE_CHECKING:
    from hermes_sessions.storage.records import MaintenanceReport, SessionSummary
    from hermes_sessions.storage.repositories.label_conditions import LabelFilter

logger = Logger(__name__)

#: Messages deleted in one transaction.
_STEP: Final = 1000
#: Tables whose rows are deleted with their session.
_OF_A_SESSION: Final = (
    "messages",
    "rewinds",
    "session_model_usage",
    "compression_locks",
    "topics",
    "authors",
    "stale_sessions",
)
#: Sessions whose deletion has begun, and their messages.
_COUNT_DOOMED: Final = (
    "SELECT (SELECT COUNT(*) FROM sessions WHERE trashed_at = ?) + (SELECT COUNT(*) FROM messages "
    "WHERE session_id IN (SELECT id FROM sessions WHERE trashed_at = ?))"
)
_LAST_RUN: Final = "last_auto_prune"
Progress = Callable[[int], None]


class Deletion:
    """Deletes sessions and runs automatic maintenance."""

    def __init__(self, store: StoreContext) -> None:
        self._store = store
        self._meta = Meta(store)
        self._blobs = Blobs(store)

    def delete(
        self,
        session_ids: Iterable[str],
        sessions_dir: str | Path | None,
        *,
        only_if: Callable[[WriteTransaction, str], bool] = lambda _tx, _session_id: True,
    ) -> int:
        """See `SessionDB.delete_sessions`; *only_if* decides in the same transaction."""
        existed = 0
        for session_id in list(dict.fromkeys(session_ids)):
            gone = self._store.provider.write(partial(_doom, self._store, session_id, only_if))
            if gone:
                existed += 1
                self.finish_pending_deletions()
                self._blobs.sweep_sessions(gone)
                _remove_files(gone, sessions_dir)
        return existed

    def purge_trash(self, older_than_days: float, sessions_dir: str | Path | None) -> int:
        """See `SessionDB.purge_trash`."""
        cutoff = age_cutoff(self._store, older_than_days, {})
        with self._store.provider.read() as tx:
            rows = tx.all(
                "SELECT id, conversation_id FROM sessions WHERE trashed_at <= ? AND trashed_at > ?",
                (cutoff, DELETION_PENDING),
            )
            on_hold = conversations_on_hold(tx, self._store) if rows else set()
        purged = [row[0] for row in rows if row[1] not in on_hold]
        for session_id in purged:
            self._store.provider.write(partial(_doom_trashed, session_id))
            self.finish_pending_deletions()
        self._blobs.sweep_sessions(purged)
        _remove_files(purged, sessions_dir)
        return len(purged)

    def candidates(
        self,
        older_than_days: float | None,
        source: str | None,
        filters: Mapping[str, Any],
        labels: LabelFilter | None = None,
    ) -> list[SessionSummary]:
        """See `SessionDB.list_prune_candidates`."""
        wanted = checked_filters(filters)
        cutoff = age_cutoff(self._store, older_than_days, wanted)
        columns = (*SESSION_COLUMNS, "preview", "last_active")
        records: list[Record] = []
        settle_first(self._store, limit=None)
        with self._store.provider.read() as tx:
            for conversation_id in finished_conversations(
                tx, self._store, cutoff, source, wanted, labels
            ):
                rows = tx.all(
                    f"SELECT {names(columns)} FROM sessions WHERE conversation_id = ? "
                    f"AND {VISIBLE} ORDER BY started_at, id",
                    (conversation_id,),
                )
                records += [session_values(columns, row) for row in rows]
        return cast("list[SessionSummary]", records)

    def prune(
        self,
        older_than_days: float | None,
        source: str | None,
        sessions_dir: str | Path | None,
        on_progress: Progress | None,
        filters: Mapping[str, Any],
        labels: LabelFilter | None = None,
    ) -> int:
        """See `SessionDB.prune_sessions`."""
        wanted = checked_filters(filters)
        cutoff = age_cutoff(self._store, older_than_days, wanted)
        if not self._store.provider.read_only:
            settle(self._store)
        with self._store.provider.read() as tx:
            waiting = finished_conversations(tx, self._store, cutoff, source, wanted, labels)[::-1]
        self.finish_pending_deletions()
        pruned = 0
        while waiting:
            gone = self._store.provider.write(
                lambda tx: _prune_step(tx, self._store, waiting[:], cutoff, wanted)
            )
            del waiting[len(waiting) - gone.conversations :]
            if gone.unfinished:
                self.finish_pending_deletions()
            self._blobs.sweep_sessions(gone.session_ids)
            pruned += len(gone.session_ids)
            _remove_files(gone.session_ids, sessions_dir)
            if on_progress is not None:
                on_progress(len(gone.session_ids))
        return pruned

    def trim(self) -> int:
        """See `SessionDB.trim`."""
        return self._store.provider.trim_all()

    def maintain(
        self,
        retention_days: int,
        min_interval_hours: int,
        vacuum: bool,
        sessions_dir: str | Path | None,
        trash_days: float | None,
    ) -> MaintenanceReport:
        """See `SessionDB.maybe_auto_prune_and_vacuum`."""
        result: MaintenanceReport = {"skipped": False, "pruned": 0, "vacuumed": False}
        try:
            now = self._store.clock()
            if now - _number(self._meta.find(_LAST_RUN)) < min_interval_hours * 3600:
                return {**result, "skipped": True}
            result["pruned"] = self.prune(retention_days, None, sessions_dir, None, {})
            if retired := self._retire():
                result["retired"] = retired
            kept_days = self._store.trash_days if trash_days is None else trash_days
            purged = self.purge_trash(kept_days, sessions_dir)
            if purged:
                result["purged"] = purged
            self._store.provider.write(delete_orphaned_state, isolated=False)
            self._blobs.sweep()
            if vacuum and (result["pruned"] or purged):
                try:
                    self._store.provider.reclaim()
                    result["vacuumed"] = True
                except HermesSessionsError as error:
                    logger.warning("could not return free space to the file system: %s", error)
            self._meta.set(_LAST_RUN, repr(now))
        except (HermesSessionsError, OSError) as error:
            logger.warning("automatic maintenance failed: %s", error)
            result["error"] = str(error)
        return result

    def _retire(self) -> int:
        """Move sessions beyond the configured limits to the trash, if the limits are approved."""
        if self._store.retention is None or not self._store.retention.has_limits:
            return 0
        from hermes_sessions.storage.care.retention.enforcement import RetentionEnforcer

        try:
            return len(RetentionEnforcer(self._store).run(None).moved)
        except RetentionNotApproved as error:
            logger.warning("%s", error)
            return 0

    def finish_pending_deletions(self) -> None:
        """Finish all deletions that have begun, in short transactions."""
        run_in_batches(
            self._store.provider,
            _erase_step,
            "Deleting sessions",
            (_COUNT_DOOMED, (DELETION_PENDING,) * 2),
        )


class _Gone:
    """The result of one step of a prune."""

    def __init__(self) -> None:
        self.conversations = 0
        self.session_ids: list[str] = []
        self.unfinished = False


def _prune_step(
    tx: WriteTransaction,
    store: StoreContext,
    waiting: list[str],
    cutoff: float,
    wanted: PruneFilters,
) -> _Gone:
    gone = _Gone()
    messages = 0
    held = leased_conversations(tx, store.clock()) | conversations_on_hold(tx, store)
    held |= unsettled_conversations(tx)
    while waiting and messages < _STEP and not gone.unfinished:
        conversation_id = waiting.pop()
        gone.conversations += 1
        members = tx.all(
            f"SELECT id, message_count, ended_at, last_active, pinned_at FROM sessions "
            f"WHERE conversation_id = ? AND {VISIBLE}",
            (conversation_id,),
        )
        # A user may have continued or pinned it since the list was made.
        if conversation_id in held or any(
            ended_at is None or active > cutoff or pinned_at is not None
            for _, _, ended_at, active, pinned_at in members
        ):
            continue
        if wanted and not conversation_matches(members_of(tx, conversation_id), wanted):
            continue
        victims = [member[0] for member in members]
        size = sum(member[1] or 0 for member in members)
        messages += size
        require_free(tx, store, victims)
        for victim in victims:
            hide(tx, victim, DELETION_PENDING)
        for victim in victims:
            detach_children(tx, victim, victims)
        if size > _STEP:
            gone.unfinished = True
        else:
            for victim in victims:
                _erase_session(tx, victim)
        gone.session_ids += victims
    return gone


def _doom(
    store: StoreContext,
    session_id: str,
    only_if: Callable[[WriteTransaction, str], bool],
    tx: WriteTransaction,
) -> list[str]:
    """Begin to delete a visible session and its subagents; return their ids."""
    if not only_if(tx, session_id):
        return []
    require_no_hold(tx, [session_id])
    require_free(tx, store, [session_id, *subagents_of(tx, session_id)])
    if not hide(tx, session_id, DELETION_PENDING):
        return []
    gone = [session_id, *(s for s in subagents_of(tx, session_id) if hide(tx, s, DELETION_PENDING))]
    for victim in gone:
        detach_children(tx, victim, gone)
    row = tx.one("SELECT conversation_id FROM sessions WHERE id = ?", (session_id,))
    if row:
        place_family(tx, row[0])
    if sum(_messages_of(tx, victim) for victim in gone) <= _STEP:
        for victim in gone:
            _erase_session(tx, victim)
    return gone


def _doom_trashed(session_id: str, tx: WriteTransaction) -> None:
    tx.run(
        "UPDATE sessions SET trashed_at = ? WHERE id = ? AND trashed_at IS NOT NULL",
        (DELETION_PENDING, session_id),
    )
    detach_children(tx, session_id)


def detach_children(tx: WriteTransaction, session_id: str, leaving: Collection[str] = ()) -> None:
    """Detach the children of a session; children not in *leaving* start their own conversations."""
    rows = tx.all("SELECT id FROM sessions WHERE parent_session_id = ?", (session_id,))
    if not rows:
        return
    tx.run(
        "UPDATE sessions SET parent_session_id = NULL, edge_kind = NULL "
        "WHERE parent_session_id = ?",
        (session_id,),
    )
    for (child,) in rows:
        if child not in leaving:
            start_conversation(tx, child)


def _messages_of(tx: ReadTransaction, session_id: str) -> int:
    row = tx.one("SELECT COUNT(*) FROM messages WHERE session_id = ?", (session_id,))
    return int(row[0]) if row else 0


def _erase_step(tx: WriteTransaction) -> int:
    """Delete a batch of messages of a doomed session, or the last ones with its row.

    Returns:
        The number of deleted rows.
    """
    row = tx.one("SELECT id FROM sessions WHERE trashed_at = ? LIMIT 1", (DELETION_PENDING,))
    if row is None:
        return 0
    session_id = row[0]
    last = tx.one(
        "SELECT ordinal FROM messages WHERE session_id = ? ORDER BY ordinal LIMIT 1 OFFSET ?",
        (session_id, _STEP - 1),
    )
    if last is None:
        left = _messages_of(tx, session_id)
        _erase_session(tx, session_id)
        return left + 1
    return tx.run(
        "DELETE FROM messages WHERE session_id = ? AND ordinal <= ?", (session_id, last[0])
    )


def _erase_session(tx: WriteTransaction, session_id: str) -> None:
    for table in _OF_A_SESSION:
        tx.run(f"DELETE FROM {table} WHERE session_id = ?", (session_id,))
    # Replies from this session that were sent or given up.
    of_turns = "turn_id IN (SELECT id FROM turns WHERE chain_id = ?)"
    tx.run(
        f"DELETE FROM outbox WHERE status IN (?, ?) AND {of_turns}", ("sent", "dead", session_id)
    )
    tx.run(
        f"UPDATE mailbox SET text = NULL, payload = NULL WHERE status IN (?, ?) AND {of_turns}",
        ("done", "dropped", session_id),
    )
    delete_session_state(tx, session_id)
    # A later session with this id gets higher tokens all the same: they start at the current time.
    tx.run("DELETE FROM leases WHERE chain_id = ?", (session_id,))
    tx.run("DELETE FROM turns WHERE chain_id = ? AND ended_at IS NOT NULL", (session_id,))
    detach_children(tx, session_id)
    row = tx.one("SELECT workspace_id FROM sessions WHERE id = ?", (session_id,))
    tx.run("DELETE FROM sessions WHERE id = ?", (session_id,))
    if row is not None and row[0] is not None:
        remove_unused_workspace(tx, row[0])


def _remove_files(session_ids: Iterable[str], sessions_dir: str | Path | None) -> None:
    """Remove the transcript files of deleted sessions; log files that cannot be removed."""
    if sessions_dir is None:
        return
    folder = Path(sessions_dir)
    for session_id in session_ids:
        if "/" in session_id or "\\" in session_id or "\x00" in session_id:
            continue  # The store never wrote a file with this id.
        escaped = glob.escape(session_id)
        files = [folder / f"{session_id}.json", folder / f"{session_id}.jsonl"]
        files += folder.glob(f"request_dump_{escaped}_*.json")
        for file in files:
            try:
                file.unlink(missing_ok=True)
            except OSError as error:
                logger.warning("%s could not be removed: %s", file, error)


def _number(text: str | None) -> float:
    try:
        return float(text) if text else 0.0
    except ValueError:
        return 0.0
