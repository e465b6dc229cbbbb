"""The base of the search indexes: compiles a query tree to an expression of the database.

A query with at least one wanted term is found in the index. A query with only excluded terms
compiles to the complement of an expression. Expressions contain only encoded tokens and fixed
operators, never the text of the query.
"""

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
from hermes_sessions.storage.search.sql_conditions import SQLCondition
from hermes_sessions.text.query.tree import And, Node, Not, Substring, Term
from hermes_sessions.text.token_encoder import encode, encode_prefix, is_cut

#: Databases parse expressions with a small stack. Deeper trees are matched message by message.
_DEEPEST: Final = 24


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression for the index; with ``complement``, everything that does not match it."""

    text: str
    complement: bool = False
    exact: bool = True
    #: Whether a term must be absent. The part of a long message that is not indexed may contain it.
    has_absent: bool = False


class Syntax(Protocol):
    """The expression syntax of one database."""

    def phrase(self, tokens: Sequence[str], *, prefix: bool) -> str:
        """Return one token or a phrase; with *prefix*, the last token is a prefix."""

    def every(self, texts: Sequence[str]) -> str:
        """Return the conjunction of two or more expressions."""

    def any(self, texts: Sequence[str]) -> str:
        """Return the disjunction of two or more expressions."""

    def exclude(self, wanted: str, unwanted: str) -> str:
        """Return *wanted* AND NOT *unwanted*."""


class OperatorSyntax:
    """A `Syntax` that joins expressions in parentheses with an operator."""

    def __init__(self, conjunction: str, disjunction: str) -> None:
        self._conjunction = conjunction
        self._disjunction = disjunction

    def every(self, texts: Sequence[str]) -> str:
        """See `Syntax.every`."""
        return f"({self._conjunction.join(texts)})"

    def any(self, texts: Sequence[str]) -> str:
        """See `Syntax.any`."""
        return f"({self._disjunction.join(texts)})"


def compile_tree(node: Node, syntax: Syntax) -> Expression | None:
    """Return the expression for a tree; None if the index cannot narrow it down."""
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
                # Negating an inexact expression would exclude messages that match.
                return None
            return Expression(inner.text, not inner.complement, has_absent=True)
        compiled = [self.compile(child, depth + 1) for child in node.nodes]
        return self._all(compiled) if isinstance(node, And) else self._any(compiled)

    def _term(self, term: Term) -> Expression:
        tokens = [
            encode_prefix(part.token) if part.prefix else encode(part.token) for part in term.parts
        ]
        exact = term.likeness is None and not any(is_cut(part.token) for part in term.parts)
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
            text = self._syntax.exclude(text, self._one_of(unwanted))
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
            text = self._syntax.exclude(text, self._one_of(wanted))
        return Expression(text, True, exact, has_absent)

    def _all_of(self, texts: list[str]) -> str:
        return texts[0] if len(texts) == 1 else self._syntax.every(texts)

    def _one_of(self, texts: list[str]) -> str:
        return texts[0] if len(texts) == 1 else self._syntax.any(texts)


#: The compiled query of one database.
Q = TypeVar("Q")


class CompiledIndex(SearchIndex, Generic[Q]):
    """A `SearchIndex` that compiles query trees to expressions of its database."""

    @abstractmethod
    def _compiled(self, node: Node) -> tuple[Expression, Q] | None:
        """Return the expression and its compiled query; None if the index cannot narrow it down."""

    @abstractmethod
    def _translate_damage(self, tx: ReadTransaction) -> AbstractContextManager[None]:
        """Return a context that raises `IndexDamaged` for the database's errors of damage."""

    @abstractmethod
    def _matching(
        self,
        tx: ReadTransaction,
        query: Q,
        where: SQLCondition,
        limit: int,
        order: Order,
        span: IdRange,
    ) -> list[int]:
        """Return ids of messages that match, as `SearchIndex.messages` does."""

    @abstractmethod
    def _not_matching(self, query: Q) -> SQLCondition:
        """Return the condition for messages ``m`` that may not match the query."""

    @abstractmethod
    def _unsure(
        self, tx: ReadTransaction, ids: Sequence[int], expression: Expression
    ) -> frozenset[int]:
        """Return those of *ids* (not empty) whose text must be read to decide."""

    @abstractmethod
    def _matching_titles(
        self, tx: ReadTransaction, query: Q, limit: int, beyond: int | None
    ) -> list[int]:
        """Return numbers (negative) of title documents above *beyond*, in ascending order."""

    def messages(
        self,
        tx: ReadTransaction,
        node: Node,
        where: SQLCondition,
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
        with self._translate_damage(tx):
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
        # Title numbers are negative in the index, so ascending order is the last stored first.
        with self._translate_damage(tx):
            found = self._matching_titles(
                tx, compiled[1], limit, None if beyond is None else -beyond
            )
        return [-number for number in found]
