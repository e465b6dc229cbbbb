"""The index on PostgreSQL: encoded tokens as a ``tsvector`` written out, under GIN.

No parser, dictionary, extension or locale of the server takes part. A ``tsvector`` keeps 255
places of one word; a document with more has a mark, and phrases in it are decided from its text.

Document 0 is a watchman: it is in every sound index, so that one that was emptied is not taken for
one that finds nothing.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import psycopg

from hermes_sessions.storage.postgresql.schema import SEARCH_INDEX, WATCHMAN
from hermes_sessions.storage.provider import ReadTransaction, WriteTransaction, placeholders
from hermes_sessions.storage.searching.conditions import Where
from hermes_sessions.storage.searching.expressions import compile_tree
from hermes_sessions.storage.searching.index import (
    EVERYWHERE,
    Candidates,
    Document,
    IndexDamaged,
    Order,
    SearchIndex,
    Span,
    every_message,
    order_by,
)
from hermes_sessions.text.encode import CUT, GAP
from hermes_sessions.text.query.tree import Node

logger = logging.getLogger(__name__)

#: How many places of one word a tsvector keeps.
_MOST_PLACES: Final = 255
#: In documents where that was not enough.
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


class _TSQuerySyntax:
    """Lexemes and the operators of ``tsquery``."""

    def phrase(self, tokens: Sequence[str], *, prefix: bool) -> str:
        lexemes = [f"'{token}'" for token in tokens]
        if prefix:
            lexemes[-1] += ":*"
        if len(lexemes) == 1:
            return lexemes[0]
        return f"({' <-> '.join(lexemes)} | ({' & '.join(lexemes)} & '{_CROWDED}'))"

    def every(self, texts: Sequence[str]) -> str:
        return "(" + " & ".join(texts) + ")"

    def any(self, texts: Sequence[str]) -> str:
        return "(" + " | ".join(texts) + ")"

    def but_not(self, wanted: str, unwanted: str) -> str:
        if _CROWDED in unwanted:
            # It may lack what it seems to have: the text decides.
            return f"({wanted} & (!{unwanted} | '{_CROWDED}'))"
        return f"({wanted} & !{unwanted})"


SYNTAX: Final = _TSQuerySyntax()


class TSVectorIndex(SearchIndex):
    """See `SearchIndex`."""

    def add(self, tx: WriteTransaction, documents: Sequence[Document]) -> None:
        """See `SearchIndex.add`."""
        with _noticing_damage():
            tx.run_many(
                "INSERT INTO search_documents (number, tokens) VALUES (?, CAST(? AS TSVECTOR)) "
                "ON CONFLICT (number) DO UPDATE SET tokens = excluded.tokens",
                [(document.number, as_tsvector(document.tokens)) for document in documents],
            )

    def remove(self, tx: WriteTransaction, numbers: Sequence[int]) -> None:
        """See `SearchIndex.remove`."""
        if not numbers:
            return
        with _noticing_damage():
            tx.run(
                f"DELETE FROM search_documents WHERE number IN ({placeholders(len(numbers))})",
                numbers,
            )

    def clear(self, tx: WriteTransaction) -> None:
        """See `SearchIndex.clear`."""
        tx.run("DROP TABLE IF EXISTS search_documents")
        for statement in SEARCH_INDEX.split(";"):
            tx.run(statement)

    def tidy(self, tx: WriteTransaction) -> bool:  # noqa: ARG002
        """The server merges by itself."""
        return False

    def compact(self, tx: WriteTransaction, *, first: bool) -> bool:  # noqa: ARG002
        """The server's vacuum removes what was deleted."""
        return False

    def is_sound(self, tx: ReadTransaction) -> bool:
        """See `SearchIndex.is_sound`."""
        # Asked without touching the table first: a failed statement would end the transaction.
        return tx.one(_SOUND) == (1,) and tx.one(
            "SELECT number FROM search_documents WHERE number = 0 AND tokens @@ CAST(? AS TSQUERY)",
            (f"'{WATCHMAN}'",),
        ) == (0,)

    def damage(self, tx: ReadTransaction) -> str | None:
        """See `SearchIndex.damage`."""
        return None if self.is_sound(tx) else "its table or its index is missing or was emptied"

    def messages(
        self,
        tx: ReadTransaction,
        node: Node,
        where: Where,
        *,
        limit: int,
        order: Order = "last stored",
        span: Span = EVERYWHERE,
    ) -> Candidates:
        """See `SearchIndex.messages`."""
        expression = compile_tree(node, SYNTAX)
        if expression is None:
            ids = every_message(tx, where, limit=limit, order=order, span=span)
            return Candidates(ids, exact=False, narrowed=False)
        with _noticing_damage():
            if expression.complement:
                surely = expression.text
                if _CROWDED in surely:
                    surely = f"({surely} & !'{_CROWDED}')"
                where &= Where(f"m.id NOT IN ({_MATCHES} AND number > 0)", (surely,))
                ids = every_message(tx, where, limit=limit, order=order, span=span)
            else:
                ids = _matching(tx, expression.text, where, limit, order, span)
            unsure = _marked(tx, ids, has_absent=expression.has_absent, text=expression.text)
        return Candidates(ids, exact=expression.exact, narrowed=True, unsure=unsure)

    def titles(
        self, tx: ReadTransaction, node: Node, *, limit: int, beyond: int | None = None
    ) -> list[int]:
        """See `SearchIndex.titles`."""
        expression = compile_tree(node, SYNTAX)
        if expression is None or expression.complement:
            return []
        # Their numbers are negative, so the last stored come first.
        after = Where("number < 0")
        if beyond is not None:
            after &= Where("number > ?", (-beyond,))
        with _noticing_damage():
            rows = tx.all(
                f"WITH found AS MATERIALIZED ({_MATCHES} AND {after.sql}) "
                f"SELECT number FROM found ORDER BY number LIMIT ?",
                (expression.text, *after.params, limit),
            )
        return [-row[0] for row in rows]

    def has_cut(self, tx: ReadTransaction, where: Where) -> bool:
        """See `SearchIndex.has_cut`."""
        with _noticing_damage():
            return bool(_matching(tx, f"'{CUT}'", where, 1, "last stored", EVERYWHERE))


