"""The interfaces that a provider implements over its driver, for the code all servers share."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Protocol

from hermes_sessions.errors import StoreError
from hermes_sessions.storage.provider import Params, Row, WriteTransaction

if TYPE_CHECKING:
    from hermes_sessions.storage.servers.response_timeouts import ResponseTimeouts


class ForkAware(Protocol):
    """An object that is notified of a fork: a child must not use its parent's connections."""

    def reset_in_child(self) -> None:
        """Drop the inherited connections in a forked child; they belong to the parent."""


#: Kept as long as the process lives: closing them would end the parent's sessions.
_inherited: Final[list[Any]] = []


def keep_until_exit(connections: Any) -> None:
    """Keep inherited connections of a forked process open until it exits."""
    _inherited.append(connections)


class _Forking:
    def __init__(self) -> None:
        self._all: weakref.WeakSet[ForkAware] = weakref.WeakSet()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._tell)

    def watch(self, connections: ForkAware) -> None:
        self._all.add(connections)

    def _tell(self) -> None:
        for connections in list(self._all):
            connections.reset_in_child()


_forking: Final = _Forking()
#: Objects to notify of a fork, as long as they live.
watch: Final = _forking.watch


#: Seconds without a statement after which the server ends an open write transaction. Its process is
#: frozen or its machine is gone, and others wait for its rows, by default longer than this.
IDLE_WRITE_SECONDS: int = 15

#: Eleven days: the longest timeout that servers and the operating system accept.
MOST_SECONDS: float = 1_000_000.0

#: The condition for sessions whose messages do not change the recency of another session: listed
#: ones, and those that start an unlisted thread, such as a subagent's.
HAS_NO_OTHER_TIP: str = "(listed = 1 OR (chain_id = id AND tip_id IS NULL))"

#: Serializable; waiting for row locks instead; a consistent read.
Mode = Literal["isolated", "by row locks", "reading"]


class ServerOptions(Protocol):
    """The options that all server providers have."""

    @property
    def max_connections(self) -> int:
        """The most connections that may be open."""

    @property
    def lock_timeout(self) -> float:
        """Seconds that a unit of work waits for others."""

    @property
    def statement_timeout(self) -> float:
        """Seconds that one statement may take (0: no limit)."""

    @property
    def read_only(self) -> bool:
        """Whether the store is opened for reading only."""

    @property
    def seconds_left(self) -> Callable[[], float] | None:
        """See `OpenOptions.seconds_left`."""


class ConnectionSource(Protocol):
    """Connections to one server."""

    @property
    def limits(self) -> ResponseTimeouts:
        """Limits of the waits for the server."""

    @property
    def location(self) -> str:
        """The server and database, for messages; without secrets."""

    def acquire(self, patience: float) -> Any:
        """Return a connection outside any transaction; wait up to *patience* seconds."""

    def release(self, lent: Any, *, keep: bool = True) -> None:
        """Return a connection to the pool; without *keep*, close it."""

    def beside(self) -> Any:
        """Return connections to use while one of these is busy: the same pool, or a new one that
        the caller closes.
        """

    def close(self) -> None:
        """Close the idle connections."""


class DescribedRows(NamedTuple):
    """The result of a statement with the names of its columns."""

    #: Empty for a statement without rows.
    names: tuple[str, ...]
    rows: list[Row]
    #: How many rows the statement matched.
    matched: int


class ServerTransaction(WriteTransaction, Protocol):
    """A transaction on a server that can be committed or rolled back."""

    def described(self, sql: str, params: Params) -> DescribedRows:
        """Run any statement and return its result. May raise errors of the driver."""

    @property
    def lent(self) -> Any:
        """The connection of the transaction."""

    def commit(self, mark: str, *, is_noted: bool = False) -> None:
        """Store *mark*, unless that *is_noted* already, and commit, in one round trip.

        Returns only if the server shows that all of it is stored: one may report success for a
        transaction that it rolled back.
        """

    def end(self, how: Literal["COMMIT", "ROLLBACK"]) -> bool:
        """End the transaction if it is open; return whether its connection can be used again.
        Never raises errors of the driver.
        """


class Translation(NamedTuple):
    """The store's error for an error of a driver, and the next step for the user."""

    error: type[StoreError]
    says: str
    #: A sentence in the imperative, without its full stop.
    next_step: str

    def error_at(self, location: str, said: str) -> StoreError:
        """Return the error; *said* is the message of the server or driver."""
        return self.error(f"{location}: {self.says} ({said}). {self.next_step}.")


class DriverErrors(NamedTuple):
    """How to interpret the errors of a driver."""

    #: The base class of all its errors.
    base: type[Exception]
    #: Returns our error for one, which names the server.
    translate: Callable[[Any, str], StoreError]
    #: Whether only this attempt failed.
    is_retryable: Callable[[Any], bool]
    #: Whether a concurrent write may have caused the error: a unique key was taken, or a row is now
    #: referenced.
    is_collision: Callable[[Any], bool]
    #: Whether the connection can no longer be used.
    is_connection_lost: Callable[[Any, Any], bool]
