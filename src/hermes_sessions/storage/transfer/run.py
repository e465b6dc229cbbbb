"""Transfers all sessions from one store to another: copies, compares and indexes them.

The source is only read, in short transactions, and may be written meanwhile: a comparison finds
sessions that changed after they were copied, and copies them again. A session without a checksum in
the ledger is incomplete and is copied again, so a killed transfer can be repeated. Changes made in
the target after the copy are overwritten only on request.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from hermes_sessions.errors import ConstraintViolated, TransferRefused
from hermes_sessions.storage.provider import ReadTransaction, SessionDBProvider
from hermes_sessions.storage.repositories.stale_sessions import copy_notes
from hermes_sessions.storage.search.index_maintenance import IndexMaintenance
from hermes_sessions.storage.session_copy.parents import place_all_conversations
from hermes_sessions.storage.session_copy.reader import (
    PAGE,
    ChecksummedSession,
    Piece,
    batches,
    checksum_sessions,
    count_messages,
    count_rows,
    messages_of,
    pages,
    read_pieces,
    sessions_among,
)
from hermes_sessions.storage.session_copy.row_ids import highest_id, is_any_id_taken
from hermes_sessions.storage.session_copy.writer import link_parents
from hermes_sessions.storage.store_context import StoreContext
from hermes_sessions.storage.transfer.blob_copy import copy_blobs
from hermes_sessions.storage.transfer.comparison import (
    Verdict,
    judge_all,
    number_of_sessions,
    require_different,
    require_room,
)
from hermes_sessions.storage.transfer.copy_ledger import BEGUN, Ledger, identity, is_as_copied
from hermes_sessions.storage.transfer.side_rows import (
    Difference,
    Merge,
    copy_side_rows,
    has_tables,
)
from hermes_sessions.storage.transfer.writer import Writer

#: Called with the name of the step, the number of finished items, and the total.
Progress = Callable[[str, int, int], None]

#: Attempts to copy a session that keeps changing.
_ATTEMPTS: Final = 3
_NUMBERED: Final = ("messages", "rewinds")
_MOVING: Final = "changed while it was copied"
_TITLE_TAKEN: Final = "has a title that another session of the target uses"
_STILL_USED: Final = "was deleted from the source, but is still used in the target"


@dataclass(slots=True)
class TransferReport:
    """The result of a run. ``sessions`` and ``messages`` count what was verified to be equal."""

    source: str
    target: str
    sessions: int = 0
    messages: int = 0
    #: Sessions and messages that this run wrote, and sessions it removed because they were deleted
    #: from the source.
    copied: int = 0
    copied_messages: int = 0
    removed: int = 0
    #: Messages in the target's search index.
    indexed: int = 0
    #: Sessions left unchanged, with ``skip``.
    skipped: list[str] = field(default_factory=list)
    #: Sessions replaced, with ``overwrite``.
    overwritten: list[str] = field(default_factory=list)
    #: Sessions that lost their title to another session of the target.
    untitled: list[str] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)


def _silent(what: str, done: int, total: int) -> None:
    pass


class Transfer:
    """One run from *source* to *target*."""

    def __init__(
        self,
        source: SessionDBProvider,
        target: SessionDBProvider,
        *,
        merge: Merge | None = None,
        since: float | None = None,
        on_progress: Progress = _silent,
    ) -> None:
        """Args:
        merge: what to do with other sessions of the target; None refuses a target that has any.
        since: only compare and copy sessions that were active at that time or later; the others
            are not verified.

        Raises:
            TransferRefused: both are the same store.
        """
        self._source = source
        self._target = target
        self._merge: Merge | None = merge
        self._since = since
        self._on_progress = on_progress
        self._report = TransferReport(identity(source), identity(target))
        require_different(self._report.source, self._report.target)
        self._ledger = Ledger(self._report.source, target.dialect)
        self._writer = Writer(target, self._ledger, merging=merge is not None)
        self._done = 0

    def run(self) -> TransferReport:
        """Copy, compare, index, and return what was done.

        Raises:
            TransferRefused: the target has other sessions, or a value cannot be converted.
            StoreError: a store cannot be used; call again later to resume.
        """
        require_room(self._target, self._ledger, self._merge)
        # Before what refers to them; references follow with the other tables.
        copy_blobs(self._source, self._target, time.time())
        if self._since is None:
            self._copy_all()
        self._compare_all()
        if self._since is None:
            self._remove_gone()
            self._require_nothing_else()
        if self._merge is not None:
            place_all_conversations(self._target)
        # Those that came meanwhile, too.
        self._report.differences += copy_blobs(self._source, self._target, time.time())
        self._report.differences += copy_side_rows(
            self._source, self._target, self._ledger, self._merge
        )
        if has_tables(["stale_sessions"], self._source):
            copy_notes(self._source, self._target)
        self._report.indexed = self._index()
        return self._report

    # ── the whole store ───────────────────────────────────────────────────────────────────────

    def _copy_all(self) -> None:
        with self._source.read() as tx:
            self._start("Copying", count_messages(tx))
        for page in pages(self._source):
            with self._target.read() as tx:
                entries = self._ledger.entries(tx, "sessions", page)
                stored = sessions_among(tx, page)
            wanted = [
                session_id
                for session_id in page
                if entries.get(session_id) == BEGUN
                or (session_id not in entries and self._may_write(session_id in stored))
            ]
            with self._source.read() as tx:
                self._advance(messages_of(tx, [s for s in page if s not in wanted]))
            self._report.overwritten += [s for s in wanted if s in stored and s not in entries]
            self._copy(wanted)

    def _may_write(self, is_stored: bool) -> bool:
        return not is_stored or self._merge == "overwrite"

    def _compare_all(self) -> None:
        with self._source.read() as tx:
            self._start("Comparing", count_messages(tx, self._since))
        for page in pages(self._source, self._since):
            self._settle(page)

    def _remove_gone(self) -> None:
        """Remove copied sessions that were deleted from the source since."""
        gone = self._find_gone()
        left = []
        for page in _paged(gone):
            with self._target.read() as tx:
                found = checksum_sessions(tx, page)
                entries = self._ledger.entries(tx, "sessions", page)
            merging = self._merge is not None
            left += [s for s in page if is_as_copied(found.get(s), entries.get(s), merging=merging)]
        # A session can only be removed after its children.
        while removed := {s for page in _paged(left) for s in self._writer.remove(page)}:
            self._report.removed += len(removed)
            gone = [s for s in gone if s not in removed]
            left = [s for s in left if s not in removed]
        if self._merge is None:
            self._report.differences += [Difference(s, _STILL_USED) for s in gone]
        else:
            self._report.skipped += gone

    def _find_gone(self) -> list[str]:
        gone: list[str] = []
        after: str | None = None
        while True:
            with self._target.read() as tx:
                page = self._ledger.page(tx, "sessions", after, PAGE)
            if not page:
                return gone
            after = page[-1]
            with self._source.read() as tx:
                there = sessions_among(tx, page)
            with self._target.read() as tx:
                stored = sessions_among(tx, page)
            gone += [s for s in page if s not in there and s in stored]

    def _require_nothing_else(self) -> None:
        if self._merge is None:
            with self._target.read() as tx:
                others = self._ledger.sessions_from_elsewhere(tx)
            if others:
                what = f"{number_of_sessions(others)} came into the target from elsewhere meanwhile"
                self._report.differences.append(Difference("sessions", what))

    def _index(self) -> int:
        maintenance = IndexMaintenance(
            StoreContext(self._target, time.time), self._target.search_index
        )
        with self._target.read() as tx:
            lag = maintenance.lag(tx)
        self._start("Indexing", lag.pending + lag.titles)
        maintenance.catch_up(on_step=self._advance)
        with self._target.read() as tx:
            return max(0, count_rows(tx, "messages") - maintenance.lag(tx).not_indexed)

    # ── some sessions ─────────────────────────────────────────────────────────────────────────

    def _settle(self, page: Sequence[str]) -> None:
        """Copy a page of sessions until the target equals the source, and verify it."""
        left = list(page)
        for attempt in range(_ATTEMPTS):
            self._tie(left)
            with self._source.read() as tx:
                wanted = checksum_sessions(tx, left)
            again = self._judge_all(wanted, is_last=attempt == _ATTEMPTS - 1)
            if not again:
                return
            self._copy(again, is_counted=False)
            left = again

    def _judge_all(self, wanted: dict[str, ChecksummedSession], *, is_last: bool) -> list[str]:
        """Count the equal sessions; return those to copy."""
        again = []
        proven: list[tuple[str, str]] = []
        for session_id, summed, entry, verdict, reason in judge_all(
            wanted, self._target, self._ledger, self._merge
        ):
            if verdict is Verdict.SAME:
                self._report.sessions += 1
                self._report.messages += summed.messages
                if entry is not None and entry != str(summed.checksum):
                    proven.append((session_id, str(summed.checksum)))
            elif verdict is Verdict.SKIP:
                self._report.skipped.append(session_id)
            elif verdict is Verdict.CONFLICT or is_last:
                untitled = session_id in self._report.untitled
                what = reason or (_TITLE_TAKEN if untitled else _MOVING)
                self._report.differences.append(Difference(session_id, what))
            else:
                again.append(session_id)
                if reason and session_id not in self._report.overwritten:
                    self._report.overwritten.append(session_id)
                continue
            self._advance(summed.messages)
        if proven:
            self._target.write(lambda tx: self._ledger.note(tx, "sessions", proven), isolated=False)
        return again

    def _copy(self, ids: Sequence[str], *, is_counted: bool = True) -> None:
        if self._merge is None:
            self._copy_together(ids, is_counted=is_counted)
            return
        # One by one: which ids are free depends on the sessions before.
        for session_id in ids:
            self._renumber_if_taken(session_id)
            self._copy_together([session_id], is_counted=is_counted)

    def _copy_together(self, ids: Sequence[str], *, is_counted: bool) -> None:
        with self._source.read() as tx:
            for batch in batches(read_pieces(tx, ids)):
                self._write(batch, is_counted=is_counted)

    def _write(self, batch: Sequence[Piece], *, is_counted: bool) -> None:
        try:
            written = self._writer.write(batch)
        except ConstraintViolated as error:
            raise TransferRefused(
                f"{error} Another transfer may be writing to the same store: wait for it to end, "
                f"then run this again."
            ) from error
        known = self._report.untitled
        known += [session_id for session_id in written.untitled if session_id not in known]
        messages = sum(len(piece.messages) for piece in batch)
        self._report.copied += sum(piece.checksum is not None for piece in batch)
        self._report.copied_messages += messages
        if is_counted:
            self._advance(messages)

    def _renumber_if_taken(self, session_id: str) -> None:
        """Renumber the rows of a session if other sessions of the target use their ids."""
        for table in _NUMBERED:
            with self._source.read() as tx:
                sql = f"SELECT id FROM {table} WHERE session_id = ? ORDER BY id"
                ids = [row[0] for row in tx.all(sql, (session_id,))]
                highest = highest_id(tx, table)
            with self._target.read() as tx:
                is_taken = is_any_id_taken(tx, table, ids, beside=session_id)
            if is_taken:
                self._writer.renumber(session_id, table, ids, highest)

    def _tie(self, ids: Sequence[str]) -> None:
        """Set the parents of sessions; copies missing parents first."""
        edges: dict[str, str] = {}
        with self._source.read() as tx:
            waiting = list(ids)
            while waiting:
                found = {s: p for s, p in _parents(tx, waiting).items() if s not in edges}
                edges |= found
                with self._target.read() as target:
                    stored = sessions_among(target, sorted(set(found.values())))
                waiting = [p for p in set(found.values()) - stored if p not in edges]
        parents = sorted(set(edges.values()) - set(ids))
        with self._target.read() as tx:
            missing = set(parents) - sessions_among(tx, parents)
            noted = self._ledger.entries(tx, "sessions", sorted(missing))
        # A session that was copied and then deleted from the target stays deleted.
        missing -= {parent for parent, entry in noted.items() if entry != BEGUN}
        self._copy(sorted(missing), is_counted=False)
        with self._target.read() as tx:
            untied = _untied(tx, list(edges))
            ours = self._ledger.entries(tx, "sessions", list(edges))
        loose = [(child, edges[child]) for child in untied if child in ours]
        if loose:
            self._target.write(partial(link_parents, edges=loose), isolated=False)

    # ── progress ──────────────────────────────────────────────────────────────────────────────

    def _start(self, what: str, total: int) -> None:
        self._what, self._done, self._total = what, 0, total

    def _advance(self, steps: int) -> None:
        self._done += steps
        self._on_progress(self._what, self._done, max(self._total, self._done))


def _paged(ids: Sequence[str]) -> list[Sequence[str]]:
    return [ids[start : start + PAGE] for start in range(0, len(ids), PAGE)]


def _parents(tx: ReadTransaction, ids: Sequence[str]) -> dict[str, str]:
    marks = ", ".join("?" * len(ids))
    rows = tx.all(
        f"SELECT id, parent_session_id FROM sessions "
        f"WHERE id IN ({marks}) AND parent_session_id IS NOT NULL",
        ids,
    )
    return dict(rows)


def _untied(tx: ReadTransaction, ids: Sequence[str]) -> list[str]:
    if not ids:
        return []
    marks = ", ".join("?" * len(ids))
    rows = tx.all(
        f"SELECT id FROM sessions WHERE id IN ({marks}) AND parent_session_id IS NULL", ids
    )
    return [row[0] for row in rows]
