"""Reading a server's answers, for as long as `ResponseTimeouts` says."""

from __future__ import annotations

import io
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import pymysql

from hermes_sessions.storage.servers.response_timeouts import (
    KEEPALIVE,
    LOST_AFTER_SECONDS,
    ResponseTimeouts,
    ResponseWait,
)

#: Names of options of the system's, not all of which are known everywhere, and their values.
_TCP: Final = {
    "TCP_KEEPIDLE": KEEPALIVE.idle,
    "TCP_KEEPINTVL": KEEPALIVE.interval,
    "TCP_KEEPCNT": KEEPALIVE.probes,
    "TCP_USER_TIMEOUT": LOST_AFTER_SECONDS * 1000,
}
_BUFFERED: Final = 64 * 1024


class ServerResponses(io.RawIOBase):
    """What arrives on one connection. The driver reads here instead of from its socket: there, a
    read that took too long could not be gone on with.
    """

    def __init__(
        self,
        connection: pymysql.Connection[Any],
        limits: ResponseTimeouts,
        is_alive: Callable[[], bool] | None,
    ) -> None:
        """Limit all that *connection* waits for; see `ResponseWait` for *is_alive*."""
        self._connection = vars(connection)
        self._socket: socket.socket = self._connection["_sock"]
        self._limits = limits
        self._is_alive = is_alive
        self._seconds = limits.statement
        #: Whether the server did not answer in time; the driver has closed the connection then.
        self.is_over = False
        self._connection["_write_timeout"] = limits.commit
        self._connection["_rfile"] = io.BufferedReader(self, _BUFFERED)
        self.prepare()
        _keep_alive(self._socket)

    def prepare(self) -> None:
        """Wait as long for what is asked next as allowed now; the driver looks here before every
        read.
        """
        is_probed = self._limits.is_probed(self._seconds)
        seconds = self._limits.probe_after if is_probed else self._seconds
        # Nearly always the same number, which spares a call to the system. To the driver, 0 means
        # something else.
        self._connection["_read_timeout"] = max(0.01, min(seconds, self._limits.seconds_left()))

    def _silence(self) -> ResponseWait:
        return ResponseWait(self._limits, self._seconds, self._is_alive)

    @contextmanager
    def allowing(self, seconds: float) -> Iterator[None]:
        """Allow each statement in the block this number of seconds."""
        before, self._seconds = self._seconds, seconds
        try:
            yield
        finally:
            self._seconds = before

    def committing(self) -> Any:
        """Let what commits in the block wait as long as a commit may."""
        return self.allowing(self._limits.commit)

    def probing(self) -> Any:
        """Let what only asks whether the server lives wait no longer than that may take."""
        return self.allowing(self._limits.probe)

    def readable(self) -> bool:
        """See `io.RawIOBase.readable`."""
        return True

    def readinto(self, buffer: Any) -> int:
        """See `io.RawIOBase.readinto`; raises `TimeoutError` when the connection is given up."""
        silence = self._silence()
        while True:
            try:
                return self._socket.recv_into(buffer)
            except TimeoutError:
                if silence.is_over():
                    self.is_over = True
                    raise TimeoutError(silence.complaint) from None
                seconds = self._connection["_current_timeout"] = silence.remaining()
                self._socket.settimeout(seconds)


def _keep_alive(connected: socket.socket) -> None:
    """Let the system notice a machine that is gone."""
    if connected.family in (socket.AF_INET, socket.AF_INET6):
        for name, value in _TCP.items():
            with suppress(OSError, AttributeError):
                connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
