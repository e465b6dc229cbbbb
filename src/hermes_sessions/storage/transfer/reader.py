"""Reading whole sessions in pieces that fit into memory and into one transaction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from hermes_sessions.storage.provider import (
    ReadTransaction,
    Row,
    SessionDBProvider,
    placeholders,
)
from hermes_sessions.storage.tables import MESSAGES, REWINDS, SESSIONS, USAGE, Table
from hermes_sessions.storage.transfer.checksums import Checksum, SessionChecksum, typed_rows

#: Sessions that are looked at together.
PAGE: Final = 100
#: Messages, and characters of them, in one piece.
_PIECE: Final = 1000
_PIECE_CHARACTERS: Final = 2_000_000
_TIMES: Final = [column.name for column in SESSIONS.created_with() if column.holds == "time"]
_SESSION_ID: Final = [column.name for column in MESSAGES.copied].index("session_id")


class Piece(NamedTuple):
    """Rows of one session: the first piece has all but messages, the last one the checksum."""

    session_id: str
    messages: list[Row]
    session: Row | None = None
    usage: Sequence[Row] = ()
    rewinds: Sequence[Row] = ()
    checksum: Checksum | None = None
    #: How long its messages are.
    characters: int = 0


class ChecksummedSession(NamedTuple):
    """What is known of a session that was read."""

    checksum: Checksum
    messages: int


def columns(tx: ReadTransaction, table: Table, names: Sequence[str] | None = None) -> str:
    """Return the columns that are copied, or those of these *names*, for a SELECT. A store that
    waits for the step that adds a column has its default instead.
    """
    wanted = [table.column(name) for name in names] if names is not None else table.copied
    taken: set[str | None] = {None}
    if any(column.since is not None for column in wanted):
        rows = tx.all("SELECT name FROM store_migrations WHERE applied_at > 0")
        taken |= {row[0] for row in rows}
    return ", ".join(
        f'"{column.name}"'
        if column.since in taken
        else f'{"NULL" if column.default is None else column.default} AS "{column.name}"'
        for column in wanted
    )


def ids_page(tx: ReadTransaction, after: str | None, since: float | None) -> list[str]:
    """Return the next session ids, those of the trash included; with *since*, only of sessions
    that were active, started, ended, archived, pinned or trashed at that time or later.
    """
    where, params = _active(since)
    if after is not None:
        where += " AND id > ?"
        params = [*params, after]
    rows = tx.all(f"SELECT id FROM sessions WHERE {where} ORDER BY id LIMIT ?", (*params, PAGE))
    return [row[0] for row in rows]


def count_messages(tx: ReadTransaction, since: float | None = None) -> int:
    """Return how many messages there are, or how many in the sessions of `ids_page`."""
    where, params = _active(since)
    among = f"WHERE session_id IN (SELECT id FROM sessions WHERE {where})" if params else ""
    row = tx.one(f"SELECT COUNT(*) FROM messages {among}", params)
    return int(row[0]) if row else 0


def _active(since: float | None) -> tuple[str, list[str | float]]:
    if since is None:
        return "1 = 1", []
    return f"({' OR '.join(f'{name} >= ?' for name in _TIMES)})", [since] * len(_TIMES)


def pages(provider: SessionDBProvider, since: float | None = None) -> Iterator[list[str]]:
    """Yield all session ids in pages; every page is read in a transaction of its own."""
    after: str | None = None
    while True:
        with provider.read() as tx:
            page = ids_page(tx, after, since)
        if not page:
            return
        yield page
        after = page[-1]


def sessions_among(tx: ReadTransaction, ids: Sequence[str]) -> set[str]:
    """Return those of these sessions that exist."""
    if not ids:
        return set()
    rows = tx.all(f"SELECT id FROM sessions WHERE id IN ({placeholders(len(ids))})", ids)
    return {row[0] for row in rows}


def messages_of(tx: ReadTransaction, ids: Sequence[str]) -> int:
    """Return how many messages these sessions have."""
    if not ids:
        return 0
    marks = placeholders(len(ids))
    row = tx.one(f"SELECT COUNT(*) FROM messages WHERE session_id IN ({marks})", ids)
    return int(row[0]) if row else 0


def count_rows(provider: SessionDBProvider, table: str) -> int:
    """Return how many rows a table has."""
    with provider.read() as tx:
        row = tx.one(f"SELECT COUNT(*) FROM {table}")
    return int(row[0]) if row else 0


def read_pieces(tx: ReadTransaction, ids: Sequence[str]) -> Iterator[Piece]:
    """Yield the pieces of these sessions; one that does not exist has none."""
    if not ids:
        return
    marks = placeholders(len(ids))
    sessions = typed_rows(
        SESSIONS,
        tx.all(
            f"SELECT {columns(tx, SESSIONS)} FROM sessions WHERE id IN ({marks}) ORDER BY id", ids
        ),
    )
    usage = _by_session(tx, USAGE, ids, "route_key")
    rewinds = _by_session(tx, REWINDS, ids, "id")
    stream = tx.stream(
        f"SELECT {columns(tx, MESSAGES)} FROM messages WHERE session_id IN ({marks}) "
        f"ORDER BY session_id, ordinal, id",
        ids,
    )
    # Both are in the order of the same database, so they are walked through side by side.
    groups = groupby(stream, key=lambda row: row[_SESSION_ID])
    group = next(groups, None)
    for session in sessions:
        session_id = session[0]
        summing = SessionChecksum()
        summing.add(SESSIONS, [session])
        summing.add(USAGE, usage.get(session_id, ()))
        summing.add(REWINDS, rewinds.get(session_id, ()))
        piece = Piece(
            session_id,
            [],
            session,
            usage.get(session_id, ()),
            rewinds.get(session_id, ()),
        )
        if group is not None and group[0] == session_id:
            for part, characters, is_last in _parts(group[1]):
                messages = typed_rows(MESSAGES, part)
                summing.add(MESSAGES, messages)
                piece = piece._replace(messages=messages, characters=characters)
                if not is_last:
                    yield piece
                    piece = Piece(session_id, [])
            group = next(groups, None)
        yield piece._replace(checksum=summing.result())


def _parts(rows: Iterator[Row]) -> Iterator[tuple[list[Row], int, bool]]:
    """Cut a stream into parts; say how long each is, and which is the last one."""
    part: list[Row] = []
    weight = 0
    for row in rows:
        if len(part) == _PIECE or weight > _PIECE_CHARACTERS:
            yield part, weight, False
            part, weight = [], 0
        part.append(row)
        weight += sum(len(value) for value in row if isinstance(value, str))
    yield part, weight, True


def _by_session(
    tx: ReadTransaction, table: Table, ids: Sequence[str], order: str
) -> dict[str, list[Row]]:
    number = [column.name for column in table.copied].index("session_id")
    found: dict[str, list[Row]] = {}
    rows = tx.all(
        f"SELECT {columns(tx, table)} FROM {table.name} "
        f"WHERE session_id IN ({placeholders(len(ids))}) ORDER BY session_id, {order}",
        ids,
    )
    for row in typed_rows(table, rows):
        found.setdefault(row[number], []).append(row)
    return found


def checksum_sessions(tx: ReadTransaction, ids: Sequence[str]) -> dict[str, ChecksummedSession]:
    """Return the checksums of those of these sessions that exist."""
    found: dict[str, ChecksummedSession] = {}
    messages = 0
    for piece in read_pieces(tx, ids):
        messages += len(piece.messages)
        if piece.checksum is not None:
            found[piece.session_id] = ChecksummedSession(piece.checksum, messages)
            messages = 0
    return found
