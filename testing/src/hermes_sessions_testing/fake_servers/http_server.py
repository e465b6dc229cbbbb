"""HTTP server and client code of the fake messenger servers."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from abc import abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

_PATIENCE: Final = 60.0


class LocalHttpServer(ThreadingHTTPServer):
    """A local HTTP server that listens from its creation until `close`."""

    daemon_threads = False  # closing waits for the threads

    def __init__(self, handler: type[LocalHandler]) -> None:
        self._lock = threading.Lock()
        self._connections: set[socket.socket] = set()
        self._is_over = False
        super().__init__(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(
            target=self.serve_forever, args=(0.01,), name="local-http", daemon=True
        )
        self._thread.start()

    @property
    def address(self) -> str:
        """Its URL."""
        host, port = self.server_address[:2]
        return f"http://{host!s}:{port}"

    def close(self) -> None:
        """Stop listening and close every connection. A second call does nothing."""
        if self._is_over:
            return
        self.shutdown()
        self._is_over = True
        self.drop_connections()
        self.server_close()
        self._thread.join()

    def drop_connections(self) -> None:
        """Drop every open connection."""
        with self._lock:
            for connection in self._connections:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def enter(self, connection: socket.socket) -> None:
        """Register a connection. Called by handlers."""
        with self._lock:
            self._connections.add(connection)
            if self._is_over:  # accepted while the server was closing
                connection.shutdown(socket.SHUT_RDWR)

    def leave(self, connection: socket.socket) -> None:
        """Unregister a connection. Called by handlers."""
        with self._lock:
            self._connections.discard(connection)

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore clients that disconnect; tests do that on purpose."""


class LocalHandler(BaseHTTPRequestHandler):
    """Handles the requests of one connection with `respond`."""

    protocol_version = "HTTP/1.1"
    server: LocalHttpServer
    connection: socket.socket

    def setup(self) -> None:
        """Register the connection."""
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.server.enter(self.connection)

    def finish(self) -> None:
        """Unregister the connection."""
        self.server.leave(self.connection)
        super().finish()

    def do_GET(self) -> None:
        """Handle GET."""
        self.respond(b"")

    def do_POST(self) -> None:
        """Handle POST."""
        self.respond(self.rfile.read(int(self.headers.get("Content-Length", 0))))

    @abstractmethod
    def respond(self, body: bytes) -> None:
        """Respond to a request with this body."""

    def write_answer(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        """Send a response."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        """Log nothing."""


def post(url: str, body: bytes, headers: Mapping[str, str]) -> int:
    """Return the status of a POST; 599 without a response."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=_PATIENCE)
    try:
        connection.request("POST", parts.path or "/", body, dict(headers))
        response = connection.getresponse()
        response.read()
        return response.status
    except (OSError, http.client.HTTPException):
        return 599
    finally:
        connection.close()


def get(url: str, query: Mapping[str, str]) -> tuple[int, bytes]:
    """Return status and body of a GET; 599 without a response."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=_PATIENCE)
    try:
        connection.request("GET", f"{parts.path or '/'}?{urlencode(query)}")
        response = connection.getresponse()
        return response.status, response.read()
    except (OSError, http.client.HTTPException):
        return 599, b""
    finally:
        connection.close()


def post_half(url: str, body: bytes, headers: Mapping[str, str]) -> None:
    """Start a POST and drop the connection halfway through the body."""
    parts = urlsplit(url)
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    with (
        suppress(OSError),
        socket.create_connection((parts.hostname or "", parts.port or 80), _PATIENCE) as connection,
    ):
        connection.sendall(
            f"POST {parts.path or '/'} HTTP/1.1\r\nHost: localhost\r\n{head}"
            f"Content-Length: {len(body)}\r\n\r\n".encode()
            + body[: len(body) // 2]
        )


# The HTTP server of the fake Telegram.


class Answer(NamedTuple):
    """A response."""

    status: int = 200
    body: bytes = b""
    #: Drop the connection instead of responding.
    is_cut: bool = False
    #: Carry out the request although the connection is dropped.
    is_done: bool = False


#: Returns the response to a request, given its path and parameters.
Answering = Callable[[str, Mapping[str, Any]], Answer]


class HttpServer(LocalHttpServer):
    """A local server that listens from its creation until `close`."""

    def __init__(self, answering: Answering) -> None:
        self.answering = answering
        super().__init__(_Handler)


class _Handler(LocalHandler):
    server: HttpServer

    def respond(self, body: bytes) -> None:
        parts = urlsplit(self.path)
        params: dict[str, Any] = dict(parse_qsl(parts.query))
        if self.headers.get_content_type() == "application/json":
            params |= json.loads(body)
        else:
            params |= parse_qsl(body.decode(), keep_blank_values=True)
        answer = self.server.answering(unquote(parts.path), params)
        if answer.is_cut:
            self.close_connection = True
            return
        self.write_answer(answer.status, answer.body, {"Content-Type": "application/json"})


# The HTTP server of the fake WhatsApp.


class GraphRequest(NamedTuple):
    """A request to the Graph API."""

    method: str
    path: str
    query: Mapping[str, str]
    token: str | None
    body: bytes


class GraphAnswer(NamedTuple):
    """A response."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = {}
    #: Drop the connection instead of responding.
    is_cut: bool = False
    #: Carry out the request although the connection is dropped.
    is_done: bool = False


class GraphHttp(LocalHttpServer):
    """A local server that listens from its creation until `close`."""

    def __init__(self, graph: Callable[[GraphRequest], GraphAnswer]) -> None:
        self.graph = graph
        super().__init__(_GraphHandler)


class _GraphHandler(LocalHandler):
    server: GraphHttp

    def respond(self, body: bytes) -> None:
        parts = urlsplit(self.path)
        kind, _, token = self.headers.get("Authorization", "").partition(" ")
        answer = self.server.graph(
            GraphRequest(
                self.command,
                parts.path,
                dict(parse_qsl(parts.query)),
                token if kind == "Bearer" else None,
                body,
            )
        )
        if answer.is_cut:
            self.close_connection = True
            return
        self.write_answer(answer.status, answer.body, answer.headers)
