"""A real HTTP proxy before the homeserver, for what a real one does not do when it is asked to."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx

SEND = r"PUT .*/rooms/[^/]+/send/"
SYNC = r"GET /_matrix/client/v3/sync"


@dataclass
class Fault:
    """What is done with the next request that fits, instead of forwarding it."""

    pattern: str
    #: An answer of its own: status and JSON.
    answer: tuple[int, Any] | None = None
    #: Whether the homeserver gets the request, and only its answer is lost.
    is_forwarded: bool = False


@dataclass
class Synced:
    """One answer to a question for news."""

    since: str | None
    next_batch: str
    event_ids: list[str] = field(default_factory=list)


class FaultyProxy:
    """Forwards to a homeserver, and fails as it is told."""

    def __init__(self, target: str) -> None:
        self.target = target
        self._http = httpx.Client(
            base_url=target, timeout=120, limits=httpx.Limits(max_connections=None)
        )
        self.lock = threading.RLock()
        self._faults: list[Fault] = []
        self._syncing: set[socket.socket] = set()
        #: Requests, as ``METHOD path``, in order.
        self.requests: list[str] = []
        self.synced: list[Synced] = []
        #: May change an answer to a question for news.
        self.change_sync: Callable[[dict[str, Any]], None] = lambda _answer: None
        self._since: str | None = None
        self.is_down = False
        proxy = self

        class Handler(_Handler):
            owner = proxy

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def fail(self, pattern: str, answer: tuple[int, Any] | None = None) -> None:
        """Answer the next request that fits with *answer*, or lose the connection over it."""
        with self.lock:
            self._faults.append(Fault(pattern, answer))

    def lose_answer(self, pattern: str) -> None:
        """Forward the next request that fits, and lose the connection instead of answering."""
        with self.lock:
            self._faults.append(Fault(pattern, is_forwarded=True))

    def cut_syncs(self) -> None:
        """Lose the connections on which news are waited for."""
        with self.lock:
            for connection in self._syncing:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def rewind(self, since: str | None) -> None:
        """Let the next question for news begin there."""
        with self.lock:
            self._since = since
            self.cut_syncs()

    def close(self) -> None:
        self.cut_syncs()
        self._server.shutdown()
        self._server.server_close()
        self._http.close()

    # ── for the handler ───────────────────────────────────────────────────────────────────────

    def take_fault(self, request: str) -> Fault | None:
        with self.lock:
            self.requests.append(request)
            if self.is_down:
                return Fault("")
            for fault in self._faults:
                if re.match(fault.pattern, request):
                    self._faults.remove(fault)
                    return fault
            return None

    def forward(self, method: str, path: str, headers: Any, body: bytes) -> httpx.Response:
        kept = {
            name: headers[name]
            for name in ("Authorization", "Content-Type", "Accept")
            if name in headers
        }
        return self._http.request(method, path, headers=kept, content=body)

    def forward_sync(self, path: str, headers: Any, connection: socket.socket) -> tuple[int, bytes]:
        parts = urlsplit(path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        with self.lock:
            if self._since is not None:
                query["since"], self._since = self._since, None
            self._syncing.add(connection)
        try:
            answer = self.forward("GET", f"{parts.path}?{urlencode(query)}", headers, b"")
        finally:
            with self.lock:
                self._syncing.discard(connection)
        if _has_gone(connection):
            raise ConnectionAbortedError  # what nobody reads was not answered
        if answer.status_code != 200:
            return answer.status_code, answer.content
        found = answer.json()
        with self.lock:
            self.change_sync(found)
            rooms = found.get("rooms", {}).get("join", {}).values()
            events = [each for room in rooms for each in room["timeline"]["events"]]
            ids = [str(each.get("event_id")) for each in events if isinstance(each, dict)]
            self.synced.append(Synced(query.get("since"), found["next_batch"], ids))
        return 200, json.dumps(found).encode()


def _has_gone(connection: socket.socket) -> bool:
    try:
        return connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    owner: FaultyProxy

    def _handle(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length) if length else b""
        fault = self.owner.take_fault(f"{self.command} {self.path}")
        try:
            if fault is not None and fault.answer is not None:
                self._answer(fault.answer[0], json.dumps(fault.answer[1]).encode())
                return
            if fault is not None and not fault.is_forwarded:
                self._cut()
                return
            if re.match(SYNC, f"{self.command} {self.path}"):
                status, content = self.owner.forward_sync(self.path, self.headers, self.connection)
                kind = "application/json"
            else:
                answer = self.owner.forward(self.command, self.path, self.headers, body)
                status, content = answer.status_code, answer.content
                kind = answer.headers.get("Content-Type", "application/json")
            if fault is not None:
                self._cut()
                return
            self._answer(status, content, kind)
        except (OSError, httpx.HTTPError, RuntimeError):
            self._cut()  # somebody has gone

    def _answer(self, status: int, content: bytes, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _cut(self) -> None:
        self.close_connection = True
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    do_GET = do_POST = do_PUT = do_DELETE = _handle  # noqa: N815 - their names

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass
