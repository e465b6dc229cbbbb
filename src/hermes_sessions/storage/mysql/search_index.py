"""The search index on MySQL and MariaDB: encoded tokens as text, in a ``FULLTEXT`` index.

``FULLTEXT`` finds documents with all the words; the same statement checks phrases and excluded
words on the tokens themselves. No setting of the server is involved: no token is a stop word, or
shorter or longer than the server indexes.

``FULLTEXT`` lags behind a commit by a moment. So documents that were written just now are read
directly, in addition to its matches.

Document 0 is a sentinel that every sound index contains. So an emptied index is not mistaken for
one without matches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Final, NamedTuple

import pymysql

from hermes_sessions.errors import StoreReadOnly
from hermes_sessions.storage.mysql.error_translation import number_of
from hermes_sessions.storage.mysql.migrations import INSERT_SENTINEL, SENTINEL_WORD
from hermes_sessions.storage.provider import ReadTransaction, WriteTransaction
from hermes_sessions.storage.search.compiled_index import Expression, OperatorSyntax, compile_tree
from hermes_sessions.storage.search.index_port import (
    EVERYWHERE,
    IdRange,
    IndexDamaged,
    IndexDocument,
    Order,
    order_by,
)
from hermes_sessions.storage.search.sql_conditions import SQLCondition
from hermes_sessions.storage.servers.search_index import ServerIndex, numbers_of_titles
from hermes_sessions.text.query.tree import Node
from hermes_sessions.text.token_encoder import CUT

#: Characters of documents that one statement stores.
_CHARACTERS_PER_STATEMENT: Final = 1_000_000
#: Documents younger than this may be missing in FULLTEXT.
_RECENT: Final = "written > UTC_TIMESTAMP(6) - INTERVAL 5 SECOND"
#: Limits of scanning documents before FULLTEXT is used: the first scan, the second, the longest,
#: documents added to it per wanted match, the most matches to scan for, and the titles to scan.
_FIRST_SCAN: Final = 500
_SECOND_SCAN: Final = 1_500
_LONGEST_SCAN: Final = 3_000
_SCANNED_PER_MATCH: Final = 16
_MAX_SCANNED_MATCHES: Final = 1_000
_SCANNED_TITLES: Final = 5_000
_MATCH: Final = "MATCH (tokens) AGAINST (? IN BOOLEAN MODE)"
#: No table, no column, no FULLTEXT index, damage, or rebuilt since this transaction began.
_DAMAGE: Final = frozenset({1034, 1054, 1146, 1191, 1194, 1195, 1412, 1712, 1877, 1932})


class _Superset:
    """The part of a query that boolean mode handles reliably: all of, or one of. `is_whole` says
    whether that is the whole query.
    """

    def __init__(self) -> None:
        self.is_whole = True

    def phrase(self, tokens: Sequence[str], *, prefix: bool) -> str:
        words = [*tokens[:-1], f"{tokens[-1]}*" if prefix else tokens[-1]]
        if len(words) == 1:
            return words[0]
        self.is_whole = False
        return self.every(words)

    def every(self, texts: Sequence[str]) -> str:
        return "(" + " ".join(f"+{text}" for text in texts) + ")"

    def any(self, texts: Sequence[str]) -> str:
        return "(" + " ".join(texts) + ")"

    def exclude(self, wanted: str, unwanted: str) -> str:  # noqa: ARG002
        self.is_whole = False
        return wanted


class _Exact(OperatorSyntax):
    """The whole expression as a condition on the tokens."""

    def phrase(self, tokens: Sequence[str], *, prefix: bool) -> str:
        # Encoded tokens are letters, digits and _, so they can stand in the text.
        return f"INSTR(tokens, ' {' '.join(tokens)}{'' if prefix else ' '}') > 0"

    def exclude(self, wanted: str, unwanted: str) -> str:
        return f"({wanted} AND NOT {unwanted})"


_EXACT: Final = _Exact(" AND ", " OR ")


class _Query(NamedTuple):
    """A query in boolean mode and as a condition."""

    words: str
    condition: str
    #: Whether the condition must be checked on documents in which the words match.
    is_checked: bool

    def numbers(self, bound: SQLCondition) -> SQLCondition:
        """Return the SELECT of the numbers of documents that match and satisfy *bound*."""
        checked = f" AND {self.condition}" if self.is_checked else ""
        return SQLCondition(
            f"SELECT number FROM search_documents WHERE {_MATCH}{checked} AND {bound.sql} "
            f"UNION SELECT number FROM search_documents "
            f"WHERE {_RECENT} AND {self.condition} AND {bound.sql}",
            (self.words, *bound.params, *bound.params),
        )


_CUT: Final = _Query(f"+{CUT}", _EXACT.phrase([CUT], prefix=False), is_checked=False)


class FulltextIndex(ServerIndex[_Query]):
    """See `SearchIndex`."""

    def __init__(self, recreate: Callable[[], None]) -> None:
        """*recreate* drops and creates the table, on a separate connection: the server commits the
        open transaction of the connection on which that is done.
        """
        self._recreate = recreate

    def add(self, tx: WriteTransaction, documents: Sequence[IndexDocument]) -> None:
        """See `SearchIndex.add`."""
        waiting: list[IndexDocument] = []
        size = 0
        for document in documents:
            waiting.append(document)
            size += len(document.tokens)
            if size > _CHARACTERS_PER_STATEMENT:
                _store(tx, waiting)
                waiting, size = [], 0
        if waiting:
            _store(tx, waiting)

    def clear(self, tx: WriteTransaction) -> None:
        """See `SearchIndex.clear`."""
        try:
            # It is not sound until this transaction adds the sentinel.
            self._recreate()
        except StoreReadOnly as refused:
            # This user may change rows, but not tables.
            tx.run("DELETE FROM search_documents")
            tx.run(INSERT_SENTINEL)
            if not self.is_sound(tx):
                raise StoreReadOnly(
                    "The search index is damaged, and this user may not rebuild it. Run "
                    "`hermes sessions optimize` once as a user with CREATE and DROP."
                ) from refused
        else:
            tx.run(INSERT_SENTINEL)

    def is_sound(self, tx: ReadTransaction) -> bool:
        """See `SearchIndex.is_sound`."""
        try:
            row = tx.one(
                f"SELECT (SELECT COUNT(*) FROM search_documents WHERE {_MATCH}), "
                f"(SELECT tokens FROM search_documents WHERE number = 0)",
                (f"+{SENTINEL_WORD}",),
            )
        except pymysql.Error as error:
            if number_of(error) in _DAMAGE:
                return False
            raise
        # A result shows that the index exists; it need not be up to date.
        return row is not None and row[1] == f" {SENTINEL_WORD} "

    def _compiled(self, node: Node) -> tuple[Expression, _Query] | None:
        superset = _Superset()
        words = compile_tree(node, superset)
        condition = compile_tree(node, _EXACT)
        if words is None or condition is None:
            return None
        return words, _Query(f"+{words.text}", condition.text, is_checked=not superset.is_whole)

    def _translate_damage(self, tx: ReadTransaction) -> AbstractContextManager[None]:  # noqa: ARG002
        return _translate_damage()

    def _matching(
        self,
        tx: ReadTransaction,
        query: _Query,
        where: SQLCondition,
        limit: int,
        order: Order,
        span: IdRange,
    ) -> list[int]:
        if order not in ("last stored", "first stored") or limit > _MAX_SCANNED_MATCHES:
            return _search(tx, query, where, limit, order, span)
        found, rest = _scan(tx, query, where, limit, order, span)
        if rest is None:
            return found
        return found + _search(tx, query, where, limit - len(found), order, rest)

    def _not_matching(self, query: _Query) -> SQLCondition:
        # In a separate subquery, so that it runs once and not for each message.
        matching = query.numbers(SQLCondition("number > 0"))
        return SQLCondition(
            f"m.id NOT IN (SELECT number FROM ({matching.sql}) AS unwanted)", matching.params
        )

    def _unsure(
        self, tx: ReadTransaction, ids: Sequence[int], expression: Expression
    ) -> frozenset[int]:
        if not expression.has_absent:
            return frozenset()
        matching = _CUT.numbers(SQLCondition("number BETWEEN ? AND ?", (min(ids), max(ids))))
        return frozenset(ids) & {row[0] for row in tx.all(matching.sql, matching.params)}

    def _matching_titles(
        self, tx: ReadTransaction, query: _Query, limit: int, beyond: int | None
    ) -> list[int]:
        titles = numbers_of_titles(beyond)
        row = tx.one(f"SELECT MIN(number) FROM search_documents WHERE {titles.sql}", titles.params)
        if row is None or row[0] is None:
            return []
        # Titles are short and few: a scan is faster than finding all messages with the words.
        edge = row[0] + _SCANNED_TITLES
        near = titles & SQLCondition("number < ?", (edge,))
        select = SQLCondition(
            f"SELECT number FROM search_documents WHERE {near.sql} AND {query.condition}",
            near.params,
        )
        found = _first_numbers(tx, select, limit)
        if len(found) < limit and edge < 0:
            matching = query.numbers(SQLCondition("number < 0 AND number >= ?", (edge,)))
            found += _first_numbers(tx, matching, limit - len(found))
        return found

    def has_truncated_message(self, tx: ReadTransaction, where: SQLCondition) -> bool:
        """See `SearchIndex.has_truncated_message`."""
        with _translate_damage():
            return bool(_search(tx, _CUT, where, 1, "last stored", EVERYWHERE))


@contextmanager
def _translate_damage() -> Iterator[None]:
    try:
        yield
    except pymysql.Error as error:
        if number_of(error) not in _DAMAGE:
            raise
        raise IndexDamaged(f"The search index is damaged ({error}).") from error


def _store(tx: WriteTransaction, documents: Sequence[IndexDocument]) -> None:
    rows = ", ".join(["(?, UTC_TIMESTAMP(6), ?)"] * len(documents))
    params = [
        value for document in documents for value in (document.number, f" {document.tokens} ")
    ]
    with _translate_damage():
        tx.run(
            f"INSERT INTO search_documents (number, written, tokens) VALUES {rows} "
            f"ON DUPLICATE KEY UPDATE written = VALUES(written), tokens = VALUES(tokens)",
            params,
        )


def _scan(
    tx: ReadTransaction, query: _Query, where: SQLCondition, limit: int, order: Order, span: IdRange
) -> tuple[list[int], IdRange | None]:
    """Scan the first documents in this order; return the matches and where to continue, if at all.

    FULLTEXT collects every document with a word before it returns the first. A scan finds frequent
    words sooner.
    """
    is_last = order == "last stored"
    end = "MAX(number)" if is_last else "MIN(number)"
    found: list[int] = []
    scanned, size = 0, _FIRST_SCAN
    while True:
        bound = span.as_sql("number")
        row = tx.one(f"SELECT {end} FROM search_documents WHERE {bound.sql}", bound.params)
        if row is None or row[0] is None:
            return found, None
        edge = row[0] - size if is_last else row[0] + size
        near = span._replace(above=max(edge, span.above)) if is_last else IdRange(span.above, edge)
        bound = near.as_sql("number")
        rows = tx.all(
            f"SELECT number FROM search_documents "
            f"STRAIGHT_JOIN messages m ON m.id = number "
            f"STRAIGHT_JOIN sessions s ON s.id = m.session_id "
            f"WHERE {bound.sql} AND {query.condition} AND {where.sql} "
            f"ORDER BY {order_by(order, 'number')} LIMIT ?",
            (*bound.params, *where.params, limit - len(found)),
        )
        found += [row[0] for row in rows]
        scanned += size
        if len(found) >= limit:
            return found, None
        span = span._replace(below=edge + 1) if is_last else span._replace(above=edge - 1)
        needed = scanned * (limit - len(found)) // max(1, len(found))
        if scanned + needed <= _LONGEST_SCAN + _SCANNED_PER_MATCH * limit:
            size = max(needed, _FIRST_SCAN)
        elif scanned < _SECOND_SCAN:
            size = _SECOND_SCAN
        else:
            return found, span


def _search(
    tx: ReadTransaction, query: _Query, where: SQLCondition, limit: int, order: Order, span: IdRange
) -> list[int]:
    """Return matches that FULLTEXT finds."""
    matching = query.numbers(span.as_sql("number"))
    rows = tx.all(
        f"SELECT m.id FROM ({matching.sql}) AS found JOIN messages m ON m.id = found.number "
        f"JOIN sessions s ON s.id = m.session_id WHERE {where.sql} "
        f"ORDER BY {order_by(order)} LIMIT ?",
        (*matching.params, *where.params, limit),
    )
    return [row[0] for row in rows]


def _first_numbers(tx: ReadTransaction, select: SQLCondition, limit: int) -> list[int]:
    rows = tx.all(
        f"SELECT number FROM ({select.sql}) AS found ORDER BY number LIMIT ?",
        (*select.params, limit),
    )
    return [row[0] for row in rows]
