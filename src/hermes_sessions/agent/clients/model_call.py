"""A running call of a model, which any thread can interrupt."""

from __future__ import annotations

import socket
import threading
from collections.abc import Generator, Mapping
from contextlib import suppress
from typing import Any

from hermes_sessions.agent.clients.port import Event, ModelError


class ModelCall:
    """The socket of a call, once it is connected, and whether the call is over."""

    def __init__(self) -> None:
        self.is_shut = threading.Event()
        self._stream: Any = None

    def note(self, name: str, info: Mapping[str, Any]) -> None:
        """Remember the connection; httpx calls this for every step of a request."""
        if name.endswith(("connect_tcp.complete", "start_tls.complete")):
            self._stream = info["return_value"]
            if self.is_shut.is_set():
                self._wake()

    def shut(self) -> None:
        """End the call. A thread that reads its socket gets an error; a thread that is connecting
        finishes or times out first.
        """
        self.is_shut.set()
        self._wake()

    def _wake(self) -> None:
        if self._stream is None:
            return
        connection = self._stream.get_extra_info("socket")
        if isinstance(connection, socket.socket):
            # Shut down below TLS, whose closing handshake could wait for the other side.
            with suppress(OSError):
                socket.socket.shutdown(connection, socket.SHUT_RDWR)


class ReplyStream:
    """The events of one reply. `close` interrupts it from any thread and ends the iterator."""

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
            # Closed meanwhile; a ValueError means that another thread is closing the generator.
            if self._call.is_shut.is_set():
                raise StopIteration from None
            raise
        except BaseException:
            # After Ctrl-C or the end, no caller reads on.
            self._call.shut()
            raise

    def close(self) -> None:
        """Interrupt the model and close the connection; further calls have no effect."""
        self._call.shut()
        with suppress(ValueError):
            # Another thread is inside: it was woken up and finishes by itself.
            self._events.close()
