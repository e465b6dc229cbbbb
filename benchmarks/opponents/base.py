"""What an opponent is, and the verbs a scenario may ask of its store.

An opponent's file is imported by the harness, which only reads the facts, and by the worker in
the opponent's own environment, which opens the store. So an opponent imports its library inside
the functions that need it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from benchmarks.corpus import CorpusMessage, CorpusSession
from benchmarks.environments import Environment

ServerKind = Literal["postgresql", "mysql"]


class Store(Protocol):
    """The verbs every opponent has."""

    def create_session(self, session: CorpusSession) -> None:
        """Make the session known, without its messages."""

    def append(self, session_id: str, message: CorpusMessage) -> None:
        """Store one message durably; returns when the library says it is stored."""

    def contents(self, session_id: str) -> list[str]:
        """The contents of a session's messages, in order."""

    def count_messages(self) -> int:
        """The number of stored messages, for the check after each run."""

    def close(self) -> None:
        """Release the file."""


class AgentStore(Store, Protocol):
    """The further verbs of a full session store."""

    def list_recent(self, limit: int) -> list[str]:
        """Session ids, the most recently active first."""

    def conversation(self, session_id: str) -> list[dict[str, Any]]:
        """The messages in the shape a model provider takes: what resuming reads."""

    def search(self, query: str, limit: int, sort: str | None = None) -> list[dict[str, Any]]:
        """The messages that match, each with its snippet and context; best first by default."""

    def complete_index(self) -> None:
        """Return when every stored message is in the search index."""

    def end(self, session_id: str, reason: str) -> None:
        """End a session, which makes it a candidate for pruning."""

    def reopen(self, session_id: str) -> None:
        """Undo :meth:`end`."""

    def prune_ended(self) -> int:
        """Delete every ended session; returns how many went."""


@dataclass(frozen=True, kw_only=True)
class Opponent:
    """One competitor: how it is installed, opened and filled."""

    name: str
    label: str
    environment: Environment
    #: Takes the store's file; for a store on a server, a file that holds its URL.
    open: Callable[[Path], Store]
    #: The server that its stores are on; None for files.
    server: ServerKind | None = None
    #: Fills a new file quickly; equal to appending message by message, not measured.
    load: Callable[[Path, Iterable[CorpusSession]], None] | None = None
    #: Opens the full set of verbs; None for stores that have none of them.
    open_agent: Callable[[Path], AgentStore] | None = None
    #: The rows ``conversation`` needs, by the same driver with nothing on top.
    select_rows: Callable[[Path], Callable[[str], list[Any]]] | None = None
    #: Turns a query into the bare form of it: the 20 best row ids, by the same driver and index.
    bare_search: Callable[[Path], Callable[[str], Callable[[], list[Any]]]] | None = None
    #: The version of the SQLite library it runs on; nothing for stores on a server.
    sqlite_version: Callable[[], str] = lambda: ""
    #: Whether slow scenarios give it less to do; our own store always does the full amount.
    is_reference: bool = True
