"""Wait for a server's responses, within the limits of `ResponseTimeouts`."""

from __future__ import annotations

import select
from collections.abc import Callable, Generator
from functools import partial
from typing import Any, Final, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.errors import Diagnostic
from psycopg.waiting import Ready, Wait

from hermes_sessions.storage.servers.response_timeouts import (
    LimitedStatements,
    ResponseTimeouts,
    ResponseWait,
)

T = TypeVar("T")

#: The function of the server that waits for standbys; its message depends on the server's locale.
_REPLICATION_WAIT: Final = "SyncRepWaitForLSN"


class ServerResponses(LimitedStatements):
    """The state of one connection, and the limits of its waits.

    A connection that is given up is closed at once and never used again.
    """

    def __init__(
        self, limits: ResponseTimeouts, is_alive: Callable[[psycopg.Connection], bool] | None
    ) -> None:
        """See `ResponseWait` for *is_alive*."""
        #: The names of the statements prepared on the connection.
        self.prepared: set[bytes] = set()
        self._limits = limits
        self._is_alive = is_alive
        self._seconds = limits.statement
        self._is_unreplicated = False

    def bind(self, connection: psycopg.Connection) -> None:
        """Limit all waits of the driver on *connection*."""
        connection.add_notice_handler(self._look_at)
        # The driver has no other way to limit the waits of a connection.
        setattr(connection, "wait", partial(self._wait, connection))  # noqa: B010

    def unbind(self, connection: psycopg.Connection) -> None:
        """Let *connection* wait as it did before `bind`."""
        connection.remove_notice_handler(self._look_at)
        delattr(connection, "wait")

    def _silence(self, connection: psycopg.Connection, seconds: float) -> ResponseWait:
        is_alive = None if self._is_alive is None else partial(self._is_alive, connection)
        return ResponseWait(self._limits, seconds, is_alive)

    # ── waits of the driver ───────────────────────────────────────────────────────────────────

    def _wait(
        self, connection: psycopg.Connection, gen: PQGen[T], *arguments: Any, **named: Any
    ) -> T:
        """See `psycopg.Connection.wait`, which looks up ten times a second."""
        steps = _until(gen, connection, self._silence(connection, self._seconds))
        result: T = type(connection).wait(connection, steps, *arguments, **named)
        self.require_replicated(connection)
        return result

    # ── waits below the driver's cursors ──────────────────────────────────────────────────────

    def wait_for(self, connection: psycopg.Connection) -> Callable[[bool], None]:
        """Return a function that waits until the socket can be read, or with True, written; its
        limit is that of a commit.

        It raises `psycopg.OperationalError` when the connection is given up.
        """
        silence = self._silence(connection, self._limits.commit)
        descriptor = connection.pgconn.socket

        def wait(writing: bool) -> None:
            while not _is_ready(descriptor, silence.remaining(), writing):
                if silence.is_over():
                    _give_up(connection, silence.complaint)
            silence.heard()

        return wait

    # ── standbys ──────────────────────────────────────────────────────────────────────────────

    def _look_at(self, notice: Diagnostic) -> None:
        if notice.source_function == _REPLICATION_WAIT:
            self._is_unreplicated = True

    def require_replicated(self, connection: psycopg.Connection) -> None:
        """Give the connection up if the server stopped waiting for a standby: the commit that it
        reported may be lost with the server. Whether the standby has the commit is then checked as
        after any lost connection.
        """
        if self._is_unreplicated:
            _give_up(connection, "the server did not wait until a standby had the commit")


def _until(
    steps: PQGen[T], connection: psycopg.Connection, silence: ResponseWait
) -> Generator[Wait, Ready | int, T]:
    try:
        wanted = next(steps)
        while True:
            ready = yield wanted
            if ready:
                silence.heard()
            elif silence.is_over():
                _give_up(connection, silence.complaint)
            wanted = steps.send(ready)
    except StopIteration as end:
        result: T = end.value
        return result


def _give_up(connection: psycopg.Connection, why: str) -> None:
    connection.pgconn.finish()
    raise psycopg.OperationalError(why)


def _is_ready(descriptor: int, seconds: float, writing: bool) -> bool:
    """Wait in Python, so that Ctrl-C interrupts it; return whether the socket is ready."""
    if not hasattr(select, "poll"):  # On Windows.
        return any(select.select([descriptor], [descriptor] if writing else [], [], seconds))
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN | select.POLLOUT if writing else select.POLLIN)
    return bool(waiting.poll(seconds * 1000))
