"""Comparing sessions of two stores, and judging what is to be done about a difference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final, NamedTuple

from hermes_sessions.storage.provider import SessionDBProvider
from hermes_sessions.storage.transfer.checksums import Checksum, is_same
from hermes_sessions.storage.transfer.copy_ledger import BEGUN
from hermes_sessions.storage.transfer.lane_copy import compare_lanes
from hermes_sessions.storage.transfer.reader import (
    Summed,
    count_rows,
    pages,
    sessions_among,
    sum_sessions,
)
from hermes_sessions.storage.transfer.side_tables import Merge, compare_side_rows

CHANGED: Final = "was changed in the target after it was copied"
DELETED: Final = "was deleted from the target after it was copied"
FOREIGN: Final = "is in the target, and did not come from this source"


class Verdict(Enum):
    """What is to be done about a session."""

    SAME = "nothing"
    COPY = "copy it, replacing what is there"
    SKIP = "leave it as it is"
    CONFLICT = "report it"


class Difference(NamedTuple):
    """Something that is not the same in both stores."""

    #: A session's id; or a table and the key of a row in it.
    id: str
    what: str


def judge(
    wanted: Summed, found: Summed | None, entry: str | None, merge: Merge | None
) -> tuple[Verdict, str]:
    """Return what to do about a session of the source, and why: *found* is what the target has of
    it, *entry* what the ledger says was copied.
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


class Comparison(NamedTuple):
    """What comparing two stores found: how much is the same, and everything that is not."""

    sessions: int
    messages: int
    differences: list[Difference]
    #: Rows beside the sessions that are the same, by table: holds, receipts of erasures, …
    beside: Mapping[str, int]


def compare_stores(
    first: SessionDBProvider,
    second: SessionDBProvider,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> Comparison:
    """Compare all sessions of two stores, those of the trash included, and what stands beside."""
    differences: list[Difference] = []
    total = count_rows(first, "sessions") + count_rows(second, "sessions")
    sessions = messages = done = 0
    for page in pages(first):
        with first.read() as tx:
            left = sum_sessions(tx, page)
        with second.read() as tx:
            right = sum_sessions(tx, page)
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
    differences += [
        Difference(f"{row.table} {row.key}", row.what)
        for rows in (compare_side_rows(first, second, same=beside), compare_lanes(first, second))
        for row in rows
    ]
    return Comparison(sessions, messages, differences, beside)


def _difference(left: Summed | None, right: Summed | None) -> str:
    if left is None or left == right:
        return ""
    if right is None:
        return "only in the first"
    if left.messages != right.messages:
        return f"{left.messages} messages in the first, {right.messages} in the second"
    if left.checksum.content != right.checksum.content:
        return "content differs"
    return "title, lineage or ids of messages differ"
