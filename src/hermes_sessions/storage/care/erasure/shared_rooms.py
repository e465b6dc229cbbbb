"""Erase one user's messages in a room that several users share.

Their messages are erased with the replies to each: everything up to the next user message. Messages
of others stay, under their ordinals. A summary that includes their messages is erased as well,
because their part cannot be separated; so is a title derived from them.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final, NamedTuple

from hermes_sessions.errors import UnknownSession
from hermes_sessions.model.lineage import COMPRESSION
from hermes_sessions.storage.care.erasure.discovery import column, pages, sessions_of_lane
from hermes_sessions.storage.care.erasure.targets import ErasureTargets
from hermes_sessions.storage.provider import ReadTransaction, WriteTransaction, placeholders
from hermes_sessions.storage.repositories.identities import Author, note_author, stored_author
from hermes_sessions.storage.repositories.leases import free_chain, lock_lease
from hermes_sessions.storage.repositories.messages import refresh_summary
from hermes_sessions.storage.store_context import StoreContext

Counts = Counter[str]

#: The prefix of the external id of a message from the mailbox.
_MARK: Final = "mailbox:"


class _Member(NamedTuple):
    """A session of the room's conversation."""

    id: str
    parent_id: str | None
    edge_kind: str | None


# Received messages


def erase_received(tx: WriteTransaction, store: StoreContext, targets: ErasureTargets) -> Counts:
    """Delete messages that a user sent to shared lanes, and the replies. A turn that is answering
    one is fenced off; messages of others in it wait for the next turn.

    The author is recorded beside the stored messages first, because otherwise only the mailbox has
    it.
    """
    removed: Counts = Counter()
    items = _items(tx, targets)
    sessions = {lane_id: sessions_of_lane(tx, lane_id) for _, lane_id, _, _ in items}
    for number, lane_id, turn_id, status in items:
        _note_author(tx, store, f"{_MARK}{number}", lane_id, sessions[lane_id], targets)
        if turn_id is not None:
            if status == "running":
                _end_turn(tx, store, turn_id, targets.requested_at)
            removed["outbox"] += tx.run("DELETE FROM outbox WHERE turn_id = ?", (turn_id,))
            # An error may quote the message.
            tx.run("UPDATE turns SET detail = NULL WHERE id = ?", (turn_id,))
        removed["mailbox"] += tx.run("DELETE FROM mailbox WHERE id = ?", (number,))
    return removed


def _items(tx: ReadTransaction, targets: ErasureTargets) -> list[Any]:
    platform = targets.subject.platform
    where, params = ("", ()) if platform is None else (" AND lanes.platform = ?", (platform,))
    found: list[Any] = []
    for page in pages(targets.ids):
        found += tx.all(
            f"SELECT mailbox.id, mailbox.lane_id, mailbox.turn_id, mailbox.status FROM mailbox "
            f"JOIN lanes ON lanes.id = mailbox.lane_id "
            f"WHERE mailbox.sender IN ({placeholders(len(page))}) AND mailbox.received_at <= ?"
            f"{where}",
            (*page, targets.requested_at, *params),
        )
    return found


def _note_author(
    tx: WriteTransaction,
    store: StoreContext,
    mark: str,
    lane_id: int,
    sessions: list[str],
    targets: ErasureTargets,
) -> None:
    row = tx.one("SELECT platform FROM lanes WHERE id = ?", (lane_id,))
    found = column(
        tx,
        "SELECT session_id FROM messages WHERE session_id IN ({}) AND external_id = ?",
        sessions,
        mark,
    )
    if row is not None:
        for session_id in found:
            note_author(tx, store, Author(session_id, mark, row[0], targets.ids[0]))


