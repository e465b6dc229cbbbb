"""The search index on PostgreSQL: encoded tokens as a literal ``tsvector``, in a GIN index.

No parser, dictionary, extension or locale of the server is involved. A ``tsvector`` keeps 255
positions of a word; a document with more is marked, and its text decides about phrases.

Document 0 is a sentinel that every sound index contains. So an emptied index is not mistaken for
one without matches.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Final

import psycopg

from hermes_sessions.errors import StoreReadOnly
from hermes_sessions.storage.postgresql.migrations import (
    INDEX_LOCK,
    INSERT_SENTINEL,
    SEARCH_INDEX,
    SENTINEL_WORD,
)
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
from hermes_sessions.text.token_encoder import CUT, GAP

logger = logging.getLogger(__name__)

#: The number of positions of one word that a tsvector keeps.
_MAX_OCCURRENCES: Final = 255
#: Marks documents in which a word has more positions.
_CROWDED: Final = "o__"
_MATCHES: Final = "SELECT number FROM search_documents WHERE tokens @@ CAST(? AS TSQUERY)"
_DAMAGE: Final = (
    psycopg.errors.UndefinedTable,
    psycopg.errors.UndefinedColumn,
    psycopg.errors.UniqueViolation,
    psycopg.errors.DatatypeMismatch,
    psycopg.errors.IndexCorrupted,
    psycopg.errors.DataCorrupted,
)


class _TSQuerySyntax(OperatorSyntax):
    """Lexemes and the operators of ``tsquery``."""

    def phrase(self, tokens: Sequence[str], *, prefix: bool) -> str:
        lexemes = [f"'{token}'" for token in tokens]
        if prefix:
            lexemes[-1] += ":*"
        if len(lexemes) == 1:
            return lexemes[0]
        return f"({' <-> '.join(lexemes)} | ({' & '.join(lexemes)} & '{_CROWDED}'))"

    def exclude(self, wanted: str, unwanted: str) -> str:
        if _CROWDED in unwanted:
            # The tsvector may lack positions: the text decides.
            return f"({wanted} & (!{unwanted} | '{_CROWDED}'))"
        return f"({wanted} & !{unwanted})"


SYNTAX: Final = _TSQuerySyntax(" & ", " | ")


class TSVectorIndex(ServerIndex[str]):
    """See `SearchIndex`."""

    def add(self, tx: WriteTransaction, documents: Sequence[IndexDocument]) -> None:
        """See `SearchIndex.add`."""
        with _translate_damage():
            tx.run_many(
                "INSERT INTO search_documents (number, tokens) VALUES (?, CAST(? AS TSVECTOR)) "
                "ON CONFLICT (number) DO UPDATE SET tokens = excluded.tokens",
                [(document.number, as_tsvector(document.tokens)) for document in documents],
            )

    def clear(self, tx: WriteTransaction) -> None:
        """See `SearchIndex.clear`."""
        if tx.one(_OF_ANOTHER) == (1,):
            _empty(tx)
            return
        # Another process that rebuilds the index now would create the same table.
        tx.one("SELECT 1 FROM pg_advisory_xact_lock(?, ?)", INDEX_LOCK)
        tx.run("DROP TABLE IF EXISTS search_documents")
        for statement in SEARCH_INDEX.split(";"):
            tx.run(statement)

    def is_sound(self, tx: ReadTransaction) -> bool:
        """See `SearchIndex.is_sound`."""
        # Checked in the catalog first: a failed statement would end the transaction.
        return tx.one(_SOUND) == (1,) and tx.one(
            "SELECT number FROM search_documents WHERE number = 0 AND tokens @@ CAST(? AS TSQUERY)",
            (f"'{SENTINEL_WORD}'",),
        ) == (0,)

    def is_locked(self, tx: ReadTransaction) -> bool:
        """See `SearchIndex.is_locked`."""
        return tx.one(_LOCKED) is not None

    def _compiled(self, node: Node) -> tuple[Expression, str] | None:
        expression = compile_tree(node, SYNTAX)
        return None if expression is None else (expression, expression.text)

    def _translate_damage(self, tx: ReadTransaction) -> AbstractContextManager[None]:  # noqa: ARG002
        return _translate_damage()

    def _matching(
        self,
        tx: ReadTransaction,
        query: str,
        where: SQLCondition,
        limit: int,
        order: Order,
        span: IdRange,
    ) -> list[int]:
        bound = span.as_sql("number")
        # Materialized: otherwise the planner scans all messages backwards for a rare word.
        rows = tx.all(
            f"WITH found AS MATERIALIZED ({_MATCHES} AND {bound.sql}) "
            f"SELECT m.id FROM found f JOIN messages m ON m.id = f.number "
            f"JOIN sessions s ON s.id = m.session_id WHERE {where.sql} "
            f"ORDER BY {order_by(order)} LIMIT ?",
            (query, *bound.params, *where.params, limit),
        )
        return [row[0] for row in rows]

    def _not_matching(self, query: str) -> SQLCondition:
        surely = f"({query} & !'{_CROWDED}')" if _CROWDED in query else query
        return SQLCondition(f"m.id NOT IN ({_MATCHES} AND number > 0)", (surely,))

    def _unsure(
        self, tx: ReadTransaction, ids: Sequence[int], expression: Expression
    ) -> frozenset[int]:
        marks = []
        if expression.has_absent:
            marks.append(f"'{CUT}'")
        if _CROWDED in expression.text:
            marks.append(f"'{_CROWDED}'")
        if not marks:
            return frozenset()
        rows = tx.all(
            f"{_MATCHES} AND number BETWEEN ? AND ?", (" | ".join(marks), min(ids), max(ids))
        )
        return frozenset(ids) & {row[0] for row in rows}

    def _matching_titles(
        self, tx: ReadTransaction, query: str, limit: int, beyond: int | None
    ) -> list[int]:
        titles = numbers_of_titles(beyond)
        rows = tx.all(
            f"WITH found AS MATERIALIZED ({_MATCHES} AND {titles.sql}) "
            f"SELECT number FROM found ORDER BY number LIMIT ?",
            (query, *titles.params, limit),
        )
        return [row[0] for row in rows]

    def has_truncated_message(self, tx: ReadTransaction, where: SQLCondition) -> bool:
        """See `SearchIndex.has_truncated_message`."""
        with _translate_damage():
            return bool(self._matching(tx, f"'{CUT}'", where, 1, "last stored", EVERYWHERE))


_SOUND: Final = (
    "SELECT COUNT(*) FROM pg_index i WHERE i.indexrelid = "
    "to_regclass('idx_search_documents_tokens') AND i.indisvalid"
)

#: A connection that replaces the table locks it until its commit ends: with a synchronous standby
#: that is unavailable, for as long as that lasts.
_LOCKED: Final = (
    "SELECT 1 FROM pg_locks WHERE locktype = 'relation' AND granted "
    "AND mode = 'AccessExclusiveLock' AND relation = to_regclass('search_documents') "
    "AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) "
    "AND pid IS DISTINCT FROM pg_backend_pid() LIMIT 1"
)

#: Whether the table belongs to a role whose privileges this role does not have.
_OF_ANOTHER: Final = (
    "SELECT COUNT(*) FROM pg_class WHERE oid = to_regclass('search_documents') "
    "AND NOT pg_has_role(relowner, 'USAGE')"
)


def _empty(tx: WriteTransaction) -> None:
    """Delete all documents, for a role that may change rows but not tables."""
    if tx.one(_SOUND) != (1,):
        raise StoreReadOnly(
            "The search index is damaged, and this role may not rebuild it. Run "
            "`hermes sessions optimize` once as the role that owns the tables."
        )
    tx.run("DELETE FROM search_documents")
    tx.run(INSERT_SENTINEL)


@contextmanager
def _translate_damage() -> Iterator[None]:
    try:
        yield
    except _DAMAGE as error:
        raise IndexDamaged(f"The search index is damaged ({error}).") from error


def as_tsvector(tokens: str) -> str:
    """Return encoded tokens as the text of a ``tsvector``."""
    occurrences: Counter[str] = Counter()
    parts = []
    for position, token in enumerate(tokens.split(), 1):
        if token == GAP:
            continue
        occurrences[token] += 1
        if occurrences[token] <= _MAX_OCCURRENCES:
            parts.append(f"{token}:{position}")
    if any(count > _MAX_OCCURRENCES for count in occurrences.values()):
        parts.append(_CROWDED)
    return " ".join(parts)
