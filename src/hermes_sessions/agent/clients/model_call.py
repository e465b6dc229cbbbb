"""One call in progress: how it is interrupted, from the thread that reads it or any other."""

from __future__ import annotations

import socket
import threading
from collections.abc import Generator, Mapping
from contextlib import suppress
from typing import Any

from hermes_sessions.agent.clients.port import Event, ModelError


class ModelCall:
    """The socket of a call, from the moment it is connected, and whether the call is over."""

    def __init__(self) -> None:
        self.is_shut = threading.Event()
        self._stream: Any = None

    def note(self, name: str, info: Mapping[str, Any]) -> None:
        """Take note of a connection; httpx calls this for every step it takes."""
        if name.endswith(("connect_tcp.complete", "start_tls.complete")):
            self._stream = info["return_value"]
            if self.is_shut.is_set():
                self._wake()

    def shut(self) -> None:
        """End the call. Whoever reads its socket wakes up with an error; connecting goes on until
        it is done or out of time, and then ends.
        """
        self.is_shut.set()
        self._wake()

    def _wake(self) -> None:
        if self._stream is None:
            return
        connection = self._stream.get_extra_info("socket")
        if isinstance(connection, socket.socket):
            # Shut down beneath TLS, too: its farewell could wait for the other side.
            with suppress(OSError):
                socket.socket.shutdown(connection, socket.SHUT_RDWR)


class ReplyStream:
    """The events of one reply. `close` interrupts it, in any thread; then it is at its end."""

    def __init__(self, call: ModelCall, events: Generator[Event]) -> None:
        self._call = call
        self._events = events

    def __iter__(self) -> ReplyStream:
        return self

    def __next__(self) -> Event:
        if self._call.is_shut.is_set():
            raise StopIteration
        try:
            return next(self._events)
        except (ModelError, ValueError):
            # Shut meanwhile; a ValueError says that whoever did so is just closing the generator.
            if self._call.is_shut.is_set():
                raise StopIteration from None
            raise
        except BaseException:
            # Ctrl-C, and the end: nobody will read on.
            self._call.shut()
            raise

    def close(self) -> None:
        """Interrupt the model and close the connection; a second call does nothing."""
        self._call.shut()
        with suppress(ValueError):
            # Another thread is inside: it has been woken up and finishes by itself.
            self._events.close()
