"""A model client that returns scripted replies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from hermes_sessions.agent.clients.port import Event, ModelError, Reply, Request, TextPiece

#: What happens amid a reply: an event, an error, or something to do.
Line = Event | ModelError | Callable[[], None]


class ScriptedClient:
    """Plays one list of lines for each request."""

    name = "scripted"
    default_model = "scripted-1"

    def __init__(self, *replies: Sequence[Line]) -> None:
        self._replies = list(replies)
        self.requests: list[Request] = []
        self.closed = 0

    def stream(self, request: Request) -> Iterator[Event]:
        self.requests.append(request)
        try:
            for line in self._replies.pop(0):
                if isinstance(line, Exception):
                    raise line
                if callable(line):
                    line()
                else:
                    yield line
        finally:
            self.closed += 1

    def close(self) -> None:
        return


def says(text: str) -> list[Line]:
    return [*(TextPiece(word) for word in text.split(" ")), Reply(text, "stop")]
