"""A TCP proxy that loses connections: before a request got through, or before its reply did."""

from __future__ import annotations

import random
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class Proxy:
    """Forwards to a port of the loopback address, and cuts connections as told."""

    def __init__(self, target: int, seed: int = 0) -> None:
        self._target = target
        self._random = random.Random(seed)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        #: How likely a piece of a request, or of a reply, is the one that gets lost.
        self.lost_requests = 0.0
        self.lost_replies = 0.0
        self.cuts = 0
        self._lock = threading.Lock()
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                client.close()
                continue
            for end in (client, server):
                # Like the ends themselves: else each further piece waits 40 ms for the first.
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._pairs.append((client, server))
            for source, sink, is_request in ((client, server, True), (server, client, False)):
                threading.Thread(
                    target=self._pump, args=(source, sink, is_request), daemon=True
                ).start()

    def _pump(self, source: socket.socket, sink: socket.socket, is_request: bool) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if self._is_lost(is_request):
                    break
                sink.sendall(data)
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        source.close()  # The other direction closes the other end.

    def _is_lost(self, is_request: bool) -> bool:
        likelihood = self.lost_requests if is_request else self.lost_replies
        with self._lock:
            if self._random.random() >= likelihood:
                return False
            self.cuts += 1
            return True

    def cut_all(self) -> None:
        """Lose every connection now."""
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            for end in pair:
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        # Closing alone does not end a wait for clients.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut_all()


@contextmanager
def proxy_to(port: int, seed: int = 0) -> Iterator[Proxy]:
    proxy = Proxy(port, seed)
    try:
        yield proxy
    finally:
        proxy.close()
