"""An index that is asked with expressions of its own: what all of them do with a query tree."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Generic, TypeVar

from hermes_sessions.storage.provider import ReadTransaction
from hermes_sessions.storage.search.expressions import Expression
from hermes_sessions.storage.search.index_port import (
    EVERYWHERE,
    Candidates,
    Order,
    SearchIndex,
    Span,
    every_message,
)
from hermes_sessions.storage.search.sql_conditions import Where
from hermes_sessions.text.query.tree import Node

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
        self, tx: ReadTransaction, query: Q, where: Where, limit: int, order: Order, span: Span
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
        span: Span = EVERYWHERE,
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
