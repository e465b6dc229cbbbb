"""Erase the found targets from the database, in short idempotent transactions.

A lane is closed first, in one transaction: a process that runs a turn on it is fenced off, and
later messages start a new session. Its sessions are hidden next, so that no writer adds to them,
and then deleted in steps. Repeating a step does no harm.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from functools import partial
from typing import Any, Final

from hermes_sessions.errors import HermesSessionsError, UnknownSession
from hermes_sessions.storage.care.erasure.discovery import column, count_state, pages
from hermes_sessions.storage.care.erasure.receipts import ErasureStep
from hermes_sessions.storage.care.erasure.shared_rooms import erase_in_room, erase_received
from hermes_sessions.storage.care.erasure.targets import ErasureTargets
from hermes_sessions.storage.codec import from_json, to_json
from hermes_sessions.storage.provider import WriteTransaction, placeholders
from hermes_sessions.storage.repositories.blobs import Blobs
from hermes_sessions.storage.repositories.deletion import Deletion, detach_children
from hermes_sessions.storage.repositories.derived_columns import settle
from hermes_sessions.storage.repositories.lanes import NO_SESSION
from hermes_sessions.storage.repositories.leases import free_chain, lock_lease
from hermes_sessions.storage.repositories.lineage import place_family
from hermes_sessions.storage.repositories.state_documents import SESSION, USER
from hermes_sessions.storage.repositories.trash import DELETION_PENDING
from hermes_sessions.storage.search.index_maintenance import IndexMaintenance
from hermes_sessions.storage.store_context import StoreContext

# Removing all traces of deleted rows from the search index and the store's files.


INDEX = "search index"
FILES = "store files"


def scrub(store: StoreContext, *, rebuild: bool = False) -> list[ErasureStep]:
    """Remove deleted data from the index and the files, as far as possible now; return both steps.

    Never raises because of other processes: the step is then pending.
    """
    with store.provider.leaving_no_trace():
        return [_index(store), _files(store, rebuild=rebuild)]


def _index(store: StoreContext) -> ErasureStep:
    index = store.provider.search_index
    try:
        maintenance = IndexMaintenance(store, index)
        maintenance.catch_up()
        is_compact = maintenance.compact()
        with store.provider.read() as tx:
            is_done = is_compact and maintenance.lag(tx).complete
    except HermesSessionsError as error:
        return ErasureStep(INDEX, "pending", why=str(error))
    if not is_done:
        why = "The search index could not be updated, because other processes write to it."
        return ErasureStep(INDEX, "pending", why=why)
    return ErasureStep(INDEX)


def _files(store: StoreContext, *, rebuild: bool) -> ErasureStep:
    try:
        remains = store.provider.scrub(rebuild=rebuild)
    except HermesSessionsError as error:
        return ErasureStep(FILES, "pending", why=str(error))
    if remains:
        return ErasureStep(FILES, "pending", why=" ".join(found.why for found in remains))
    return ErasureStep(FILES, why=store.provider.keeps)


Counts = Counter[str]

#: Sessions hidden in one transaction.
_AT_ONCE: Final = 50
#: Separates the parts of a key in an import ledger.
_BETWEEN: Final = "\x1f"
_IMPORTED: Final = "sessions_json_imported:"


def remove(store: StoreContext, targets: ErasureTargets) -> Counts:
    """Erase all *targets* from the database; return how many rows by kind were erased now."""
    write = store.provider.write
    removed: Counts = Counter()
    for lane_id in targets.lanes:
        removed += write(partial(_close_lane, store=store, lane_id=lane_id), isolated=False)
    for start in range(0, len(targets.session_ids), _AT_ONCE):
        part = targets.session_ids[start : start + _AT_ONCE]
        removed += write(
            partial(_mark_for_deletion, store=store, session_ids=part, targets=targets),
            isolated=False,
        )
    Deletion(store).finish_pending_deletions()
    if targets.subject.kind == "user":
        removed += write(partial(erase_received, store=store, targets=targets))
        removed += _in_rooms(store, targets)
        removed += write(partial(_of_person, targets=targets))
    if targets.are_of_people:
        removed += write(partial(_of_chats, targets=targets))
    removed += write(partial(_delete_foreign_rows, targets=targets))
    removed["blobs"] += _blobs(store, targets)
    return removed


def _blobs(store: StoreContext, targets: ErasureTargets) -> int:
    """Remove the blobs that only the erased messages needed."""
    settle(store)
    blobs = Blobs(store)
    sessions = [*targets.session_ids, *targets.rooms]
    return blobs.sweep_sessions(sessions, at_once=True)["removed"] + blobs.sweep()["removed"]


def fence_off(tx: WriteTransaction, store: StoreContext, session_id: str) -> None:
    """Take the session's chain from its lease holder, whose later writes are refused."""
    try:
        chain, _ = lock_lease(tx, store, session_id)
    except UnknownSession:
        return  # In the trash, where no process writes, or deleted.
    free_chain(tx, chain)


