"""The port behind which a database's inverted index stands.

An index holds, for each message, the encoded tokens of its document. It answers which messages may
match a query tree, newest first; shared code decides. A database without a full-text engine uses
`NoIndex`: every message is a candidate.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from hermes_sessions.storage.provider import ReadTransaction, WriteTransaction
from hermes_sessions.storage.searching.conditions import Where
from hermes_sessions.text.query.tree import Node


@dataclass(frozen=True, slots=True)
class Document:
    """The encoded tokens of one message, or of one title (negative number)."""

    number: int
    tokens: str


@dataclass(frozen=True, slots=True)
class Candidates:
    """Messages that may match, in the order asked for."""

    ids: list[int]
    #: Whether every one of them matches, so that nothing needs to be decided.
    exact: bool
    #: Whether the index narrowed them down; if not, they are simply the newest messages.
    narrowed: bool


class SearchIndex(ABC):
    """One database's index of documents."""

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
    def messages(
        self, tx: ReadTransaction, node: Node, where: Where, *, limit: int, oldest: bool = False
    ) -> Candidates:
        """Return the newest (or *oldest*) messages that may match *node* and satisfy *where*."""

    @abstractmethod
    def titles(self, tx: ReadTransaction, node: Node, *, limit: int) -> list[int]:
        """Return numbers of title documents that may match."""
