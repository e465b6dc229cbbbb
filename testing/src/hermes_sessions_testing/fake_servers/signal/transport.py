"""The transport of the fake signal-cli daemon: JSON-RPC lines over sockets."""

from __future__ import annotations

import json
import queue
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

#: Seconds until a wait is a failure; far longer than any test needs.
_PATIENCE: Final = 60.0


class Peer:
    """A connected client. `write` may be called from any thread and does not block."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._unsent: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._send, name="signal-writer", daemon=True)
        self._thread.start()

    def write(self, said: object) -> None:
        """Send an object as a line of JSON."""
        self.write_raw(json.dumps(said, separators=(",", ":")).encode() + b"\n")

    def write_raw(self, content: bytes) -> None:
        """Send raw bytes; they are lost if the client has disconnected."""
        self._unsent.put(content)

    def _send(self) -> None:
        with suppress(OSError):
            while (content := self._unsent.get()) is not None:
                self._connection.sendall(content)

    def cut(self) -> None:
        """Drop the connection."""
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    def lines(self) -> Iterator[bytes]:
        """Yield the client's lines until it disconnects."""
        with suppress(OSError), self._connection.makefile("rb") as file:
            yield from file

    def close(self) -> None:
        """Release the socket."""
        self.cut()
        self._unsent.put(None)
        self._thread.join(_PATIENCE)
        self._connection.close()


class LineServer:
    """A local server, on a port or a socket path, that listens from its creation until `close`."""

    def __init__(self, serve: Callable[[Peer], None], path: Path | None = None) -> None:
        self._serve = serve
        self._peers: set[Peer] = set()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._is_over = False
        if path is None:
            self._socket = socket.create_server(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"
        else:
            self._socket = socket.socket(socket.AF_UNIX)
            self._socket.bind(str(path))
            self._socket.listen()
            self.address = f"unix:{path}"
        self._thread = threading.Thread(target=self._accept, name="signal-daemon", daemon=True)
        self._thread.start()

    def cut_all(self) -> None:
        """Drop every open connection."""
        with self._lock:
            for peer in self._peers:
                peer.cut()

    def close(self) -> None:
        """Stop listening and close every connection. A second call does nothing."""
        with self._lock:
            if self._is_over:
                return
            self._is_over = True
        # Closing alone does not wake the thread that accepts connections.
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(_PATIENCE)
        self._socket.close()
        self.cut_all()
        for thread in self._threads:
            thread.join(_PATIENCE)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            peer = Peer(connection)
            thread = threading.Thread(
                target=self._attend, args=(peer,), name="signal-client", daemon=True
            )
            with self._lock:
                if self._is_over:
                    peer.close()
                    return
                self._peers.add(peer)
                self._threads.append(thread)
            thread.start()

    def _attend(self, peer: Peer) -> None:
        try:
            self._serve(peer)
        finally:
            with self._lock:
                self._peers.discard(peer)
            peer.close()
