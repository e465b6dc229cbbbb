"""The search index on SQLite: FTS5 over encoded tokens, without a copy of the text.

Document 0 is a sentinel that every sound index contains. So an emptied or truncated index is not
mistaken for one without matches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final

import apsw

from hermes_sessions.storage.logs import Logger
from hermes_sessions.storage.provider import ReadTransaction, WriteTransaction, placeholders
from hermes_sessions.storage.search.compiled_index import (
    CompiledIndex,
    Expression,
    OperatorSyntax,
    compile_tree,
)
from hermes_sessions.storage.search.index_port import (
    EVERYWHERE,
    IdRange,
    IndexDamaged,
    IndexDocument,
    Order,
    order_by,
)
from hermes_sessions.storage.search.sql_conditions import SQLCondition
from hermes_sessions.storage.sqlite.connection import Deadline, SQLiteOptions
from hermes_sessions.storage.sqlite.error_translation import translated
from hermes_sessions.storage.sqlite.exclusive_access import exclusive_access
from hermes_sessions.storage.sqlite.migrations import (
    CHANGE_NOTES_NAMES,
    NOTE_ALL,
    SEARCH_INDEX,
    SEARCH_NOTES_NAMES,
    SENTINEL_WORD,
    change_notes,
    search_notes,
)
from hermes_sessions.text.query.tree import Node
from hermes_sessions.text.token_encoder import CUT

# Removing a search index from a file whose pages are too damaged to drop it.


_OWN: Final = (
    "DELETE FROM sqlite_schema WHERE name = 'search_index' OR tbl_name LIKE 'search\\_index\\_%' "
    "ESCAPE '\\'"
)


def drop_damaged_search_index(path: Path, patience: float) -> None:
    """Remove the index's tables from the schema, and the pages that then belong to no table.

    Atomic; the index is rebuilt when the store is next used.

    Raises:
        StoreLocked: another program has the file open; it was not changed.
        StoreCorrupt: more than the index is damaged; it was not changed.
    """
    deadline = Deadline()
    deadline.start(patience)
    options = SQLiteOptions(lock_timeout=patience)
    with (
        translated(str(path)),
        exclusive_access(
            path, options, deadline, gated=True, still_needed=lambda _: True
        ) as connection,
    ):
        if connection is not None:
            _cut_out_damaged(connection)


def _cut_out_damaged(connection: apsw.Connection) -> None:
    connection.pragma("writable_schema", 1)
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute(_OWN)
        # Tells all later connections that the schema changed.
        version = int(connection.pragma("schema_version"))
        connection.pragma("schema_version", version + 1)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    finally:
        connection.execute("PRAGMA writable_schema = RESET")
    connection.execute("VACUUM")


logger = Logger(__name__)

_MATCHING: Final = "SELECT rowid FROM search_index WHERE search_index MATCH ?"
#: The index comes first: it yields ids in order and stops at the limit.
_JOINED: Final = (
    "search_index f CROSS JOIN messages m ON m.id = f.rowid "
    "CROSS JOIN sessions s ON s.id = m.session_id"
)
#: Pages that one maintenance step may write.
_MERGE_PAGES: Final = 64
#: FTS5 stores tombstones of removed documents under these numbers.
_HAS_TOMBSTONES: Final = "SELECT id FROM search_index_data WHERE id >= (1 << 53) LIMIT 1"
#: Errors that SQLite raises when tables of the index are missing, damaged or inconsistent.
_DAMAGE: Final = (apsw.CorruptError, apsw.SQLError, apsw.ConstraintError, apsw.MismatchError)
#: The tables of FTS5 itself.
_TABLES: Final = tuple(f"search_index_{name}" for name in ("data", "idx", "docsize", "config"))
#: Differences that are possible between a sound index and its sources.
_STRAYS: Final = {
    "messages are missing": (
        "SELECT id FROM messages WHERE id > 0 "
        "AND id <= (SELECT indexed_through FROM search_state) "
        "AND id NOT IN (SELECT id FROM search_index_docsize) "
        "AND id NOT IN (SELECT message_id FROM search_queue) LIMIT 1"
    ),
    "it has messages that are gone": (
        "SELECT id FROM search_index_docsize WHERE id > 0 AND id NOT IN (SELECT id FROM messages) "
        "AND id NOT IN (SELECT message_id FROM search_queue) LIMIT 1"
    ),
    "titles are missing": (
        "SELECT id FROM sessions WHERE title IS NOT NULL "
        "AND id NOT IN (SELECT session_id FROM search_titles WHERE stale = 1 "
        "OR -number IN (SELECT id FROM search_index_docsize)) LIMIT 1"
    ),
    "it has titles that are gone": (
        "SELECT id FROM search_index_docsize WHERE id < 0 "
        "AND -id NOT IN (SELECT number FROM search_titles) LIMIT 1"
    ),
}


@contextmanager
def _translate_damage(tx: ReadTransaction) -> Iterator[None]:
    try:
        yield
    except _DAMAGE as error:
        if isinstance(error, apsw.SQLError) and _is_sound(tx):
            # Then the statement is at fault, and rebuilding the index would not help.
            raise
        raise IndexDamaged(f"The search index is damaged ({error}).") from error


class FTS5Index(CompiledIndex[str]):
    """See `SearchIndex`."""

    def add(self, tx: WriteTransaction, documents: Sequence[IndexDocument]) -> None:
        """See `SearchIndex.add`."""
        with _translate_damage(tx):
            tx.run_many(
                "INSERT INTO search_index(rowid, tokens) VALUES (?, ?)",
                [(document.number, document.tokens) for document in documents],
            )
            _write_out(tx)

    def remove(self, tx: WriteTransaction, numbers: Sequence[int]) -> None:
        """See `SearchIndex.remove`."""
        with _translate_damage(tx):
            tx.run_many("DELETE FROM search_index WHERE rowid = ?", [(n,) for n in numbers])
            _write_out(tx)

    def clear(self, tx: WriteTransaction) -> None:
        """See `SearchIndex.clear`."""
        # FTS5 cannot use an incomplete index: the whole transaction would fail.
        if not (_exist(tx, ("search_index", *_TABLES)) and _is_dropped(tx)):
            _cut_out(tx)
        tx.run(search_notes())
        tx.run(SEARCH_INDEX)

    def tidy(self, tx: WriteTransaction) -> bool:
        """See `SearchIndex.tidy`."""
        return _merge(tx, _MERGE_PAGES)

    def compact(self, tx: WriteTransaction, *, first: bool) -> bool:
        """See `SearchIndex.compact`. FTS5 removes documents by a tombstone beside their tokens. The
        tokens disappear when segments are merged: all of them, if there is a tombstone.
        """
        everything = first and tx.one(_HAS_TOMBSTONES) is not None
        return _merge(tx, -_MERGE_PAGES if everything else _MERGE_PAGES)

    def is_sound(self, tx: ReadTransaction) -> bool:
        """See `SearchIndex.is_sound`."""
        return _is_sound(tx)

    def damage(self, tx: ReadTransaction) -> str | None:
        """See `SearchIndex.damage`."""
        # A query makes FTS5 read the current index. The check alone would use this connection's
        # cache, and report merges by other connections as damage.
        if not _is_sound(tx):
            return "it does not answer a test query"
        try:
            row = tx.one("PRAGMA integrity_check(search_index)")
            if row != ("ok",):
                return f"{row and row[0]}"
            strays = [what for what, sql in _STRAYS.items() if tx.one(sql) is not None]
        except _DAMAGE as error:
            return str(error)
        return ", ".join(strays) or None

    def _compiled(self, node: Node) -> tuple[Expression, str] | None:
        expression = compile_tree(node, SYNTAX)
        return None if expression is None else (expression, expression.text)

    def _translate_damage(self, tx: ReadTransaction) -> AbstractContextManager[None]:
        return _translate_damage(tx)

    def _matching(
        self,
        tx: ReadTransaction,
        query: str,
        where: SQLCondition,
        limit: int,
        order: Order,
        span: IdRange,
    ) -> list[int]:
        # Uses the index's own row number, so that FTS5 can seek.
        bound = span.as_sql("f.rowid")
        rows = tx.all(
            f"SELECT m.id FROM {_JOINED} WHERE f.search_index MATCH ? AND {bound.sql} "
            f"AND {where.sql} ORDER BY {order_by(order, 'f.rowid')} LIMIT ?",
            (query, *bound.params, *where.params, limit),
        )
        return [row[0] for row in rows]

    def _not_matching(self, query: str) -> SQLCondition:
        return SQLCondition(f"m.id NOT IN ({_MATCHING})", (query,))

    def _unsure(
        self, tx: ReadTransaction, ids: Sequence[int], expression: Expression
    ) -> frozenset[int]:
        if not expression.has_absent:
            return frozenset()
        rows = tx.all(f"{_MATCHING} AND rowid BETWEEN ? AND ?", (f'"{CUT}"', min(ids), max(ids)))
        return frozenset(ids) & {row[0] for row in rows}

    def _matching_titles(
        self, tx: ReadTransaction, query: str, limit: int, beyond: int | None
    ) -> list[int]:
        after = "" if beyond is None else f"AND rowid > {int(beyond)} "
        rows = tx.all(f"{_MATCHING} AND rowid < 0 {after}ORDER BY rowid LIMIT ?", (query, limit))
        return [row[0] for row in rows]

    def has_truncated_message(self, tx: ReadTransaction, where: SQLCondition) -> bool:
        """See `SearchIndex.has_truncated_message`."""
        with _translate_damage(tx):
            return bool(self._matching(tx, f'"{CUT}"', where, 1, "last stored", EVERYWHERE))


def restore_notes(tx: WriteTransaction) -> bool:
    """Recreate missing tables and triggers that record changes; return whether any was missing.

    Changes meanwhile were not recorded, so the index and derived columns are no longer trusted.
    """
    is_whole = True
    if not _exist(tx, SEARCH_NOTES_NAMES):
        is_whole = False
        tx.run(search_notes())
        tx.run("UPDATE search_state SET segmenter = 0")
    if not _exist(tx, CHANGE_NOTES_NAMES):
        is_whole = False
        tx.run(change_notes())
        tx.run(NOTE_ALL)
    return not is_whole


def _exist(tx: ReadTransaction, names: Sequence[str]) -> bool:
    """Whether tables and triggers of these names exist."""
    sql = f"SELECT COUNT(*) FROM sqlite_schema WHERE name IN ({placeholders(len(names))})"
    return tx.one(sql, names) == (len(names),)


def _is_sound(tx: ReadTransaction) -> bool:
    if not _exist(tx, SEARCH_NOTES_NAMES):
        return False
    try:
        by_token = tx.one(_MATCHING, (f'"{SENTINEL_WORD}"',))
        by_number = tx.one("SELECT id FROM search_index_docsize WHERE id = 0")
    except _DAMAGE as error:
        logger.info("The search index is damaged: %s", error)
        return False
    return by_token == by_number == (0,)


def _write_out(tx: WriteTransaction) -> None:
    """Make FTS5 write and merge now what it would otherwise defer to the next statement or the
    commit, where damage would look like damage of the store.
    """
    tx.run("SAVEPOINT written")
    tx.run("RELEASE written")


def _merge(tx: WriteTransaction, pages: int) -> bool:
    with _translate_damage(tx):
        before = tx.one("SELECT total_changes()")
        tx.run("INSERT INTO search_index(search_index, rank) VALUES ('merge', ?)", (pages,))
        after = tx.one("SELECT total_changes()")
    # The statement itself counts as one change.
    return before is not None and after is not None and after[0] - before[0] > 1


def _is_dropped(tx: WriteTransaction) -> bool:
    try:
        tx.run("DROP TABLE IF EXISTS search_index")
    except _DAMAGE as error:
        logger.warning(
            "The search index cannot be dropped, so it is removed from the schema: %s", error
        )
        return False
    return True


def _cut_out(tx: WriteTransaction) -> None:
    """Remove a virtual table from the schema that its own code refuses to open."""
    tx.run("PRAGMA writable_schema = ON")
    # A table that is not virtual has its own pages, and can be dropped.
    tx.run("DELETE FROM sqlite_schema WHERE name = ? AND rootpage = ?", ("search_index", 0))
    tx.run("PRAGMA writable_schema = RESET")
    for table in ("search_index", *_TABLES):
        tx.run(f"DROP TABLE IF EXISTS {table}")


class _FTS5Syntax(OperatorSyntax):
    """The query syntax of FTS5: quoted strings and operators."""

    def phrase(self, tokens: Sequence[str], *, prefix: bool) -> str:
        return f'"{" ".join(tokens)}"{" *" if prefix else ""}'

    def exclude(self, wanted: str, unwanted: str) -> str:
        return f"({wanted} NOT {unwanted})"


SYNTAX: Final = _FTS5Syntax(" AND ", " OR ")