def _end_turn(tx: WriteTransaction, store: StoreContext, turn_id: int, now: float) -> None:
    row = tx.one("SELECT session_id FROM turns WHERE id = ? AND ended_at IS NULL", (turn_id,))
    if row is None:
        return
    try:
        chain, _ = lock_lease(tx, store, row[0])
        free_chain(tx, chain)
    except UnknownSession:
        pass
    tx.run(
        "UPDATE turns SET ended_at = ?, outcome = ?, detail = NULL WHERE id = ?",
        (now, "abandoned", turn_id),
    )
    tx.run(
        "UPDATE mailbox SET status = ?, turn_id = NULL WHERE turn_id = ? AND status = ?",
        ("waiting", turn_id, "running"),
    )


# Stored messages


def erase_in_room(
    tx: WriteTransaction, store: StoreContext, conversation_id: str, targets: ErasureTargets
) -> Counts:
    """Erase a user's messages in all sessions of a shared conversation."""
    del store
    members = [
        _Member(*row)
        for row in tx.all(
            "SELECT id, parent_session_id, edge_kind FROM sessions WHERE conversation_id = ? "
            "ORDER BY started_at, id",
            (conversation_id,),
        )
        if row[0] in targets.rooms
    ]
    marks = {member.id: _marks(tx, member.id, targets) for member in members}
    # A continuation copies the last messages without their authors.
    texts = {
        text
        for member in members
        for text in _texts(tx, member.id, marks[member.id])
        if text is not None
    }
    removed: Counts = Counter()
    touched: set[str] = set()
    for member in members:
        is_summarised = member.edge_kind == COMPRESSION and member.parent_id in touched
        found = _erase(tx, member, marks[member.id], texts, has_summary=is_summarised)
        if found or is_summarised:
            touched.add(member.id)
        removed["messages"] += found
    return removed


def _marks(tx: ReadTransaction, session_id: str, targets: ErasureTargets) -> set[str]:
    platform = targets.subject.platform
    where, params = ("", ()) if platform is None else (" AND platform = ?", (platform,))
    return set(
        column(
            tx,
            f"SELECT external_id FROM authors WHERE author IN ({{}}) AND session_id = ?{where}",
            map(stored_author, targets.ids),
            session_id,
            *params,
        )
    )


def _texts(tx: ReadTransaction, session_id: str, marks: set[str]) -> list[str | None]:
    return column(
        tx,
        "SELECT content FROM messages WHERE external_id IN ({}) AND session_id = ?",
        marks,
        session_id,
    )


def _copies(tx: ReadTransaction, member: _Member, texts: set[str]) -> set[int]:
    """Return the messages that a session copied from its predecessor."""
    if member.parent_id is None or not texts:
        return set()
    rows = tx.stream(
        "SELECT id, content FROM messages "
        "WHERE session_id = ? AND role = ? AND external_id IS NULL",
        (member.id, "user"),
    )
    return {number for number, content in rows if content in texts}


def _erase(
    tx: WriteTransaction, member: _Member, marks: set[str], texts: set[str], *, has_summary: bool
) -> int:
    gone: list[int] = []
    is_theirs = is_first = False
    was_asked = False
    copies = _copies(tx, member, texts)
    for position, (number, role, external_id) in enumerate(
        tx.all(
            "SELECT id, role, external_id FROM messages WHERE session_id = ? ORDER BY ordinal",
            (member.id,),
        )
    ):
        if position == 0 and has_summary:
            gone.append(number)
            continue
        if role == "user":
            is_theirs = external_id in marks or number in copies
            is_first = is_first or (is_theirs and not was_asked)
            was_asked = True
        if is_theirs:
            gone.append(number)
    for page in pages(gone):
        tx.run(f"DELETE FROM messages WHERE id IN ({placeholders(len(page))})", page)
    for page in pages(marks):
        tx.run(
            f"DELETE FROM authors WHERE session_id = ? "
            f"AND external_id IN ({placeholders(len(page))})",
            (member.id, *page),
        )
    if is_first or has_summary:
        tx.run("UPDATE sessions SET title = NULL, trashed_title = NULL WHERE id = ?", (member.id,))
    if gone:
        refresh_summary(tx, member.id)
    return len(gone)
