"""Find all data of a user, a chat or a session in a store.

A session that belongs to one user is erased as a whole, with every session of its lineage that
belongs to no other user. In a room shared by several users, only the user's messages and the
replies to them are erased.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from hermes_sessions.model.lane import normalise_identifier
from hermes_sessions.storage.care.erasure.targets import ErasureSubject, ErasureTargets
from hermes_sessions.storage.provider import ReadTransaction, placeholders
from hermes_sessions.storage.repositories.identities import stored_author
from hermes_sessions.storage.repositories.state_documents import SESSION, USER

# Counting the rows that would be erased, for a preview.


_BY_SESSION: Final = ("messages",)
_BY_LANE: Final = ("mailbox", "outbox")


def count_rows(tx: ReadTransaction, targets: ErasureTargets) -> dict[str, int]:
    """Return how many rows would be erased, by kinds that users know."""
    counts: Counter[str] = Counter()
    counts["sessions"] = _count(tx, "sessions", "id", targets.session_ids)
    counts["lanes"] = _count(tx, "lanes", "id", targets.lanes)
    for table in _BY_SESSION:
        counts[table] += _count(tx, table, "session_id", targets.session_ids)
    counts["state_documents"] += count_state(tx, SESSION, targets.session_ids)
    for table in _BY_LANE:
        counts[table] += _count(tx, table, "lane_id", targets.lanes)
    if targets.subject.kind == "user":
        for table, name in (("senders", "sender_id"), ("identities", "alias")):
            counts[table] += _count(tx, table, name, targets.ids, targets.subject.platform)
        counts["state_documents"] += count_state(tx, USER, targets.ids)
        counts["messages in shared rooms"] += _count(
            tx, "authors", "author", map(stored_author, targets.ids), targets.subject.platform
        )
        counts["mailbox"] += _in_shared_mailboxes(tx, targets)
    if targets.are_of_people and targets.subject.platform in (None, "telegram"):
        name = "chat_id" if targets.subject.kind == "chat" else "user_id"
        counts["topics"] += _count(tx, "topic_modes", name, targets.ids)
    return {what: number for what, number in counts.items() if number}


def count_state(tx: ReadTransaction, scope: str, owners: Iterable[str]) -> int:
    """Return how many state documents these sessions or users have."""
    total = 0
    for page in pages(owners):
        row = tx.one(
            f"SELECT COUNT(*) FROM state_documents WHERE scope = ? "
            f"AND owner IN ({placeholders(len(page))})",
            (scope, *page),
        )
        total += int(row[0]) if row else 0
    return total


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


def _in_shared_mailboxes(tx: ReadTransaction, targets: ErasureTargets) -> int:
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


#: Ids per query.
PAGE: Final = 500
_LANE_COLUMNS: Final = (
    "id",
    "platform",
    "chat_type",
    "chat_id",
    "participant_id",
    "session_key",
    "session_id",
    "origin",
)


class _Lane(NamedTuple):
    """The needed columns of a lane, and the ids in its origin."""

    id: int
    platform: str
    chat_type: str
    chat_id: str | None
    participant_id: str | None
    session_key: str
    session_id: str
    people: frozenset[str]
    chats: frozenset[str]

    @property
    def is_shared(self) -> bool:
        return self.chat_type != "dm" and not self.participant_id


def find(tx: ReadTransaction, subject: ErasureSubject, now: float) -> ErasureTargets:
    """Return everything to erase, as of now."""
    subject.checked()
    if subject.kind == "session":
        return _of_session(tx, subject, now)
    on_platform = (
        ("", ()) if subject.platform is None else (" WHERE platform = ?", (subject.platform,))
    )
    lanes = list(_lanes(tx, on_platform[0], *on_platform[1]))
    return (_of_user if subject.kind == "user" else _of_chat)(tx, subject, now, lanes)


def pages(values: Iterable[Any]) -> Iterator[list[Any]]:
    """Yield the values in parts that fit into one statement."""
    waiting = list(values)
    for start in range(0, len(waiting), PAGE):
        yield waiting[start : start + PAGE]


def column(tx: ReadTransaction, sql: str, values: Iterable[Any], *more: Any) -> list[Any]:
    """Return the first column of all rows; ``{}`` in *sql* is replaced by the list of *values*."""
    return [
        row[0]
        for page in pages(values)
        for row in tx.all(sql.format(placeholders(len(page))), (*page, *more))
    ]


# Sessions


def _of_session(tx: ReadTransaction, subject: ErasureSubject, now: float) -> ErasureTargets:
    row = tx.one("SELECT conversation_id, source FROM sessions WHERE id = ?", (subject.id,))
    if row is None:
        return ErasureTargets(subject=subject, requested_at=now)
    members = [] if row[0] is None else _members(tx, [row[0]])
    return ErasureTargets(
        subject=subject,
        requested_at=now,
        platforms=(row[1],),
        session_ids=_sorted([subject.id, *(member for member, _ in members)]),
    )


def _members(tx: ReadTransaction, conversation_ids: Iterable[str]) -> list[tuple[str, str | None]]:
    """Return the sessions of conversations, with their users."""
    found: list[tuple[str, str | None]] = []
    for page in pages(conversation_ids):
        marks = placeholders(len(page))
        rows = tx.all(f"SELECT id, user_id FROM sessions WHERE conversation_id IN ({marks})", page)
        found += [(row[0], row[1]) for row in rows]
    return found


def _families(tx: ReadTransaction, session_ids: Sequence[str]) -> list[tuple[str, str | None]]:
    """Return all sessions of the conversations that these belong to."""
    conversations = column(
        tx, "SELECT DISTINCT conversation_id FROM sessions WHERE id IN ({})", session_ids
    )
    return _members(tx, dict.fromkeys(c for c in conversations if c is not None))


# Lanes


def _lanes(tx: ReadTransaction, where: str = "", *params: object) -> Iterator[_Lane]:
    for row in tx.stream(f"SELECT {', '.join(_LANE_COLUMNS)} FROM lanes{where}", params):
        *plain, origin = row
        said = _origin(origin)
        people = frozenset(_texts(said, "user_id", "user_id_alt"))
        chats = frozenset(_texts(said, "chat_id", "chat_id_alt"))
        yield _Lane(*(*plain, people, chats))


def _origin(text: str | None) -> dict[str, Any]:
    try:
        found = json.loads(text) if text else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _texts(values: dict[str, Any], *names: str) -> list[str]:
    return [str(value) for name in names if (value := values.get(name))]


def sessions_of_lane(tx: ReadTransaction, lane_id: int) -> list[str]:
    """Return all sessions of the conversations that a lane points or pointed at."""
    lanes = _lanes(tx, " WHERE id = ?", lane_id)
    return [session_id for session_id, _ in _families(tx, _sessions_of(tx, list(lanes)))]


def _sessions_of(tx: ReadTransaction, lanes: Sequence[_Lane]) -> list[str]:
    """Return the sessions that lanes point or pointed at."""
    found = dict.fromkeys(lane.session_id for lane in lanes if lane.session_id)
    for name in ("from_session_id", "to_session_id"):
        past = column(
            tx,
            f"SELECT DISTINCT {name} FROM lane_transitions WHERE lane_id IN ({{}})",
            [lane.id for lane in lanes],
        )
        found |= dict.fromkeys(session_id for session_id in past if session_id)
    return list(found)


# A chat


def _of_chat(
    tx: ReadTransaction, subject: ErasureSubject, now: float, lanes: list[_Lane]
) -> ErasureTargets:
    ids = frozenset({subject.id})
    meant = [lane for lane in lanes if lane.chat_id in ids or lane.chats & ids]
    ids |= {chat for lane in meant for chat in (*lane.chats, lane.chat_id) if chat}
    sessions = _sessions_of(tx, meant)
    bound = column(tx, "SELECT session_id FROM topics WHERE chat_id IN ({})", ids)
    if subject.platform not in (None, "telegram"):
        bound = []
    family = _families(tx, [*sessions, *bound])
    return ErasureTargets(
        subject=subject,
        requested_at=now,
        ids=_sorted(ids),
        chat_ids=_sorted(ids),
        platforms=_sorted({lane.platform for lane in meant} | ({"telegram"} if bound else set())),
        session_ids=_sorted(member for member, _ in family),
        lanes=tuple(sorted(lane.id for lane in meant)),
        session_keys=_sorted(lane.session_key for lane in meant),
    )


# A user


def _of_user(
    tx: ReadTransaction, subject: ErasureSubject, now: float, lanes: list[_Lane]
) -> ErasureTargets:
    ids = _aliases(tx, subject, lanes)
    private = [
        lane
        for lane in lanes
        if lane.participant_id in ids
        or (lane.chat_type == "dm" and (lane.chat_id in ids or lane.people & ids))
    ]
    shared = [lane for lane in lanes if lane.is_shared]
    of_rooms = set(_sessions_of(tx, shared))
    own = _owned(tx, subject, ids)
    found = [s for s in (*_sessions_of(tx, private), *own) if s not in of_rooms]
    family = _families(tx, found)
    is_theirs = frozenset({None, *ids})
    whole = {
        session_id
        for session_id, owner in family
        if owner in is_theirs and session_id not in of_rooms
    }
    rooms = _rooms(tx, subject, ids, shared)
    chats = {
        chat
        for lane in private
        if lane.chat_type == "dm"
        for chat in (lane.chat_id, *lane.chats)
        if chat
    }
    return ErasureTargets(
        subject=subject,
        requested_at=now,
        ids=_sorted(ids),
        chat_ids=_sorted(chats),
        platforms=_sorted(_platforms(tx, subject, ids, private, own, rooms)),
        session_ids=_sorted(whole),
        rooms=_sorted({session_id for session_id, _ in _families(tx, [r for r, _ in rooms])}),
        lanes=tuple(sorted(lane.id for lane in private)),
        session_keys=_sorted(lane.session_key for lane in private),
    )


def _aliases(tx: ReadTransaction, subject: ErasureSubject, lanes: list[_Lane]) -> frozenset[str]:
    """Return all ids of a user: those recorded as theirs, and those that occurred together with one
    of them.
    """
    where, params = (
        ("", ()) if subject.platform is None else ("platform = ? AND ", (subject.platform,))
    )
    ids = {subject.id}
    if subject.platform is not None:
        ids.add(normalise_identifier(subject.platform, subject.id))
    while True:
        known = set(ids)
        for lane in lanes:
            if lane.people & ids:
                ids |= lane.people
        for page in pages(sorted(ids)):
            marks = placeholders(len(page))
            for alias, canonical in tx.all(
                f"SELECT alias, canonical FROM identities WHERE {where}"
                f"(alias IN ({marks}) OR canonical IN ({marks}))",
                (*params, *page, *page),
            ):
                ids |= {alias, canonical}
        if ids == known:
            return frozenset(ids)


def _owned(tx: ReadTransaction, subject: ErasureSubject, ids: Iterable[str]) -> list[str]:
    if subject.platform is None:
        return column(tx, "SELECT id FROM sessions WHERE user_id IN ({})", ids)
    sql = "SELECT id FROM sessions WHERE user_id IN ({}) AND source = ?"
    return column(tx, sql, ids, subject.platform)


def _rooms(
    tx: ReadTransaction, subject: ErasureSubject, ids: Iterable[str], shared: list[_Lane]
) -> list[tuple[str, str]]:
    """Return the shared sessions in which the user wrote, with the platform."""
    rooms: dict[str, str] = {}
    for page in pages(map(stored_author, ids)):
        rows = tx.all(
            f"SELECT DISTINCT session_id, platform FROM authors "
            f"WHERE author IN ({placeholders(len(page))})",
            page,
        )
        rooms |= {row[0]: row[1] for row in rows if subject.platform in (None, row[1])}
    # Messages received before authors were recorded: as long as the mailbox remembers.
    by_number = {lane.id: lane for lane in shared}
    for page in pages(ids):
        rows = tx.all(
            f"SELECT DISTINCT lane_id FROM mailbox WHERE sender IN ({placeholders(len(page))})",
            page,
        )
        lanes = [by_number[row[0]] for row in rows if row[0] in by_number]
        for lane in lanes:
            rooms |= dict.fromkeys(_sessions_of(tx, [lane]), lane.platform)
    return list(rooms.items())


def _platforms(
    tx: ReadTransaction,
    subject: ErasureSubject,
    ids: Iterable[str],
    private: list[_Lane],
    own: Sequence[str],
    rooms: list[tuple[str, str]],
) -> set[str]:
    found = {lane.platform for lane in private} | {platform for _, platform in rooms}
    found |= set(column(tx, "SELECT DISTINCT source FROM sessions WHERE id IN ({})", own))
    for table, name in (("senders", "sender_id"), ("identities", "alias")):
        found |= set(
            column(tx, f"SELECT DISTINCT platform FROM {table} WHERE {name} IN ({{}})", ids)
        )
    return found if subject.platform is None else found & {subject.platform}


def _sorted(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(values)))
