"""The wire under `hermes_sessions.testing.telegram_server`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from hermes_sessions.testing.http_server import LocalHandler, LocalHttpServer


class Answer(NamedTuple):
    """What goes back."""

    status: int = 200
    body: bytes = b""
    #: The connection ends instead.
    is_cut: bool = False
    #: What was asked for is done all the same.
    is_done: bool = False


#: Answers a request, given its path and parameters.
Answering = Callable[[str, Mapping[str, Any]], Answer]


class HttpServer(LocalHttpServer):
    """Listens on this machine from its creation until it is closed."""

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
