"""Recomputes derived columns of sessions that other programs changed.

Programs that know only the documented columns leave derived ones stale; triggers note the sessions
they change (see `change_notes`). This module recomputes the columns by the rules of the store's own
writes.

A note is read before the rows it is about and deleted in the transaction that acts on it; a change
that commits later adds its own note. On servers, a family is settled only if no other transaction
locks one of its rows: waiting for one lock while holding others could deadlock.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice
from typing import Final, NamedTuple, TypeVar

from hermes_sessions.errors import ConversationHeld, StatementRefused
from hermes_sessions.model.lineage import COMPRESSION, documented_edge_kind
from hermes_sessions.storage.codec import from_json
from hermes_sessions.storage.logs import Logger
from hermes_sessions.storage.provider import (
    ReadTransaction,
    Row,
    WriteTransaction,
    placeholders,
)
from hermes_sessions.storage.repositories.attachments import refresh_references
from hermes_sessions.storage.repositories.lineage import Tie, join_families, place_family
from hermes_sessions.storage.repositories.messages import refresh_derived, refresh_thread
from hermes_sessions.storage.repositories.rows import THREAD_COLUMNS, names
from hermes_sessions.storage.store_context import StoreContext

logger = Logger(__name__)

T = TypeVar("T")

#: Sessions per transaction; other writers get their turn in between.
_BATCH: Final = 100
_CHUNK: Final = 500
#: The layout whose rules derive an edge kind from documented columns.
_DOCUMENTED: Final = 11


def settle(
    store: StoreContext,
    *,
    limit: int | None = None,
    patience: float | None = None,
    step_seconds: float = math.inf,
) -> None:
    """Recompute the derived columns of up to *limit* noted sessions, all by default, in short
    transactions. *patience* bounds each wait for other writers, *step_seconds* the total wait of
    one transaction.

    Sessions that another writer has locked or leased keep their notes. Notes added meanwhile wait
    for the next call, so that this call ends whatever other programs do.

    Raises:
        StoreUnavailable: the store cannot be written now; finished steps stay committed.
    """
    with store.provider.limit_waits(step_seconds):
        last = _last_note(store)
    handled = after = 0
    while after < last and (limit is None or handled < limit):
        with store.provider.limit_waits(step_seconds):
            with store.provider.read() as tx:
                noted = tx.all(
                    "SELECT seq, session_id FROM stale_sessions WHERE seq > ? AND seq <= ? "
                    "ORDER BY seq LIMIT ?",
                    (after, last, _BATCH),
                )
            if not noted:
                return
            after = noted[-1][0]
            session_ids = list(dict.fromkeys(row[1] for row in noted))
            store.provider.write(_settling(store, session_ids), patience=patience, isolated=False)
        handled += len(noted)


def _last_note(store: StoreContext) -> int:
    """Return the highest note number, or 0 without notes."""

    def highest(tx: ReadTransaction) -> int:
        row = tx.one("SELECT MAX(seq) FROM stale_sessions")
        return row[0] or 0 if row else 0

    try:
        with store.provider.read() as tx:
            return highest(tx)
    except StatementRefused:
        # A write recreates the table if another program dropped it.
        return store.provider.write(highest)


def _settling(store: StoreContext, session_ids: list[str]) -> Callable[[WriteTransaction], None]:
    def work(tx: WriteTransaction) -> None:
        done: set[str] = set()
        for session_id in session_ids:
            if session_id not in done:
                done |= _settle_family(tx, store, session_id, session_ids)

    return work


class _Member(NamedTuple):
    """The columns that relate a session to others."""

    id: str
    parent_id: str | None
    conversation_id: str | None
    chain_id: str | None
    edge_kind: str | None
    started_at: float
    source: str
    model_config: str | None
    end_reason: str | None
    ended_at: float | None
    tip_id: str | None


_Members = dict[str, _Member]
_MEMBER: Final = (
    "SELECT id, parent_session_id, conversation_id, chain_id, edge_kind, started_at, source, "
    "model_config, end_reason, ended_at, tip_id FROM sessions"
)


def _settle_family(
    tx: WriteTransaction, store: StoreContext, session_id: str, wanted: Collection[str]
) -> set[str]:
    """Settle a session with its whole family; return the members that are in *wanted*."""
    family = _family(tx, session_id)
    if not _locked(tx, store, family):
        return {session_id}
    noted = {session_id} | (family.keys() & set(wanted))
    # Read the notes before the rows: a change in between adds a new note.
    notes = [row[0] for row in _rows(tx, "SELECT seq FROM stale_sessions", "session_id", noted)]
    members = _members(tx, "id", family)
    if _ties(members) != _ties(family):
        return noted  # Another writer was faster; the notes are still there.
    try:
        _place(tx, members, noted)
    except ConversationHeld as error:
        logger.info("a session joins its thread once the lease is released: %s", error)
        notes = []
    affected = sorted(_affected(members, _members(tx, "id", members), noted))
    for member in affected:
        _give_places(tx, member)
        refresh_derived(tx, member)
        refresh_references(tx, store, member)
    if len(members) > 1:
        for member in affected:
            refresh_thread(tx, member)
    for part in _chunks(notes):
        tx.run(f"DELETE FROM stale_sessions WHERE seq IN ({placeholders(len(part))})", part)
    return noted


def _affected(before: _Members, after: _Members, noted: set[str]) -> set[str]:
    """Return the members whose summaries may have changed: noted ones, those that moved to another
    chain, and the tips of their chains, whose activity is that of the whole chain.
    """
    touched = {one for one in after if one in noted or after[one].chain_id != before[one].chain_id}
    chains = {state[one].chain_id for state in (before, after) for one in touched}
    tips = {
        member.tip_id
        for state in (before, after)
        for member in state.values()
        if member.tip_id in after and member.chain_id in chains
    }
    return touched | {tip for tip in tips if tip is not None}


def _family(tx: ReadTransaction, session_id: str) -> _Members:
    """Return all sessions related by parents or by the stored conversation id."""
    found: _Members = {}
    looked_at: set[str] = set()
    ids, conversations = {session_id}, set[str]()
    while ids or conversations:
        looked_at |= ids | conversations
        near = _members(tx, "id", ids) | _members(tx, "parent_session_id", ids)
        near |= _members(tx, "conversation_id", ids | conversations)
        new = [member for one, member in near.items() if one not in found]
        found |= {member.id: member for member in new}
        ids = {one for member in new for one in (member.id, member.parent_id) if one} - looked_at
        conversations = {m.conversation_id for m in new if m.conversation_id} - looked_at
    return found


def _locked(tx: WriteTransaction, store: StoreContext, family: _Members) -> bool:
    """Lock all members until commit; return False if another transaction has locked one of them."""
    for_update = store.provider.dialect.for_update
    if not for_update:
        return True
    locking = f"{for_update} SKIP LOCKED"
    locked = _rows(tx, "SELECT id FROM sessions", "id", sorted(family), locking)
    return len(locked) == len(family)


def _ties(members: _Members) -> set[tuple[str | None, ...]]:
    return {(m.id, m.parent_id, m.conversation_id) for m in members.values()}


def _members(tx: ReadTransaction, column: str, values: Collection[str]) -> _Members:
    return {row[0]: _Member(*row) for row in _rows(tx, _MEMBER, column, values)}


def _rows(
    tx: ReadTransaction, select: str, column: str, values: Collection[str], end: str = ""
) -> list[Row]:
    return [
        row
        for part in _chunks(values)
        for row in tx.all(f"{select} WHERE {column} IN ({placeholders(len(part))}){end}", part)
    ]


def _chunks(values: Iterable[T]) -> Iterator[list[T]]:
    rest = iter(values)
    while part := list(islice(rest, _CHUNK)):
        yield part


def _give_places(tx: WriteTransaction, session_id: str) -> None:
    """Append messages without an ordinal to the end of the session, in the order of their ids."""
    unplaced = tx.all(
        "SELECT id FROM messages WHERE session_id = ? AND ordinal IS NULL ORDER BY id",
        (session_id,),
    )
    if not unplaced:
        return
    row = tx.one("SELECT next_ordinal FROM sessions WHERE id = ?", (session_id,))
    first = row[0] if row else 1
    tx.run_many(
        "UPDATE messages SET ordinal = ? WHERE id = ?",
        [(first + number, message_id) for number, (message_id,) in enumerate(unplaced)],
    )
    tx.run("UPDATE sessions SET next_ordinal = ? WHERE id = ?", (first + len(unplaced), session_id))


# ── lineage ───────────────────────────────────────────────────────────────────────────────────


def _place(tx: WriteTransaction, members: _Members, noted: set[str]) -> None:
    """Derive edge kinds, then recompute conversations, chains and lists."""
    if len(members) == 1 and all(_is_alone(member) for member in members.values()):
        place_family(tx, next(iter(members)))
        return
    for member in members.values():
        parent = members.get(member.parent_id or "")
        if parent is not None and (member.id in noted or parent.id in noted):
            _tell_edge(tx, member, parent)
    ties = {one: Tie(m.parent_id, m.conversation_id, m.started_at) for one, m in members.items()}
    for cut in join_families(tx, ties):
        logger.warning("session %s was its own ancestor; removed its parent", cut)


def _is_alone(member: _Member) -> bool:
    return member.parent_id is None and member.conversation_id == member.id


def _tell_edge(tx: WriteTransaction, member: _Member, parent: _Member) -> None:
    kind = member.edge_kind
    if kind is None:
        config = from_json(member.model_config, None)
        kind = documented_edge_kind(
            config=config if isinstance(config, dict) else None,
            source=member.source,
            started_at=member.started_at,
            parent_end_reason=parent.end_reason,
            parent_ended_at=parent.ended_at,
            schema_version=_DOCUMENTED,
        )
        if kind is None:
            return
        tx.run("UPDATE sessions SET edge_kind = ? WHERE id = ?", (kind, member.id))
    if kind == COMPRESSION and member.chain_id == member.id:
        thread = tx.one(f"SELECT {names(THREAD_COLUMNS)} FROM sessions WHERE id = ?", (parent.id,))
        if thread is not None:
            filled = ", ".join(f"{name} = COALESCE({name}, ?)" for name in THREAD_COLUMNS)
            tx.run(f"UPDATE sessions SET {filled} WHERE id = ?", (*thread, member.id))