_SOUND: Final = (
    "SELECT COUNT(*) FROM pg_index i WHERE i.indexrelid = "
    "to_regclass('idx_search_documents_tokens') AND i.indisvalid"
)


@contextmanager
def _noticing_damage() -> Iterator[None]:
    try:
        yield
    except _DAMAGE as error:
        raise IndexDamaged(f"The search index is damaged ({error}).") from error


def _matching(
    tx: ReadTransaction, text: str, where: Where, limit: int, order: Order, span: Span
) -> list[int]:
    bound = span.as_sql("number")
    # Fenced: else the planner walks all messages backwards for a word that hardly any has.
    rows = tx.all(
        f"WITH found AS MATERIALIZED ({_MATCHES} AND {bound.sql}) "
        f"SELECT m.id FROM found f JOIN messages m ON m.id = f.number "
        f"JOIN sessions s ON s.id = m.session_id WHERE {where.sql} "
        f"ORDER BY {order_by(order)} LIMIT ?",
        (text, *bound.params, *where.params, limit),
    )
    return [row[0] for row in rows]


def _marked(
    tx: ReadTransaction, ids: Sequence[int], *, has_absent: bool, text: str
) -> frozenset[int]:
    """Return those of *ids* whose text has to be looked at."""
    marks = []
    if has_absent:
        marks.append(f"'{CUT}'")
    if _CROWDED in text:
        marks.append(f"'{_CROWDED}'")
    if not marks or not ids:
        return frozenset()
    rows = tx.all(f"{_MATCHES} AND number BETWEEN ? AND ?", (" | ".join(marks), min(ids), max(ids)))
    return frozenset(ids) & {row[0] for row in rows}


def as_tsvector(tokens: str) -> str:
    """Return encoded tokens as the text of a ``tsvector``."""
    places: Counter[str] = Counter()
    parts = []
    for place, token in enumerate(tokens.split(), 1):
        if token == GAP:
            continue
        places[token] += 1
        if places[token] <= _MOST_PLACES:
            parts.append(f"{token}:{place}")
    if any(count > _MOST_PLACES for count in places.values()):
        parts.append(_CROWDED)
    return " ".join(parts)
