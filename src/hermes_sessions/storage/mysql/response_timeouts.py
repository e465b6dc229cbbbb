"""Read a server's responses, within the limits of `ResponseTimeouts`."""

from __future__ import annotations

import io
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import pymysql

from hermes_sessions.storage.servers.response_timeouts import (
    KEEPALIVE,
    LOST_AFTER_SECONDS,
    LimitedStatements,
    ResponseTimeouts,
    ResponseWait,
)

#: Socket options and their values; not every system has all of them.
_TCP: Final = {
    "TCP_KEEPIDLE": KEEPALIVE.idle,
    "TCP_KEEPINTVL": KEEPALIVE.interval,
    "TCP_KEEPCNT": KEEPALIVE.probes,
    "TCP_USER_TIMEOUT": LOST_AFTER_SECONDS * 1000,
}
_BUFFERED: Final = 64 * 1024


class ServerResponses(LimitedStatements, io.RawIOBase):
    """The responses on one connection. The driver reads them here instead of from its socket, where
    it could not continue a read that timed out.
    """

    def __init__(
        self,
        connection: pymysql.Connection[Any],
        limits: ResponseTimeouts,
        is_alive: Callable[[], bool] | None,
    ) -> None:
        """Limit all waits of *connection*; see `ResponseWait` for *is_alive*."""
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
        """Set the limit that applies now; the driver uses it for its next reads."""
        is_probed = self._limits.is_probed(self._seconds)
        seconds = self._limits.probe_after if is_probed else self._seconds
        # Nearly always the same number, which saves a system call. The driver gives 0 another
        # meaning.
        self._connection["_read_timeout"] = max(0.01, min(seconds, self._limits.seconds_left()))

    def _silence(self) -> ResponseWait:
        return ResponseWait(self._limits, self._seconds, self._is_alive)

    def probing(self) -> Any:
        """Apply the limit of a liveness check to the waits in the block."""
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
    """Enable TCP keepalive, so that the system notices a machine that is down."""
    if connected.family in (socket.AF_INET, socket.AF_INET6):
        for name, value in _TCP.items():
            with suppress(OSError, AttributeError):
                connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
