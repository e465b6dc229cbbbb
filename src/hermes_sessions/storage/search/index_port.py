"""The port behind which a database's inverted index stands.

An index holds, for each message, the encoded tokens of its document. It answers which messages may
match a query tree, in the order asked for; shared code decides. It is derived: what is wrong with
it is reported as `IndexDamaged` and mended by making it anew, never shown as an empty answer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from hermes_sessions.errors import HermesSessionsError
from hermes_sessions.storage.provider import ReadTransaction, WriteTransaction
from hermes_sessions.storage.search.sql_conditions import Where
from hermes_sessions.text.query.tree import Node

#: By when messages were stored (the order of their ids), or by their time.
Order = Literal["last stored", "first stored", "newest", "oldest"]


class IdRange(NamedTuple):
    """Ids above the first and below the second; an index holds messages with ids above 0."""

    above: int = 0
    below: int | None = None

    def as_sql(self, column: str) -> Where:
        """Return the condition on a column of ids."""
        where = Where(f"{column} > ?", (self.above,))
        return where if self.below is None else where & Where(f"{column} < ?", (self.below,))


EVERYWHERE = IdRange()


class IndexDamaged(HermesSessionsError):
    """The index cannot be read or written, and has to be made anew. The messages are fine."""


@dataclass(frozen=True, slots=True)
class Document:
    """The encoded tokens of one message, or of one title (negative number)."""

    number: int
    tokens: str


@dataclass(frozen=True, slots=True)
class Candidates:
    """Messages that may match, in the order asked for."""

    ids: list[int]
    #: Whether every one of them matches, so that nothing needs to be decided; but for `unsure`.
    exact: bool
    #: Whether the index narrowed them down; if not, they are simply the newest messages.
    narrowed: bool
    #: Those that have to be looked at even so: the index does not hold all of their text.
    unsure: frozenset[int] = frozenset()

    def must_be_decided(self, number: int) -> bool:
        """Whether the text of this candidate has to be looked at."""
        return not self.exact or number in self.unsure


class SearchIndex(ABC):
    """One database's index of documents. Every method may raise `IndexDamaged`."""

    @abstractmethod
    def add(self, tx: WriteTransaction, documents: Sequence[Document]) -> None:
        """Store documents whose numbers are not in the index."""

    @abstractmethod
    def remove(self, tx: WriteTransaction, numbers: Sequence[int]) -> None:
        """Forget documents; numbers that are not in the index are ignored."""

    @abstractmethod
    def clear(self, tx: WriteTransaction) -> None:
        """Forget everything, and mend what may be damaged."""

    @abstractmethod
    def tidy(self, tx: WriteTransaction) -> bool:
        """Do a bounded piece of housekeeping; return whether more is worth doing."""

    @abstractmethod
    def compact(self, tx: WriteTransaction, *, first: bool) -> bool:
        """Do a bounded piece of the work that leaves no trace of removed documents in the index;
        return whether more is to be done. *first* starts it.
        """

    @abstractmethod
    def is_sound(self, tx: ReadTransaction) -> bool:
        """Whether the index can be relied on, as far as a quick look shows. Never raises."""

    @abstractmethod
    def damage(self, tx: ReadTransaction) -> str | None:
        """Return what a thorough check finds wrong, or None. Never raises `IndexDamaged`."""

    @abstractmethod
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
        """Return the first messages of a *span*, in this order, that may match *node* and satisfy
        *where*.
        """

    @abstractmethod
    def titles(
        self, tx: ReadTransaction, node: Node, *, limit: int, beyond: int | None = None
    ) -> list[int]:
        """Return numbers of title documents that may match, the last stored first; *beyond* is
        the last number of the page before.
        """

    @abstractmethod
    def has_cut(self, tx: ReadTransaction, where: Where) -> bool:
        """Whether a message that satisfies *where* is so long that the index lacks a part of it."""


def every_message(
    tx: ReadTransaction,
    where: Where,
    *,
    limit: int,
    order: Order = "last stored",
    span: IdRange | None = None,
) -> list[int]:
    """Return ids of messages as `SearchIndex.messages` does, whatever they say; without a *span*,
    also those that no index holds.
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
    """Return the terms of ORDER BY; *number* is the column of message ids."""
    if order in ("last stored", "first stored"):
        return f"{number} {'DESC' if order == 'last stored' else 'ASC'}"
    direction = "DESC" if order == "newest" else "ASC"
    return ", ".join(f"m.{name} {direction}" for name in ("timestamp", "session_id", "ordinal"))