def _close_lane(tx: WriteTransaction, store: StoreContext, lane_id: int) -> Counts:
    for_update = store.provider.dialect.for_update
    row = tx.one(f"SELECT session_id FROM lanes WHERE id = ?{for_update}", (lane_id,))
    if row is None:
        return Counter()
    if row[0] != NO_SESSION:
        fence_off(tx, store, row[0])
    removed: Counts = Counter()
    for table in ("outbox", "mailbox", "turns", "lane_transitions"):
        removed[table] += tx.run(f"DELETE FROM {table} WHERE lane_id = ?", (lane_id,))
    removed["lanes"] += tx.run("DELETE FROM lanes WHERE id = ?", (lane_id,))
    return removed


def _mark_for_deletion(
    tx: WriteTransaction, store: StoreContext, session_ids: Iterable[str], targets: ErasureTargets
) -> Counts:
    """Begin to delete existing sessions, even leased ones.

    Others may write meanwhile, so the leases are locked before anything is read: a continuation
    created since the discovery is then visible, and no further one can be created.
    """
    there: list[str] = column(tx, "SELECT id FROM sessions WHERE id IN ({})", session_ids)
    removed: Counts = Counter()
    for session_id in there:
        fence_off(tx, store, session_id)
        there += _children_created_since(tx, session_id, {*there, *targets.session_ids}, targets)
    for session_id in there:
        removed["messages"] += _number(tx, "messages", session_id)
        removed["state_documents"] += count_state(tx, SESSION, [session_id])
    families = column(tx, "SELECT DISTINCT conversation_id FROM sessions WHERE id IN ({})", there)
    for session_id in there:
        removed += _leave_lanes(tx, session_id)
        removed["sessions"] += tx.run(
            "UPDATE sessions SET trashed_at = ?, title = NULL, trashed_title = NULL WHERE id = ?",
            (DELETION_PENDING, session_id),
        )
        detach_children(tx, session_id, {*there, *targets.session_ids})
    for conversation_id in families:
        if conversation_id is not None:
            place_family(tx, conversation_id)
    return removed


def _children_created_since(
    tx: WriteTransaction, session_id: str, known: set[str], targets: ErasureTargets
) -> list[str]:
    """Return the children of a session that were created after the discovery."""
    rows = tx.all("SELECT id, user_id FROM sessions WHERE parent_session_id = ?", (session_id,))
    is_person = targets.subject.kind == "user"
    return [
        child
        for child, owner in rows
        if child not in known and not (is_person and owner not in (None, *targets.ids))
    ]


def _leave_lanes(tx: WriteTransaction, session_id: str) -> Counts:
    """Remove all references to an erased session from lanes that stay."""
    removed: Counts = Counter()
    turns = [
        row[0]
        for row in tx.all(
            "SELECT id FROM turns WHERE session_id = ? OR chain_id = ?", (session_id, session_id)
        )
    ]
    for page in pages(turns):
        marks = placeholders(len(page))
        for table in ("outbox", "mailbox"):
            removed[table] += tx.run(f"DELETE FROM {table} WHERE turn_id IN ({marks})", page)
        removed["turns"] += tx.run(f"DELETE FROM turns WHERE id IN ({marks})", page)
    removed["lane_transitions"] += tx.run(
        "DELETE FROM lane_transitions WHERE from_session_id = ? OR to_session_id = ?",
        (session_id, session_id),
    )
    tx.run(
        "UPDATE lanes SET session_id = ?, notice = NULL WHERE session_id = ?",
        (NO_SESSION, session_id),
    )
    return removed


def _in_rooms(store: StoreContext, targets: ErasureTargets) -> Counts:
    removed: Counts = Counter()
    with store.provider.read() as tx:
        families = column(
            tx, "SELECT DISTINCT conversation_id FROM sessions WHERE id IN ({})", targets.rooms
        )
    for conversation_id in families:
        if conversation_id is not None:
            removed += store.provider.write(
                partial(
                    erase_in_room, store=store, conversation_id=conversation_id, targets=targets
                )
            )
    return removed


def _of_person(tx: WriteTransaction, targets: ErasureTargets) -> Counts:
    """Delete the records about a user."""
    removed: Counts = Counter()
    where, platform = _on_platform(targets)
    for page in pages(targets.ids):
        marks = placeholders(len(page))
        removed["senders"] += tx.run(
            f"DELETE FROM senders WHERE sender_id IN ({marks}) AND created_at <= ?{where}",
            (*page, targets.requested_at, *platform),
        )
        removed["identities"] += tx.run(
            f"DELETE FROM identities WHERE (alias IN ({marks}) OR canonical IN ({marks})) "
            f"AND decided_at <= ?{where}",
            (*page, *page, targets.requested_at, *platform),
        )
        # Frameworks name users without a platform.
        removed["state_documents"] += tx.run(
            f"DELETE FROM state_documents WHERE scope = ? AND owner IN ({marks}) "
            f"AND updated_at <= ?",
            (USER, *page, targets.requested_at),
        )
        if targets.subject.platform in (None, "telegram"):
            removed["topics"] += _topics(tx, "user_id", page, targets)
    where = where.replace("AND", "WHERE")
    for lane_id, text in tx.all(f"SELECT id, origin FROM lanes{where}", platform):
        # The user who started a room is removed from it; the reply address stays.
        origin = without_person(from_json(text, None), targets)
        if origin is not None:
            tx.run("UPDATE lanes SET origin = ? WHERE id = ?", (to_json(origin), lane_id))
    return removed


