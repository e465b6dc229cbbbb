"""A scripted model: an OpenAI-compatible endpoint on a local socket.

::

    with ScriptedModel(streamed("Hello", " there"), failure(503, "busy")) as model:
        ...  # point a client at model.base_url
        assert model.requests[0].body["messages"][-1]["content"] == "Hi"

Every request gets the next answer of the script. An answer waits at a `Gate` until the test opens
it, so that a test controls what happens during a streamed answer without sleeping.
"""

from __future__ import annotations

import json
import select
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Final, Self

#: Seconds until a wait is a failure; far longer than any test needs.
_PATIENCE: Final = 60.0
MODEL: Final = "scripted-1"


class Gate:
    """A point at which an answer waits until a test opens the gate. An open gate stays open."""

    def __init__(self) -> None:
        self._ours, self.theirs = socket.socketpair()
        self._reached = threading.Event()

    def open(self) -> None:
        """Let the answer continue."""
        with suppress(OSError):  # the model was closed
            self._ours.send(b"!")

    def wait_until_reached(self) -> None:
        """Block until an answer reaches the gate."""
        assert self._reached.wait(_PATIENCE), "no answer reached the gate"

    def mark_reached(self) -> None:
        """Record that an answer waits here."""
        self._reached.set()

    def close(self) -> None:
        """Release the sockets."""
        self._ours.close()
        self.theirs.close()


@dataclass(frozen=True, slots=True)
class Thought:
    """A piece of reasoning."""

    text: str
    #: The other common name is ``reasoning``.
    name: str = "reasoning_content"


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call, whose arguments are streamed in two fragments."""

    name: str
    arguments: Mapping[str, Any] | str = field(default_factory=dict)
    id: str = "call_1"


@dataclass(frozen=True, slots=True)
class _WhenUsageIsWanted:
    data: bytes


Part = str | bytes | Thought | Call | Gate | Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """The response to one request."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Sequence[bytes | Gate | _WhenUsageIsWanted] = ()
    content_type: str = "text/event-stream"
    #: Nothing is sent before this gate opens.
    hold: Gate | None = None
    #: The connection is dropped before the answer is complete.
    is_cut: bool = False

    def cut_after(self, length: int) -> Answer:
        """Return this answer, cut off after ``length`` bytes of its body."""
        kept: list[bytes | Gate | _WhenUsageIsWanted] = []
        for part in self.body:
            data = part.data if isinstance(part, _WhenUsageIsWanted) else part
            if isinstance(data, Gate):
                kept.append(data)
                continue
            kept.append(data[:length])
            length -= len(data)
            if length <= 0:
                break
        return replace(self, body=kept, is_cut=True)

    def held_by(self, gate: Gate) -> Answer:
        """Return this answer, held until ``gate`` opens."""
        return replace(self, hold=gate)


def streamed(
    *parts: Part,
    finish_reason: str | None = None,
    usage: Mapping[str, Any] | None = None,
    model: str = MODEL,
    is_done: bool = True,
) -> Answer:
    """Return a streamed answer of text, thoughts, calls, raw chunks or bytes, and gates.

    ``usage`` is sent when the request asks for it, as the protocol has it. Without ``is_done`` the
    mark at the end is missing.
    """
    body: list[bytes | Gate | _WhenUsageIsWanted] = [_chunk(model, {"role": "assistant"})]
    calls = 0
    for part in parts:
        match part:
            case Gate() | bytes():
                body.append(part)
            case str():
                body.append(_chunk(model, {"content": part}))
            case Thought():
                body.append(_chunk(model, {part.name: part.text}))
            case Call():
                body += [_chunk(model, {"tool_calls": [each]}) for each in _fragments(part, calls)]
                calls += 1
            case _:
                body.append(event(part))
    body.append(_chunk(model, {}, finish_reason or ("tool_calls" if calls else "stop")))
    if usage is not None:
        body.append(_WhenUsageIsWanted(event(_frame(model) | {"choices": [], "usage": usage})))
    if is_done:
        body.append(b"data: [DONE]\n\n")
    return Answer(body=body)


def whole(text: str, *, usage: Mapping[str, Any] | None = None, model: str = MODEL) -> Answer:
    """Return an answer that is not streamed."""
    choice = {"index": 0, "finish_reason": "stop", "message": {"content": text}}
    content = {"object": "chat.completion", "model": model, "choices": [choice], "usage": usage}
    return Answer(body=[json.dumps(content).encode()], content_type="application/json")


def failure(
    status: int, message: str = "", *, code: str | None = None, retry_after: str | None = None
) -> Answer:
    """Return an error response."""
    return Answer(
        status=status,
        headers={} if retry_after is None else {"Retry-After": retry_after},
        body=[json.dumps({"error": {"message": message, "code": code}}).encode()],
        content_type="application/json",
    )


def raw(body: bytes, *, content_type: str = "text/event-stream", status: int = 200) -> Answer:
    """Return a response with any body."""
    return Answer(status=status, body=[body], content_type=content_type)


def event(chunk: Mapping[str, Any]) -> bytes:
    """Return the bytes of a chunk."""
    return b"data: " + json.dumps(chunk, ensure_ascii=False).encode() + b"\n\n"


def _frame(model: str) -> dict[str, Any]:
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 0, "model": model}


def _chunk(model: str, delta: Mapping[str, Any], finish_reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return event(_frame(model) | {"choices": [choice]})


def _fragments(call: Call, index: int) -> list[dict[str, Any]]:
    text = call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments)
    half = len(text) // 2
    begin = {
        "index": index,
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": ""},
    }
    rest = (
        {"index": index, "function": {"arguments": part}} for part in (text[:half], text[half:])
    )
    return [begin, *rest]


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """A recorded request."""

    path: str
    #: Headers by lower-case name.
    headers: Mapping[str, str]
    body: Any


