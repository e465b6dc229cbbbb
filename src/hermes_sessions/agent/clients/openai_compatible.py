"""The client of endpoints that implement OpenAI's chat completions over HTTP.

Every call opens its own connection. That costs a handshake and makes calls interruptible: shutting
down the socket of a call wakes the thread that reads it. Closing alone would not wake it, and a
shared connection could not be shut down.

httpx is imported when the first client is made.
"""

from __future__ import annotations

import json
import random
import re
import threading
import time
import uuid
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from hermes_sessions.agent.clients.chat_stream import REPLY_CUT_OFF, reply_events
from hermes_sessions.agent.clients.endpoint_address import EndpointAddress
from hermes_sessions.agent.clients.endpoint_errors import (
    MAX_ATTEMPTS,
    error_from_response,
    parse_retry_after,
    retry_delay,
)
from hermes_sessions.agent.clients.model_call import ModelCall, ReplyStream
from hermes_sessions.agent.clients.port import (
    Event,
    ModelError,
    ModelGarbled,
    ModelRefused,
    ModelUnavailable,
    Request,
    RetryWait,
)

if TYPE_CHECKING:
    import httpx

# ── the request ───────────────────────────────────────────────────────────────────────────────
# "OpenAI-compatible" is a matter of degree. A parameter that an endpoint rejects by name, and that
# the answer does not depend on, is left out of the next attempt and of all later requests.


UnsupportedOption = Literal["stream_options", "max_tokens", "temperature", "tools", "stream"]


_UNSUPPORTED = r"(?:unsupported|n[o']t support|unknown|unrecognized|deprecated|only)"


_NO_TEMPERATURE = re.compile(rf"temperature.*{_UNSUPPORTED}|{_UNSUPPORTED}.*temperature", re.DOTALL)


_NO_TOOLS = re.compile(
    r"(?:not|n't) support\w* (?:tools?|function)|tools?(?: \w+){0,3} not supported"
    r"|no endpoints found that support tool"
)


_NO_STREAM = re.compile(r"\bstream(?:ing)?\b.*not support|not support.*\bstream", re.DOTALL)


def request_body(request: Request, omitted: Collection[UnsupportedOption]) -> dict[str, Any]:
    """Return the body of a request, without options that the endpoint does not support."""
    body: dict[str, Any] = {"model": request.model, "messages": list(request.messages)}
    if "stream" not in omitted:
        body["stream"] = True
        if "stream_options" not in omitted:
            body["stream_options"] = {"include_usage": True}
    if request.tools and "tools" not in omitted:
        body["tools"] = list(request.tools)
    if request.max_tokens is not None:
        # Newer servers call it max_completion_tokens; most servers know the older name.
        name = "max_completion_tokens" if "max_tokens" in omitted else "max_tokens"
        body[name] = request.max_tokens
    if request.temperature is not None and "temperature" not in omitted:
        body["temperature"] = request.temperature
    return body


def find_unsupported_option(message: str, body: Mapping[str, Any]) -> UnsupportedOption | None:
    """Return the option to leave out of ``body`` because an error names it, or None."""
    text = message.lower()
    if "stream_options" in body and "stream_options" in text:
        return "stream_options"
    if "max_tokens" in body and "max_completion_tokens" in text:
        return "max_tokens"
    if "temperature" in body and _NO_TEMPERATURE.search(text):
        return "temperature"
    if "tools" in body and _NO_TOOLS.search(text):
        return "tools"
    if "stream" in body and _NO_STREAM.search(text):
        return "stream"
    return None


_MOST_OF_AN_ERROR = 64 * 1024


@dataclass(frozen=True, slots=True)
class Timeouts:
    """The timeouts of an endpoint, in seconds."""

    #: For the connection.
    connect: float = 10.0
    #: For the first bytes of the answer.
    first_byte: float = 180.0
    #: For the next bytes of the answer.
    piece: float = 180.0
    #: For the start of the last attempt, counted from the first.
    retry: float = 60.0


def _new_id() -> str:
    return f"call_{uuid.uuid4().hex[:24]}"


