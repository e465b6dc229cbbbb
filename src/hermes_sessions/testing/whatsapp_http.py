"""The wire under `hermes_sessions.testing.whatsapp_server`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple
from urllib.parse import parse_qsl, urlsplit

from hermes_sessions.testing.http_server import LocalHandler, LocalHttpServer


class GraphRequest(NamedTuple):
    """What the Graph API is asked."""

    method: str
    path: str
    query: Mapping[str, str]
    token: str | None
    body: bytes


class GraphAnswer(NamedTuple):
    """What goes back."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = {}
    #: The connection ends instead.
    is_cut: bool = False
    #: What was asked for is done all the same.
    is_done: bool = False


class GraphHttp(LocalHttpServer):
    """Listens on this machine from its creation until it is closed."""

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
