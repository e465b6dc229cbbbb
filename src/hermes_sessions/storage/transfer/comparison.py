"""Compares the sessions of two stores, and decides how to handle differences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from hermes_sessions.errors import TransferRefused
from hermes_sessions.storage.provider import SessionDBProvider
from hermes_sessions.storage.session_copy.checksums import Checksum, is_same
from hermes_sessions.storage.session_copy.reader import (
    ChecksummedSession,
    checksum_sessions,
    count_rows,
    pages,
    sessions_among,
)
from hermes_sessions.storage.transfer.blob_copy import compare_blobs
from hermes_sessions.storage.transfer.copy_ledger import BEGUN, Ledger, identity
from hermes_sessions.storage.transfer.side_rows import (
    CHANGED,
    Difference,
    Merge,
    compare_side_rows,
)

DELETED: Final = "was deleted from the target after it was copied"
FOREIGN: Final = "is in the target, and did not come from this source"


class Verdict(Enum):
    """What to do with a session."""

    SAME = "nothing"
    COPY = "copy it, replacing what is there"
    SKIP = "leave it as it is"
    CONFLICT = "report it"


def judge(
    wanted: ChecksummedSession,
    found: ChecksummedSession | None,
    entry: str | None,
    merge: Merge | None,
) -> tuple[Verdict, str]:
    """Return what to do with a session of the source, and why. *found* is the one in the target,
    *entry* the checksum in the ledger.
    """
    merging = merge is not None
    if found is not None and is_same(wanted.checksum, found.checksum, merging=merging):
        return Verdict.SAME, ""
    if entry == BEGUN or (entry is None and found is None):
        return Verdict.COPY, ""
    if entry is None:
        reason = FOREIGN
    elif found is None:
        reason = DELETED
    elif is_same(found.checksum, Checksum.read(entry), merging=merging):
        return Verdict.COPY, ""
    else:
        reason = CHANGED
    if merge is None:
        return Verdict.CONFLICT, reason
    return (Verdict.COPY if merge == "overwrite" else Verdict.SKIP), reason


def judge_all(
    wanted: Mapping[str, ChecksummedSession],
    target: SessionDBProvider | None,
    ledger: Ledger,
    merge: Merge | None,
) -> Iterator[tuple[str, ChecksummedSession, str | None, Verdict, str]]:
    """Yield sessions of the source with their entry in the ledger, what to do, and why."""
    found: dict[str, ChecksummedSession] = {}
    entries: dict[str, str] = {}
    if target is not None:
        with target.read() as tx:
            found = checksum_sessions(tx, list(wanted))
            entries = ledger.entries(tx, "sessions", list(wanted))
    for session_id, summed in wanted.items():
        entry = entries.get(session_id)
        yield session_id, summed, entry, *judge(summed, found.get(session_id), entry, merge)


class Comparison(NamedTuple):
    """The result of comparing two stores: counts of equal items, and all differences."""

    sessions: int
    messages: int
    differences: list[Difference]
    #: Equal rows of side tables, by table: holds, receipts of erasures, …
    beside: Mapping[str, int]


def compare_stores(
    first: SessionDBProvider,
    second: SessionDBProvider,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> Comparison:
    """Compare all sessions of two stores, including the trash, and the side tables."""
    differences: list[Difference] = []
    with first.read() as tx, second.read() as other:
        total = count_rows(tx, "sessions") + count_rows(other, "sessions")
    sessions = messages = done = 0
    for page in pages(first):
        with first.read() as tx:
            left = checksum_sessions(tx, page)
        with second.read() as tx:
            right = checksum_sessions(tx, page)
        for session_id in page:
            what = _difference(left.get(session_id), right.get(session_id))
            if what:
                differences.append(Difference(session_id, what))
            elif session_id in left:
                sessions += 1
                messages += left[session_id].messages
        done += len(page)
        on_progress(done, total)
    for page in pages(second):
        with first.read() as tx:
            there = sessions_among(tx, page)
        differences += [
            Difference(session_id, "only in the second")
            for session_id in page
            if session_id not in there
        ]
        done += len(page)
        on_progress(done, total)
    beside = Counter[str]()
    differences += compare_side_rows(first, second, beside)
    differences += compare_blobs(first, second, beside)
    return Comparison(sessions, messages, differences, beside)


def _difference(left: ChecksummedSession | None, right: ChecksummedSession | None) -> str:
    if left is None or left == right:
        return ""
    if right is None:
        return "only in the first"
    if left.messages != right.messages:
        return f"{left.messages} messages in the first, {right.messages} in the second"
    if left.checksum.content != right.checksum.content:
        return "content differs"
    return "title, lineage or ids of messages differ"


@dataclass(slots=True)
class TransferPlan:
    """A preview of a transfer."""

    source: str
    target: str
    copied: int = 0
    copied_messages: int = 0
    overwritten: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)


def plan(
    source: SessionDBProvider,
    target: SessionDBProvider | None,
    *,
    merge: Merge | None = None,
    since: float | None = None,
) -> TransferPlan:
    """Return what a `Transfer` would do, without writing. A *target* of None is a new store."""
    found_plan = TransferPlan(identity(source), identity(target) if target else "")
    ledger = Ledger(found_plan.source, source.dialect)
    if target is not None:
        require_different(found_plan.source, found_plan.target)
        require_room(target, ledger, merge)
    for page in pages(source, since):
        with source.read() as tx:
            wanted = checksum_sessions(tx, page)
        for session_id, summed, _, verdict, reason in judge_all(wanted, target, ledger, merge):
            if verdict is Verdict.COPY:
                found_plan.copied += 1
                found_plan.copied_messages += summed.messages
                if reason:
                    found_plan.overwritten.append(session_id)
            elif verdict is Verdict.SKIP:
                found_plan.skipped.append(session_id)
            elif verdict is Verdict.CONFLICT:
                found_plan.differences.append(Difference(session_id, reason))
    return found_plan


def require_different(source: str, target: str) -> None:
    """Raise `TransferRefused` if both identities are of the same store."""
    if source == target:
        raise TransferRefused(f"Source and target are the same store: {source}.")


def require_room(target: SessionDBProvider, ledger: Ledger, merge: Merge | None) -> None:
    """Raise `TransferRefused` if the target has other sessions and *merge* is None."""
    if merge is not None:
        return
    with target.read() as tx:
        others = ledger.sessions_from_elsewhere(tx)
    if others:
        raise TransferRefused(
            f"{identity(target)} holds {number_of_sessions(others)} that did not come from "
            f"{ledger.origin}. To copy anyway, choose what happens to sessions that are in both: "
            f"--merge skip leaves them unchanged, --merge overwrite replaces them."
        )


def number_of_sessions(number: int) -> str:
    """Return ``1 session``, ``2 sessions``."""
    return f"{number} session{'' if number == 1 else 's'}"
