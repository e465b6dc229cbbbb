"""Pigeon on this machine: its HTTP API over a real socket, and what its users see."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

TOKEN = "pgn-0123456789abcdef"
PATIENCE = 60.0


class PigeonServer:
    """Holds updates until they are confirmed by the next poll."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.chats = {"anna", "bert", "robot", "loft"}
        self.blocked: set[str] = set()
        self.pending: dict[int, object] = {}
        #: What was sent: chat, topic and text, by id.
        self.sent: dict[str, dict[str, Any]] = {}
        #: Answers that the next calls get instead, by the kind of call: a status, or "cut".
        self.faults: dict[str, list[tuple[int, object] | None]] = {"poll": [], "send": []}
        self.polls: set[socket.socket] = set()
        self.is_closed = False
        self._number = 0
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_values: object) -> None:
                pass

            def do_GET(self) -> None:
                self._answer({})

            def do_POST(self) -> None:
                self._answer(self._body())

            do_PUT = do_POST  # noqa: N815 - the name that the base class calls

            def _body(self) -> dict[str, Any]:
                length = int(self.headers.get("Content-Length") or 0)
                return json.loads(self.rfile.read(length)) if length else {}

            def _answer(self, body: dict[str, Any]) -> None:
                parts = urlsplit(self.path)
                query = {name: values[0] for name, values in parse_qs(parts.query).items()}
                path = [unquote(each) for each in parts.path.split("/")[1:]]
                if self.headers.get("Authorization") != f"Bearer {TOKEN}":
                    answer: tuple[int, object] | None = (401, {})
                else:
                    answer = server.answer(self.command, path, query | body, self.connection)
                if answer is None:
                    self.close_connection = True
                    with suppress(OSError):
                        self.connection.shutdown(socket.SHUT_RDWR)
                    return
                text = json.dumps(answer[1]).encode()
                with suppress(OSError):
                    self.send_response(answer[0])
                    self.send_header("Content-Length", str(len(text)))
                    self.end_headers()
                    self.wfile.write(text)

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,))
        self._thread.start()

    def answer(
        self, method: str, path: list[str], values: dict[str, Any], connection: socket.socket
    ) -> tuple[int, object] | None:
        with self.changed:
            if path == ["me"]:
                return 200, {"name": "Hermes on Pigeon"}
            if path == ["updates"]:
                return self._poll(int(values["after"]), float(values["wait"]), connection)
            _, chat, kind, *rest = path
            if chat not in self.chats or (rest and rest[0] not in self.sent):
                return 404, {}
            if chat in self.blocked or kind == "typing":
                return 403 if chat in self.blocked else 200, {}
            if self.faults["send"]:
                return self.faults["send"].pop(0)
            message_id = rest[0] if rest else f"s{len(self.sent)}"
            shown = {"chat": chat, "topic": values.get("topic"), **self.sent.get(message_id, {})}
            self.sent[message_id] = shown | {"text": values["text"]}
            self.changed.notify_all()
            assert method == ("PUT" if rest else "POST")
            return 200, {"id": message_id}

    def _poll(
        self, after: int, wait: float, connection: socket.socket
    ) -> tuple[int, object] | None:
        self.pending = {n: message for n, message in self.pending.items() if n > after}
        self.changed.notify_all()
        if self.faults["poll"]:
            return self.faults["poll"].pop(0)
        self.polls.add(connection)
        end = time.monotonic() + wait
        try:
            while not self.pending and not self.is_closed and connection in self.polls:
                if not self.changed.wait(end - time.monotonic()):
                    break
            if connection not in self.polls:
                return None
        finally:
            self.polls.discard(connection)
        return 200, [{"number": n, "message": message} for n, message in self.pending.items()]

    def push(self, message: object) -> int:
        with self.changed:
            self._number += 1
            self.pending[self._number] = message
            self.changed.notify_all()
            return self._number

    def write(
        self, text: str, *, sender: str = "anna", chat: str | None = None, topic: str | None = None
    ) -> tuple[str, dict[str, object]]:
        """Let a user write; return the message's id and the message."""
        message_id = f"m{self._number + 1}"
        kind = "group" if chat else "private"
        message: dict[str, object] = {
            "id": message_id,
            "chat": {"id": chat or sender, "kind": kind, "name": "The loft" if chat else None},
            "sender": {"id": sender, "name": sender.title(), "is_bot": sender == "robot"},
            "topic": topic,
            "text": text,
        }
        self.push(message)
        return message_id, message

    def texts(self, chat: str) -> list[str]:
        """Return what the bot has said in a chat."""
        return [sent["text"] for sent in self.sent.values() if sent["chat"] == chat]

    def wait_for(self, condition: Callable[[], Any]) -> None:
        with self.changed:
            assert self.changed.wait_for(condition, PATIENCE), "it did not happen"

    def close(self) -> None:
        with self.changed:
            self.is_closed = True
            self.changed.notify_all()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join(PATIENCE)
