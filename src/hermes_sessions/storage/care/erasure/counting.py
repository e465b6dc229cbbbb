"""How many rows would go, for whoever wants to know before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from hermes_sessions.storage.care.erasure.discovery import pages
from hermes_sessions.storage.care.erasure.targets import Targets
from hermes_sessions.storage.provider import ReadTransaction, placeholders
from hermes_sessions.storage.repositories.authors import stored_author

_BY_SESSION: Final = ("messages",)
_BY_LANE: Final = ("mailbox", "outbox")


def count_rows(tx: ReadTransaction, targets: Targets) -> dict[str, int]:
    """Return how many rows of the kinds that people know would go."""
    counts: Counter[str] = Counter()
    counts["sessions"] = _count(tx, "sessions", "id", targets.session_ids)
    counts["lanes"] = _count(tx, "lanes", "id", targets.lanes)
    for table in _BY_SESSION:
        counts[table] += _count(tx, table, "session_id", targets.session_ids)
    for table in _BY_LANE:
        counts[table] += _count(tx, table, "lane_id", targets.lanes)
    if targets.subject.kind == "user":
        for table, name in (("senders", "sender_id"), ("identities", "alias")):
            counts[table] += _count(tx, table, name, targets.ids, targets.subject.platform)
        counts["messages in shared rooms"] += _count(
            tx, "authors", "author", map(stored_author, targets.ids), targets.subject.platform
        )
        counts["mailbox"] += _in_shared_mailboxes(tx, targets)
    if targets.are_of_people and targets.subject.platform in (None, "telegram"):
        name = "chat_id" if targets.subject.kind == "chat" else "user_id"
        counts["topics"] += _count(tx, "topic_modes", name, targets.ids)
    return {what: number for what, number in counts.items() if number}


def _count(
    tx: ReadTransaction,
    table: str,
    name: str,
    values: Iterable[object],
    platform: str | None = None,
) -> int:
    where, more = ("", ()) if platform is None else (" AND platform = ?", (platform,))
    total = 0
    for page in pages(values):
        row = tx.one(
            f"SELECT COUNT(*) FROM {table} WHERE {name} IN ({placeholders(len(page))}){where}",
            (*page, *more),
        )
        total += int(row[0]) if row else 0
    return total


def _in_shared_mailboxes(tx: ReadTransaction, targets: Targets) -> int:
    own = frozenset(targets.lanes)
    found = 0
    for page in pages(targets.ids):
        rows = tx.all(
            f"SELECT lanes.id, lanes.platform FROM mailbox "
            f"JOIN lanes ON lanes.id = mailbox.lane_id "
            f"WHERE mailbox.sender IN ({placeholders(len(page))})",
            page,
        )
        wanted = targets.subject.platform
        found += sum(lane not in own and wanted in (None, platform) for lane, platform in rows)
    return found
