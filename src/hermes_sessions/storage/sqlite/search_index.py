"""The index on SQLite: FTS5 over encoded tokens, without a copy of the text.

Only encoded tokens and fixed operators reach FTS5. Any tree becomes one expression, possibly
complemented: what has at least one wanted term is found in the index, what has only unwanted ones
is everything but the complement.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from hermes_sessions.storage.provider import ReadTransaction, WriteTransaction
from hermes_sessions.storage.searching.conditions import Where
from hermes_sessions.storage.searching.index import Candidates, Document, SearchIndex
from hermes_sessions.storage.sqlite.schema import SEARCH_INDEX
from hermes_sessions.text.encode import encode, encode_prefix, is_cut
from hermes_sessions.text.query.tree import And, Node, Not, Or, Substring, Term

_MATCHING: Final = "SELECT rowid FROM search_index WHERE search_index MATCH ?"
#: Pages one housekeeping step may write.
_MERGE_PAGES: Final = 64


@dataclass(frozen=True, slots=True)
class _Expression:
    """An FTS5 expression; ``complement`` means everything that does not match it."""

    text: str
    complement: bool = False
    exact: bool = True


class FTS5Index(SearchIndex):
    """See `SearchIndex`."""

    def add(self, tx: WriteTransaction, documents: Sequence[Document]) -> None:
        """See `SearchIndex.add`."""
        tx.run_many(
            "INSERT INTO search_index(rowid, tokens) VALUES (?, ?)",
            [(document.number, document.tokens) for document in documents],
        )

    def remove(self, tx: WriteTransaction, numbers: Sequence[int]) -> None:
        """See `SearchIndex.remove`."""
        tx.run_many("DELETE FROM search_index WHERE rowid = ?", [(n,) for n in numbers])

    def clear(self, tx: WriteTransaction) -> None:
        """See `SearchIndex.clear`."""
        tx.run("DROP TABLE IF EXISTS search_index")
        for statement in SEARCH_INDEX.split(";"):
            if statement.strip():
                tx.run(statement)

    def tidy(self, tx: WriteTransaction) -> bool:
        """See `SearchIndex.tidy`."""
        done = tx.run(
            "INSERT INTO search_index(search_index, rank) VALUES ('merge', ?)", (_MERGE_PAGES,)
        )
        return done > 1

    def messages(
        self, tx: ReadTransaction, node: Node, where: Where, *, limit: int, oldest: bool = False
    ) -> Candidates:
        """See `SearchIndex.messages`."""
        expression = compile_tree(node)
        tables = "messages m JOIN sessions s ON s.id = m.session_id"
        params: tuple[object, ...] = where.params
        if expression is None:
            condition, order = where.sql, "m.id"
        elif expression.complement:
            condition, order = f"{where.sql} AND m.id NOT IN ({_MATCHING})", "m.id"
            params = (*params, expression.text)
        else:
            # CROSS JOIN keeps the index in front: it gives ids in order and stops at the limit.
            tables = (
                "search_index f CROSS JOIN messages m ON m.id = f.rowid "
                "CROSS JOIN sessions s ON s.id = m.session_id"
            )
            condition, order = f"f.search_index MATCH ? AND f.rowid > 0 AND {where.sql}", "f.rowid"
            params = (expression.text, *params)
        direction = "ASC" if oldest else "DESC"
        rows = tx.all(
            f"SELECT m.id FROM {tables} WHERE {condition} ORDER BY {order} {direction} LIMIT ?",
            (*params, limit),
        )
        return Candidates(
            [row[0] for row in rows],
            exact=expression is not None and expression.exact,
            narrowed=expression is not None,
        )

    def titles(self, tx: ReadTransaction, node: Node, *, limit: int) -> list[int]:
        """See `SearchIndex.titles`."""
        expression = compile_tree(node)
        if expression is None or expression.complement:
            return []
        rows = tx.all(
            "SELECT rowid FROM search_index WHERE search_index MATCH ? AND rowid < 0 "
            "ORDER BY rowid LIMIT ?",
            (expression.text, limit),
        )
        return [row[0] for row in rows]


def compile_tree(node: Node) -> _Expression | None:
    """Return the expression for a tree; None when the index cannot narrow it down."""
    if isinstance(node, Term):
        return _compile_term(node)
    if isinstance(node, Substring):
        return None
    if isinstance(node, Not):
        inner = compile_tree(node.node)
        if inner is None or not inner.exact:
            # Leaving out too much would lose matches.
            return None
        return _Expression(inner.text, not inner.complement, inner.exact)
    return _compile_all(node) if isinstance(node, And) else _compile_any(node)


def _compile_term(term: Term) -> _Expression:
    tokens = [
        encode_prefix(part.token) if part.prefix else encode(part.token) for part in term.parts
    ]
    star = " *" if term.parts[-1].prefix else ""
    exact = not any(is_cut(part.token) for part in term.parts)
    return _Expression(f'"{" ".join(tokens)}"{star}', exact=exact)


def _compile_all(node: And) -> _Expression | None:
    compiled = [compile_tree(child) for child in node.nodes]
    known = [expression for expression in compiled if expression is not None]
    if not known:
        return None
    exact = len(known) == len(compiled) and all(e.exact for e in known)
    wanted = [e.text for e in known if not e.complement]
    unwanted = [e.text for e in known if e.complement]
    if not wanted:
        return _Expression(_joined(unwanted, "OR"), complement=True, exact=exact)
    text = _joined(wanted, "AND")
    if unwanted:
        text = f"({text} NOT {_joined(unwanted, 'OR')})"
    return _Expression(text, exact=exact)


def _compile_any(node: Or) -> _Expression | None:
    compiled = [compile_tree(child) for child in node.nodes]
    if any(expression is None for expression in compiled):
        return None
    known = [expression for expression in compiled if expression is not None]
    exact = all(e.exact for e in known)
    wanted = [e.text for e in known if not e.complement]
    unwanted = [e.text for e in known if e.complement]
    if not unwanted:
        return _Expression(_joined(wanted, "OR"), exact=exact)
    if not exact:
        return None
    # a OR NOT b  =  NOT (b AND NOT a)
    text = _joined(unwanted, "AND")
    if wanted:
        text = f"({text} NOT {_joined(wanted, 'OR')})"
    return _Expression(text, complement=True, exact=True)


def _joined(texts: list[str], operator: str) -> str:
    if len(texts) == 1:
        return texts[0]
    return "(" + f" {operator} ".join(texts) + ")"