@dataclass(frozen=True, slots=True)
class ClockAndRandom:
    """Time and randomness, which tests replace."""

    monotonic: Callable[[], float] = time.monotonic
    now: Callable[[], float] = time.time
    random: Callable[[], float] = random.random
    #: Waits some seconds, or until the event is set; tells whether it is.
    wait: Callable[[threading.Event, float], bool] = threading.Event.wait
    new_id: Callable[[], str] = _new_id


class OpenAICompatibleClient:
    """A client of one endpoint. Thread-safe; every call has its own connection."""

    def __init__(
        self,
        base_url: str,
        *,
        api_key: str | None = None,
        model: str | None = None,
        patience: Timeouts | None = None,
        chance: ClockAndRandom | None = None,
    ) -> None:
        """Make a client; nothing is sent yet.

        Without ``model``, the endpoint is asked for its model on first use.

        Raises ConfigError if the URL or the key is not valid.
        """
        self._address = EndpointAddress(base_url, api_key)
        self._model = model
        self._timeouts = patience or Timeouts()
        self._clock = chance or ClockAndRandom()
        self._http = self._address.open_http()
        self._lock = threading.Lock()
        self._calls: set[ModelCall] = set()
        #: Options to leave out, by model.
        self._unsupported: dict[str, frozenset[UnsupportedOption]] = {}
        self._is_closed = False

    @property
    def name(self) -> str:
        """The model, for messages."""
        return f"{self._model or 'the model'} at {self._address.shown}"

    @property
    def default_model(self) -> str:
        """The model of requests that name none.

        Raises:
            ModelRefused: none is configured, and the endpoint has several or none.
            ModelUnavailable, ModelGarbled: the endpoint cannot list its models.
        """
        if self._model is None:
            models = self.models()
            if len(models) != 1:
                listed = ", ".join(models[:20]) or "no models listed"
                raise ModelRefused(
                    f"Choose a model: set HERMES_MODEL or model.default. The endpoint has: "
                    f"{listed}."
                )
            (self._model,) = models
        return self._model

    def models(self) -> list[str]:
        """Return the names of the models that the endpoint offers; tries once.

        Raises ModelUnavailable, ModelRefused or ModelGarbled.
        """
        call = ModelCall()
        with self._in_progress(call):
            response = self._answer(self._request("GET", "models", None, call), call)
            with closing(response):
                content = b"".join(self._portions(response))
        try:
            return sorted(str(entry["id"]) for entry in json.loads(content)["data"])
        except (ValueError, LookupError, TypeError) as error:
            raise ModelGarbled("The endpoint does not list its models.") from error

    def stream(self, request: Request) -> ReplyStream:
        """Send a request and return the iterator over the events of the reply; its ``close``
        interrupts.

        A call that fails before its first piece is retried; see `endpoint_errors.retry_delay`.
        """
        call = ModelCall()
        return ReplyStream(call, self._events(request, call))

    def close(self) -> None:
        """End running calls and reject new ones; further calls have no effect."""
        with self._lock:
            self._is_closed = True
            calls = list(self._calls)
        for call in calls:
            call.shut()
        self._http.close()

    def _events(self, request: Request, call: ModelCall) -> Generator[Event]:
        begun = self._clock.monotonic()
        attempt = 1
        with self._in_progress(call):
            while True:
                has_spoken = False
                try:
                    for event in self._attempt(request, call):
                        has_spoken = True
                        yield event
                    return
                except _OptionUnsupported as omitted:
                    self._stop_sending(request.model, omitted.what)
                    continue
                except ModelUnavailable as error:
                    attempt += 1
                    wait = retry_delay(
                        attempt,
                        elapsed=self._clock.monotonic() - begun,
                        bound=self._timeouts.retry,
                        retry_after=error.retry_after,
                        random=self._clock.random,
                    )
                    if has_spoken or wait is None or call.is_shut.is_set():
                        raise
                    reason = self._address.redact(str(error))
                yield RetryWait(wait, attempt, MAX_ATTEMPTS, reason)
                if self._clock.wait(call.is_shut, wait):
                    return

    def _attempt(self, request: Request, call: ModelCall) -> Iterator[Event]:
        body = request_body(request, self._unsupported.get(request.model, frozenset()))
        sent = self._request("POST", "chat/completions", body, call)
        with closing(self._answer(sent, call, body)) as response:
            yield from reply_events(self._portions(response), self._clock.new_id)

    def _stop_sending(self, model: str, what: UnsupportedOption) -> None:
        with self._lock:
            self._unsupported[model] = self._unsupported.get(model, frozenset()) | {what}

    def _request(
        self, method: str, path: str, body: dict[str, Any] | None, call: ModelCall
    ) -> httpx.Request:
        content = None
        if body is not None:
            try:
                # Lone surrogates cannot be sent; the store keeps them.
                content = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
            except (TypeError, ValueError, RecursionError) as error:
                raise ModelRefused(f"The conversation cannot be sent as JSON: {error}") from error
        patience = self._timeouts
        timeout = {
            "connect": patience.connect,
            "read": patience.first_byte,
            "write": patience.first_byte,
        }
        return self._http.build_request(
            method,
            self._address.url(path),
            content=content,
            headers=self._address.headers,
            extensions={"timeout": timeout, "trace": call.note},
        )

    def _answer(
        self, request: httpx.Request, call: ModelCall, body: dict[str, Any] | None = None
    ) -> httpx.Response:
        """Return a successful response, its headers read; raise the error of any other."""
        import httpx

        if self._is_closed or call.is_shut.is_set():
            raise ModelUnavailable("The client is closed.")
        try:
            response = self._http.send(request, stream=True)
        except httpx.ReadTimeout as error:
            raise ModelUnavailable(
                f"{self._address.shown} did not answer within {self._timeouts.first_byte:g} "
                f"seconds (model.first_byte_timeout)."
            ) from error
        except httpx.TransportError as error:
            raise self._address.unreachable(error) from error
        if response.is_success:
            # From here on the timeout between two portions applies. The transport reads it when it
            # starts to read the body.
            request.extensions["timeout"]["read"] = self._timeouts.piece
            return response
        with closing(response):
            text = self._beginning(response)
            failure = error_from_response(response.status_code, text)
            if isinstance(failure, ModelUnavailable):
                failure.retry_after = parse_retry_after(response.headers, self._clock.now())
            elif body is not None and not getattr(failure, "too_long", False):
                what = find_unsupported_option(text.decode("utf-8", "replace"), body)
                if what is not None:
                    raise _OptionUnsupported(what)
            raise failure

    def _portions(self, response: httpx.Response) -> Iterator[bytes]:
        import httpx

        try:
            yield from response.iter_bytes()
        except httpx.TimeoutException as error:
            raise ModelUnavailable(
                f"The endpoint sent nothing for {self._timeouts.piece:g} seconds in the middle of "
                f"its answer (model.piece_timeout)."
            ) from error
        except httpx.DecodingError as error:
            raise ModelGarbled("The endpoint sent bytes that cannot be decompressed.") from error
        except (httpx.TransportError, httpx.StreamError) as error:
            raise ModelUnavailable(REPLY_CUT_OFF) from error

    def _beginning(self, response: httpx.Response) -> bytes:
        """Return the beginning of an error's body, as much as arrives."""
        text = b""
        try:
            for portion in self._portions(response):
                text += portion
                if len(text) > _MOST_OF_AN_ERROR:
                    break
        except ModelError:
            pass  # the status is enough
        return text

    @contextmanager
    def _in_progress(self, call: ModelCall) -> Iterator[None]:
        """Register the call for `close`, and redact the key in its errors."""
        with self._lock:
            self._calls.add(call)
        try:
            yield
        except ModelError as error:
            error.args = (self._address.redact(str(error)),)
            raise
        finally:
            with self._lock:
                self._calls.discard(call)


class _OptionUnsupported(Exception):
    """The endpoint does not support an option that can be left out."""

    def __init__(self, what: UnsupportedOption) -> None:
        self.what = what
        super().__init__(what)