class ScriptedModel:
    """The server. It listens from its creation until `close`, and gives its answers in order."""

    def __init__(self, *answers: Answer, model: str = MODEL) -> None:
        self.model = model
        #: Every chat request so far.
        self.requests: list[RecordedRequest] = []
        #: Called before the script is used; return None to use the script.
        self.respond: Callable[[RecordedRequest], Answer | None] = lambda _request: None
        #: The answer after the end of the script.
        self.otherwise = failure(400, "The script has no further answer.")
        self._script = list(answers)
        self._changed = threading.Condition()
        self._departures = 0
        self._end = Gate()
        self._gates: list[Gate] = []
        self._server = _Server(self, self._end)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.01,), name="scripted-model", daemon=True
        )
        self._thread.start()

    @property
    def base_url(self) -> str:
        """The base URL for clients, for ``model.base_url``."""
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}/v1"

    def add(self, *answers: Answer) -> None:
        """Add answers to the end of the script."""
        with self._changed:
            self._script += answers

    def say(self, *parts: Part, usage: Mapping[str, Any] | None = None) -> None:
        """Add a streamed answer to the end of the script."""
        self.add(streamed(*parts, usage=usage, model=self.model))

    def gate(self) -> Gate:
        """Return a new gate, which closes with the model."""
        gate = Gate()
        self._gates.append(gate)
        return gate

    def wait_for_requests(self, count: int) -> None:
        """Block until *count* requests have arrived in total."""
        with self._changed:
            arrived = self._changed.wait_for(lambda: len(self.requests) >= count, _PATIENCE)
        assert arrived, f"{len(self.requests)} of {count} requests came"

    def wait_for_departure(self) -> None:
        """Block until a client disconnects while its answer waits at a gate."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._departures, _PATIENCE), (
                "no client disconnected"
            )

    def take(self, request: RecordedRequest) -> Answer:
        """Record a request and return its answer. Called by the server."""
        with self._changed:
            self.requests.append(request)
            self._changed.notify_all()
        answer = self.respond(request)
        if answer is not None:
            return answer
        with self._changed:
            return self._script.pop(0) if self._script else self.otherwise

    def note_departure(self) -> None:
        """Record that a client disconnected. Called by the server."""
        with self._changed:
            self._departures += 1
            self._changed.notify_all()

    def close(self) -> None:
        """Stop the server and end every answer. A second call does nothing."""
        self._end.open()
        self._server.shutdown()
        self._server.leave_all()
        self._server.server_close()
        self._thread.join()
        for gate in (self._end, *self._gates):
            gate.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = False  # closing waits for the threads

    def __init__(self, model: ScriptedModel, end: Gate) -> None:
        self.model = model
        self.end = end
        self._lock = threading.Lock()
        self._connections: set[socket.socket] = set()
        self._is_over = False
        super().__init__(("127.0.0.1", 0), _Handler)

    def enter(self, connection: socket.socket) -> None:
        with self._lock:
            self._connections.add(connection)
            if self._is_over:  # accepted while the server was closing
                connection.shutdown(socket.SHUT_RDWR)

    def leave(self, connection: socket.socket) -> None:
        with self._lock:
            self._connections.discard(connection)

    def leave_all(self) -> None:
        with self._lock:
            self._is_over = True
            for connection in self._connections:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore clients that disconnect; tests do that on purpose."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server
    connection: socket.socket

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.server.enter(self.connection)

    def finish(self) -> None:
        self.server.leave(self.connection)
        super().finish()

    def do_GET(self) -> None:
        if self.path != "/v1/models":
            self._play(failure(404, f"There is no {self.path}."), wants_usage=False)
            return
        models = {"object": "list", "data": [{"id": self.server.model.model, "object": "model"}]}
        body = json.dumps(models).encode()
        self._play(Answer(body=[body], content_type="application/json"), wants_usage=False)

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path != "/v1/chat/completions":
            self._play(failure(404, f"There is no {self.path}."), wants_usage=False)
            return
        body = json.loads(content)
        headers = {name.lower(): value for name, value in self.headers.items()}
        answer = self.server.model.take(RecordedRequest(self.path, headers, body))
        wants_usage = bool((body.get("stream_options") or {}).get("include_usage"))
        self._play(answer, wants_usage=wants_usage)

    def _play(self, answer: Answer, *, wants_usage: bool) -> None:
        if answer.hold is not None and not self._pass(answer.hold):
            return
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Transfer-Encoding", "chunked")
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.end_headers()
        for part in answer.body:
            if isinstance(part, Gate):
                if not self._pass(part):
                    return
            elif isinstance(part, bytes):
                self._send(part)
            elif wants_usage:
                self._send(part.data)
        if answer.is_cut:
            self.close_connection = True
        else:
            self.wfile.write(b"0\r\n\r\n")

    def _send(self, data: bytes) -> None:
        if data:  # an empty chunk would end the response
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def _pass(self, gate: Gate) -> bool:
        """Wait at a gate; return whether the answer continues."""
        gate.mark_reached()
        readable, _, _ = select.select(
            [gate.theirs, self.server.end.theirs, self.connection], [], [], _PATIENCE
        )
        if gate.theirs in readable:
            return True
        self.close_connection = True
        if self.connection in readable:
            self.server.model.note_departure()
        return False

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        """Log nothing."""
