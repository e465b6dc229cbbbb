"""An index that is asked with expressions of its own: what all of them do with a query tree."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

from hermes_sessions.storage.provider import ReadTransaction
from hermes_sessions.storage.search.index_port import (
    EVERYWHERE,
    Candidates,
    IdRange,
    Order,
    SearchIndex,
    every_message,
)
from hermes_sessions.storage.search.sql_conditions import Where
from hermes_sessions.text.query.tree import And, Node, Not, Substring, Term
from hermes_sessions.text.token_encoder import encode, encode_prefix, is_cut

# From a query tree to one expression of a database's own, possibly complemented.
#
# What has at least one wanted term is found in the index; what has only unwanted ones is everything
# but the complement. Only encoded tokens and fixed operators are in the text, whatever was asked.

#: Databases read expressions with a small stack; deeper trees are decided message by message.
_DEEPEST: Final = 24


@dataclass(frozen=True, slots=True)
class Expression:
    """What to ask the index; ``complement`` means everything that does not match it."""

    text: str
    complement: bool = False
    exact: bool = True
    #: Whether something in it must be absent: a message that the index holds in part may have it.
    has_absent: bool = False


class Syntax(Protocol):
    """How one database writes expressions."""

    def phrase(self, tokens: Sequence[str], *, prefix: bool) -> str:
        """One token, or several in a row; with *prefix*, the last may go on."""

    def every(self, texts: Sequence[str]) -> str:
        """All of at least two."""

    def any(self, texts: Sequence[str]) -> str:
        """One of at least two."""

    def but_not(self, wanted: str, unwanted: str) -> str:
        """The first without the second."""


def compile_tree(node: Node, syntax: Syntax) -> Expression | None:
    """Return the expression for a tree; None when the index cannot narrow it down."""
    return _Compiler(syntax).compile(node, 0)


class _Compiler:
    def __init__(self, syntax: Syntax) -> None:
        self._syntax = syntax

    def compile(self, node: Node, depth: int) -> Expression | None:
        if isinstance(node, Term):
            return self._term(node)
        if isinstance(node, Substring) or depth > _DEEPEST:
            return None
        if isinstance(node, Not):
            inner = self.compile(node.node, depth)
            if inner is None or not inner.exact:
                # Leaving out too much would lose matches.
                return None
            return Expression(inner.text, not inner.complement, has_absent=True)
        compiled = [self.compile(child, depth + 1) for child in node.nodes]
        return self._all(compiled) if isinstance(node, And) else self._any(compiled)

    def _term(self, term: Term) -> Expression:
        tokens = [
            encode_prefix(part.token) if part.prefix else encode(part.token) for part in term.parts
        ]
        exact = not any(is_cut(part.token) for part in term.parts)
        return Expression(self._syntax.phrase(tokens, prefix=term.parts[-1].prefix), exact=exact)

    def _all(self, compiled: list[Expression | None]) -> Expression | None:
        known = [expression for expression in compiled if expression is not None]
        if not known:
            return None
        exact = len(known) == len(compiled) and all(e.exact for e in known)
        has_absent = any(e.has_absent for e in known)
        wanted = [e.text for e in known if not e.complement]
        unwanted = [e.text for e in known if e.complement]
        if not wanted:
            return Expression(self._one_of(unwanted), True, exact, has_absent)
        text = self._all_of(wanted)
        if unwanted:
            text = self._syntax.but_not(text, self._one_of(unwanted))
        return Expression(text, False, exact, has_absent)

    def _any(self, compiled: list[Expression | None]) -> Expression | None:
        known = [expression for expression in compiled if expression is not None]
        if len(known) < len(compiled):
            return None
        exact = all(e.exact for e in known)
        has_absent = any(e.has_absent for e in known)
        wanted = [e.text for e in known if not e.complement]
        unwanted = [e.text for e in known if e.complement]
        if not unwanted:
            return Expression(self._one_of(wanted), False, exact, has_absent)
        if not exact:
            return None
        # a OR NOT b  =  NOT (b AND NOT a)
        text = self._all_of(unwanted)
        if wanted:
            text = self._syntax.but_not(text, self._one_of(wanted))
        return Expression(text, True, exact, has_absent)

    def _all_of(self, texts: list[str]) -> str:
        return texts[0] if len(texts) == 1 else self._syntax.every(texts)

    def _one_of(self, texts: list[str]) -> str:
        return texts[0] if len(texts) == 1 else self._syntax.any(texts)


#: What an index is asked with.
Q = TypeVar("Q")


class CompiledIndex(SearchIndex, Generic[Q]):
    """See `SearchIndex`."""

    @abstractmethod
    def _compiled(self, node: Node) -> tuple[Expression, Q] | None:
        """Return what is known about the expression, and how to ask it; None when the index cannot
        narrow the question down.
        """

    @abstractmethod
    def _noticing_damage(self, tx: ReadTransaction) -> AbstractContextManager[None]:
        """Raise `IndexDamaged` for what the database raises over a damaged index."""

    @abstractmethod
    def _matching(
        self, tx: ReadTransaction, query: Q, where: Where, limit: int, order: Order, span: IdRange
    ) -> list[int]:
        """Return messages that match, as `SearchIndex.messages` does."""

    @abstractmethod
    def _not_matching(self, query: Q) -> Where:
        """Return what is true of messages ``m`` that may not match."""

    @abstractmethod
    def _unsure(
        self, tx: ReadTransaction, ids: Sequence[int], expression: Expression
    ) -> frozenset[int]:
        """Return those of *ids*, at least one, whose text has to be looked at."""

    @abstractmethod
    def _matching_titles(
        self, tx: ReadTransaction, query: Q, limit: int, beyond: int | None
    ) -> list[int]:
        """Return numbers of title documents, which are negative, in ascending order, those above
        *beyond*.
        """

    def messages(
        self,
        tx: ReadTransaction,
        node: Node,
        where: Where,
        *,
        limit: int,
        order: Order = "last stored",
        span: IdRange = EVERYWHERE,
    ) -> Candidates:
        """See `SearchIndex.messages`."""
        compiled = self._compiled(node)
        if compiled is None:
            ids = every_message(tx, where, limit=limit, order=order, span=span)
            return Candidates(ids, exact=False, narrowed=False)
        expression, query = compiled
        with self._noticing_damage(tx):
            if expression.complement:
                where &= self._not_matching(query)
                ids = every_message(tx, where, limit=limit, order=order, span=span)
            else:
                ids = self._matching(tx, query, where, limit, order, span)
            unsure = self._unsure(tx, ids, expression) if ids else frozenset()
        return Candidates(ids, exact=expression.exact, narrowed=True, unsure=unsure)

    def titles(
        self, tx: ReadTransaction, node: Node, *, limit: int, beyond: int | None = None
    ) -> list[int]:
        """See `SearchIndex.titles`."""
        compiled = self._compiled(node)
        if compiled is None or compiled[0].complement:
            return []
        # Their numbers are negative in the index, so the last stored come first.
        with self._noticing_damage(tx):
            found = self._matching_titles(
                tx, compiled[1], limit, None if beyond is None else -beyond
            )
        return [-number for number in found]
