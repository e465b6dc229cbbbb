"""Reads whole sessions in pieces that fit into memory and one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple, TypeVar

from hermes_sessions.storage.provider import (
    ReadTransaction,
    Row,
    SessionDBProvider,
    placeholders,
)
from hermes_sessions.storage.session_copy.checksums import Checksum, SessionChecksum, typed_rows
from hermes_sessions.storage.tables import MESSAGES, REWINDS, SESSIONS, USAGE, Table

#: Sessions per page.
PAGE: Final = 100
#: Limits of one piece: messages, and characters in them.
PIECE_ROWS: Final = 1000
PIECE_CHARACTERS: Final = 2_000_000
#: Limits of what is written in one transaction.
_BATCH_ROWS: Final = 2000
_BATCH_CHARACTERS: Final = 4_000_000
_TIMES: Final = [column.name for column in SESSIONS.created_with() if column.holds == "time"]
_SESSION_ID: Final = MESSAGES.copied_names.index("session_id")


class Piece(NamedTuple):
    """Rows of one session: the first piece has all but messages, the last one the checksum."""

    session_id: str
    messages: list[Row]
    session: Row | None = None
    usage: Sequence[Row] = ()
    rewinds: Sequence[Row] = ()
    checksum: Checksum | None = None
    #: Number of characters in its messages.
    characters: int = 0

    def rows(self) -> Iterator[tuple[Table, Sequence[Row]]]:
        """Yield its rows by table, each after the one it refers to."""
        yield SESSIONS, [self.session] if self.session is not None else []
        yield USAGE, self.usage
        yield REWINDS, self.rewinds
        yield MESSAGES, self.messages


class SideRows(NamedTuple):
    """Rows of a table that belong to no session."""

    table: Table
    side: list[Row]
    characters: int = 0

    @property
    def is_full(self) -> bool:
        """Whether further rows belong to other ones."""
        return len(self.side) >= PIECE_ROWS or self.characters > PIECE_CHARACTERS

    def with_row(self, row: Row) -> SideRows:
        """Add a row, and return the result."""
        self.side.append(row)
        return self._replace(characters=self.characters + characters_in(row))

    def rows(self) -> Iterator[tuple[Table, Sequence[Row]]]:
        """Yield its rows by table."""
        yield self.table, self.side


def characters_in(row: Row) -> int:
    """Return the length of all texts and bytes of a row."""
    return sum(len(value) for value in row if isinstance(value, (str, bytes)))


Part = TypeVar("Part", Piece, Piece | SideRows)


def batches(parts: Iterable[Part]) -> Iterator[list[Part]]:
    """Yield pieces in batches, each for one transaction."""
    batch: list[Part] = []
    weight = characters = 0
    for part in parts:
        if weight >= _BATCH_ROWS or characters >= _BATCH_CHARACTERS:
            yield batch
            batch, weight, characters = [], 0, 0
        batch.append(part)
        weight += sum(len(rows) for _, rows in part.rows())
        characters += part.characters
    if batch:
        yield batch


class ChecksummedSession(NamedTuple):
    """The checksum and size of a session."""

    checksum: Checksum
    messages: int


def columns(tx: ReadTransaction, table: Table, names: Sequence[str] | None = None) -> str:
    """Return the copied columns, or those in *names*, for a SELECT. A column that the store does
    not have yet is replaced by its default.
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
    """Return the next page of session ids, including the trash; with *since*, only of sessions
    that were active, started, ended, archived, pinned or trashed at that time or later.
    """
    where, params = _active(since)
    if after is not None:
        where += " AND id > ?"
        params = [*params, after]
    rows = tx.all(f"SELECT id FROM sessions WHERE {where} ORDER BY id LIMIT ?", (*params, PAGE))
    return [row[0] for row in rows]


def count_rows(
    tx: ReadTransaction, table: str, where: str = "1 = 1", params: Sequence[Any] = ()
) -> int:
    """Return the number of rows of a table, all or those of a condition."""
    row = tx.one(f"SELECT COUNT(*) FROM {table} WHERE {where}", params)
    return int(row[0]) if row else 0


def count_messages(tx: ReadTransaction, since: float | None = None) -> int:
    """Return the number of messages; with *since*, of those in the sessions of `ids_page`."""
    where, params = _active(since)
    if not params:
        return count_rows(tx, "messages")
    among = f"session_id IN (SELECT id FROM sessions WHERE {where})"
    return count_rows(tx, "messages", among, params)


def _active(since: float | None) -> tuple[str, list[str | float]]:
    if since is None:
        return "1 = 1", []
    return f"({' OR '.join(f'{name} >= ?' for name in _TIMES)})", [since] * len(_TIMES)


def pages(provider: SessionDBProvider, since: float | None = None) -> Iterator[list[str]]:
    """Yield all session ids in pages, each read in its own transaction."""
    after: str | None = None
    while True:
        with provider.read() as tx:
            page = ids_page(tx, after, since)
        if not page:
            return
        yield page
        after = page[-1]


def sessions_among(tx: ReadTransaction, ids: Sequence[str]) -> set[str]:
    """Return which of these sessions exist."""
    if not ids:
        return set()
    rows = tx.all(f"SELECT id FROM sessions WHERE id IN ({placeholders(len(ids))})", ids)
    return {row[0] for row in rows}


def messages_of(tx: ReadTransaction, ids: Sequence[str]) -> int:
    """Return the number of messages in these sessions."""
    if not ids:
        return 0
    return count_rows(tx, "messages", f"session_id IN ({placeholders(len(ids))})", ids)


def read_pieces(tx: ReadTransaction, ids: Sequence[str]) -> Iterator[Piece]:
    """Yield the pieces of these sessions; skips missing ones."""
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
    # Both are in the same order of the same database, so they can be merged.
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


def read_side_rows(tx: ReadTransaction, table: Table) -> Iterator[SideRows]:
    """Yield all rows of a table, in the order of its key."""
    order = ", ".join(f'"{name}"' for name in table.key)
    stream = tx.stream(f"SELECT {columns(tx, table)} FROM {table.name} ORDER BY {order}")
    for part, characters, _ in _parts(stream):
        yield SideRows(table, typed_rows(table, part), characters)


def _parts(rows: Iterable[Row]) -> Iterator[tuple[list[Row], int, bool]]:
    """Split a stream; yield (rows, number of characters, whether it is the last part)."""
    part: list[Row] = []
    weight = 0
    for row in rows:
        if len(part) == PIECE_ROWS or weight > PIECE_CHARACTERS:
            yield part, weight, False
            part, weight = [], 0
        part.append(row)
        weight += characters_in(row)
    yield part, weight, True


def _by_session(
    tx: ReadTransaction, table: Table, ids: Sequence[str], order: str
) -> dict[str, list[Row]]:
    number = table.copied_names.index("session_id")
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
    """Return the checksums of these sessions, without missing ones."""
    found: dict[str, ChecksummedSession] = {}
    messages = 0
    for piece in read_pieces(tx, ids):
        messages += len(piece.messages)
        if piece.checksum is not None:
            found[piece.session_id] = ChecksummedSession(piece.checksum, messages)
            messages = 0
    return found