def without_person(origin: Any, targets: ErasureTargets) -> dict[str, Any] | None:
    """Return a source without the erased user; None if it does not contain them."""
    if not isinstance(origin, dict):
        return None
    people = {str(origin[name]) for name in ("user_id", "user_id_alt") if origin.get(name)}
    if not people & set(targets.ids):
        return None
    return {**origin, "user_id": None, "user_name": None, "user_id_alt": None}


def _of_chats(tx: WriteTransaction, targets: ErasureTargets) -> Counts:
    """Delete data of a chat outside its lanes."""
    removed: Counts = Counter()
    if targets.subject.platform in (None, "telegram"):
        for page in pages(targets.chat_ids):
            removed["topics"] += _topics(tx, "chat_id", page, targets)
    chats = frozenset(targets.chat_ids)
    where, platform = _on_platform(targets)
    for number, target in tx.all(
        f"SELECT id, target FROM outbox WHERE created_at <= ?{where}",
        (targets.requested_at, *platform),
    ):
        said = from_json(target, {})
        if isinstance(said, dict) and str(said.get("chat_id")) in chats:
            removed["outbox"] += tx.run("DELETE FROM outbox WHERE id = ?", (number,))
    return removed


def _topics(tx: WriteTransaction, name: str, page: list[str], targets: ErasureTargets) -> int:
    marks = placeholders(len(page))
    return sum(
        tx.run(
            f"DELETE FROM {table} WHERE {name} IN ({marks}) AND {since} <= ?",
            (*page, targets.requested_at),
        )
        for table, since in (("topics", "linked_at"), ("topic_modes", "activated_at"))
    )


def _delete_foreign_rows(tx: WriteTransaction, targets: ErasureTargets) -> Counts:
    """Delete imported foreign rows that mention the targets."""
    wanted = frozenset((*targets.session_ids, *targets.ids, *targets.session_keys))
    gone = [
        number
        for number, key, row in tx.all('SELECT id, row_key, "row" FROM foreign_rows')
        if wanted & {key, *key.split(_BETWEEN)} or mentions(row, wanted)
    ]
    removed: Counts = Counter()
    for page in pages(gone):
        marks = placeholders(len(page))
        removed["foreign_rows"] += tx.run(f"DELETE FROM foreign_rows WHERE id IN ({marks})", page)
    for lane_id, notice in tx.all("SELECT id, notice FROM lanes WHERE notice IS NOT NULL"):
        if mentions(notice, wanted):
            tx.run("UPDATE lanes SET notice = NULL WHERE id = ?", (lane_id,))
    for key, value in tx.all('SELECT "key", value FROM state_meta'):
        remembered = from_json(value, {}) if key.startswith(_IMPORTED) else {}
        kept = remembered.get("kept") if isinstance(remembered, dict) else None
        if not isinstance(kept, dict):
            continue
        stays = {n: v for n, v in kept.items() if n not in wanted and not mentions(v, wanted)}
        if len(stays) < len(kept):
            removed["state_meta"] += len(kept) - len(stays)
            tx.run(
                'UPDATE state_meta SET value = ? WHERE "key" = ?',
                (to_json({**remembered, "kept": stays}), key),
            )
    return removed


def mentions(value: Any, wanted: frozenset[str]) -> bool:
    """Tell whether a value, or JSON, contains one of these texts as a whole value."""
    if isinstance(value, str):
        if value in wanted:
            return True
        try:
            found = json.loads(value) if value[:1] in "[{" and value else None
        except (ValueError, RecursionError):
            return False
        return found is not None and mentions(found, wanted)
    if isinstance(value, dict):
        return any(mentions(part, wanted) for pair in value.items() for part in pair)
    if isinstance(value, list):
        return any(mentions(part, wanted) for part in value)
    return isinstance(value, int) and str(value) in wanted


def _on_platform(targets: ErasureTargets) -> tuple[str, tuple[str, ...]]:
    platform = targets.subject.platform
    return ("", ()) if platform is None else (" AND platform = ?", (platform,))


def _number(tx: WriteTransaction, table: str, session_id: str) -> int:
    row = tx.one(f"SELECT COUNT(*) FROM {table} WHERE session_id = ?", (session_id,))
    return int(row[0]) if row else 0
