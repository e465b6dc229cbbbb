"""The interface of a database's inverted index.

An index contains the encoded tokens of each message. It returns the messages that may match a query
tree, in the requested order; shared code decides. The index is derived data: damage raises
`IndexDamaged` and leads to a rebuild, never to an empty answer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from hermes_sessions.errors import HermesSessionsError
from hermes_sessions.storage.provider import ReadTransaction, WriteTransaction
from hermes_sessions.storage.search.sql_conditions import SQLCondition
from hermes_sessions.text.query.tree import Node

#: The order of ids ("stored"), or of timestamps ("newest", "oldest").
Order = Literal["last stored", "first stored", "newest", "oldest"]


class IdRange(NamedTuple):
    """The ids between two bounds, both exclusive. An index contains messages with ids above 0."""

    above: int = 0
    below: int | None = None

    def as_sql(self, column: str) -> SQLCondition:
        """Return the condition on a column of ids."""
        where = SQLCondition(f"{column} > ?", (self.above,))
        return where if self.below is None else where & SQLCondition(f"{column} < ?", (self.below,))


EVERYWHERE = IdRange()


class IndexDamaged(HermesSessionsError):
    """The index cannot be read or written and must be rebuilt. The messages are not affected."""


@dataclass(frozen=True, slots=True)
class IndexDocument:
    """The encoded tokens of one message, or of one title (negative number)."""

    number: int
    tokens: str


@dataclass(frozen=True, slots=True)
class Candidates:
    """Messages that may match, in the requested order."""

    ids: list[int]
    #: Whether all of them match, except those in `unsure`, so that no text has to be read.
    exact: bool
    #: Whether the index narrowed them down; if not, they are just the first messages.
    narrowed: bool
    #: Messages whose text must be read in any case, because the index contains only a part of it.
    unsure: frozenset[int] = frozenset()

    def must_be_decided(self, number: int) -> bool:
        """Whether the text of this candidate must be read to decide."""
        return not self.exact or number in self.unsure


class SearchIndex(ABC):
    """A database's index of documents. Every method may raise `IndexDamaged` unless it says no."""

    @abstractmethod
    def add(self, tx: WriteTransaction, documents: Sequence[IndexDocument]) -> None:
        """Add documents whose numbers are not in the index yet."""

    @abstractmethod
    def remove(self, tx: WriteTransaction, numbers: Sequence[int]) -> None:
        """Remove documents; unknown numbers are ignored."""

    @abstractmethod
    def clear(self, tx: WriteTransaction) -> None:
        """Remove all documents, and recreate whatever may be damaged."""

    @abstractmethod
    def tidy(self, tx: WriteTransaction) -> bool:
        """Do one bounded step of merging; return whether another step is worthwhile."""

    @abstractmethod
    def compact(self, tx: WriteTransaction, *, first: bool) -> bool:
        """Do one bounded step of purging removed documents from the index; return whether more
        steps are needed. *first* is True for the first step.
        """

    @abstractmethod
    def is_sound(self, tx: ReadTransaction) -> bool:
        """Return whether a quick check finds the index usable. Never raises."""

    def is_locked(self, tx: ReadTransaction) -> bool:  # noqa: ARG002
        """Whether reading the index would wait for another connection that replaces it."""
        return False

    @abstractmethod
    def damage(self, tx: ReadTransaction) -> str | None:
        """Return the damage that a thorough check finds, or None. Never raises `IndexDamaged`."""

    @abstractmethod
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
        """Return up to *limit* messages in *span* that satisfy *where* and may match *node*."""

    @abstractmethod
    def titles(
        self, tx: ReadTransaction, node: Node, *, limit: int, beyond: int | None = None
    ) -> list[int]:
        """Return numbers of title documents that may match, the last stored first; *beyond* is
        the last number of the previous page.
        """

    @abstractmethod
    def has_truncated_message(self, tx: ReadTransaction, where: SQLCondition) -> bool:
        """Return whether a message that satisfies *where* is too long to be indexed completely."""


def every_message(
    tx: ReadTransaction,
    where: SQLCondition,
    *,
    limit: int,
    order: Order = "last stored",
    span: IdRange | None = None,
) -> list[int]:
    """Return ids of messages as `SearchIndex.messages` does, whatever their text; without a *span*,
    also of messages with ids below 1, which no index contains.
    """
    if span is not None:
        where &= span.as_sql("m.id")
    rows = tx.all(
        f"SELECT m.id FROM messages m JOIN sessions s ON s.id = m.session_id "
        f"WHERE {where.sql} ORDER BY {order_by(order)} LIMIT ?",
        (*where.params, limit),
    )
    return [row[0] for row in rows]


def order_by(order: Order, number: str = "m.id") -> str:
    """Return the ORDER BY terms; *number* is the column of message ids."""
    if order in ("last stored", "first stored"):
        return f"{number} {'DESC' if order == 'last stored' else 'ASC'}"
    direction = "DESC" if order == "newest" else "ASC"
    return ", ".join(f"m.{name} {direction}" for name in ("timestamp", "session_id", "ordinal"))
