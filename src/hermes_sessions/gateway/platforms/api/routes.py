"""The routes of the API.

A message is stored before the response starts. A waiting caller follows the message; one that
disconnects loses nothing, because the reply is in the conversation.
"""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from hermes_sessions.errors import (
    HermesSessionsError,
    InvalidInput,
    MessageTooLarge,
    NotFound,
    StoreError,
)
from hermes_sessions.gateway.events import Inbound, Receipt
from hermes_sessions.gateway.metrics import CONTENT_TYPE, GatewayMetrics
from hermes_sessions.gateway.platforms.api.errors import ApiError
from hermes_sessions.gateway.platforms.api.formatting import (
    DONE,
    STILL_HERE,
    Answer,
    ReplyDeltas,
    event,
    message_json,
    page_json,
    progress_event,
    receipt_json,
    session_json,
)
from hermes_sessions.gateway.platforms.api.mapping import (
    KEY_HEADER,
    SESSION_HEADER,
    as_flag,
    as_number,
    as_object,
    checked_id,
    inbound_of,
    read_chat,
)
from hermes_sessions.gateway.platforms.api.openapi import description
from hermes_sessions.gateway.platforms.api.reply_stream import (
    follow,
    require_answer,
    require_stored,
)
from hermes_sessions.gateway.platforms.api.request_reader import (
    caller_of,
    id_header,
    read_json_body,
    require_token,
)
from hermes_sessions.gateway.platforms.api.settings import ApiSettings
from hermes_sessions.gateway.platforms.api.store_access import StoreAccess
from hermes_sessions.gateway.platforms.port import PlatformError, Progress, Services
from hermes_sessions.storage.logs import Logger, where

# JSON responses of any text.


class JsonResponse(JSONResponse):
    """JSON in UTF-8. Stored text may contain lone surrogates, which UTF-8 cannot encode: then it is
    ASCII with escapes.
    """

    def render(self, content: Any) -> bytes:
        """See `JSONResponse.render`."""
        try:
            return super().render(content)
        except UnicodeEncodeError:
            return json.dumps(content, allow_nan=False).encode("ascii")


logger = Logger(__name__)

_MOST_PER_PAGE: Final = 200
_MOST_OFFSET: Final = 10_000_000
_STREAM_HEADERS: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}

#: Answered even when the server is at its limit.
PROBES: Final = ("/healthz", "/readyz")


@dataclass(slots=True)
class Api:
    """The API of a running gateway."""

    settings: ApiSettings
    services: Services
    gateway_metrics: GatewayMetrics
    #: Set when the gateway stops, to tell waiting callers.
    ending: asyncio.Event
    #: The model's name in responses.
    model: str
    #: Follows a message by its number.
    watch: Callable[[int], AsyncIterator[Progress]]
    #: None if there is no store to read.
    store_access: StoreAccess | None = None

    def app(self) -> Starlette:
        """Return the application."""
        return Starlette(
            routes=[
                Route("/healthz", self.healthz),
                Route("/readyz", self.readyz),
                Route("/metrics", self.metrics),
                Route("/openapi.json", self.openapi),
                Route("/v1/models", self.models),
                Route("/v1/chat/completions", self.chat, methods=["POST"]),
                Route(
                    "/v1/conversations/{conversation}/messages", self.post_message, methods=["POST"]
                ),
                Route("/v1/conversations/{conversation}/messages", self.conversation_messages),
                Route("/v1/sessions", self.list_sessions),
                Route("/v1/sessions/{session_id}/messages", self.session_messages),
            ],
            exception_handlers={
                ApiError: _tell_problem,
                HTTPException: _tell_status,
                HermesSessionsError: _tell_error,
                Exception: _tell_error,
            },
        )

    # ── for operators ─────────────────────────────────────────────────────────────────────────

    async def healthz(self, _request: Request) -> Response:
        """Report that the event loop runs, and the state of the store. An unavailable store does
        not fail the probe: a gateway that is killed for it could not keep messages until the store
        is back.
        """
        return JsonResponse({"status": "ok", **self.gateway_metrics.store_status()})

    async def readyz(self, _request: Request) -> Response:
        """Report whether messages can be answered, and what is missing, without details."""
        # Not in a thread: all threads may wait for a store that hangs.
        problems = self.gateway_metrics.problems()
        if self.ending.is_set():
            problems = {"gateway": "stops", **problems}
        status = "ready" if not problems else "not ready"
        return JsonResponse(
            {"status": status, **self.gateway_metrics.store_status(), "problems": problems},
            status_code=503 if problems else 200,
        )

    async def metrics(self, request: Request) -> Response:
        """Return the metrics for Prometheus."""
        require_token(request, self.settings)
        return Response(self.gateway_metrics.render(), media_type=CONTENT_TYPE)

    async def openapi(self, _request: Request) -> Response:
        """Return the OpenAPI description."""
        return JsonResponse(description())

    # ── messages ──────────────────────────────────────────────────────────────────────────────

    async def post_message(self, request: Request) -> Response:
        """Store a message; respond with a receipt, the reply, or a stream of events."""
        require_token(request, self.settings)
        conversation = checked_id(request.path_params["conversation"], "conversation")
        is_streamed = as_flag(request.query_params.get("stream"), "stream")
        is_waited_for = as_flag(request.query_params.get("wait"), "wait")
        body = as_object(await read_json_body(request, self.settings))
        user = caller_of(request, self.settings, body.get("user")).user
        text = body.get("text")
        if not isinstance(text, str) or not text.strip():
            raise ApiError(400, "text must not be blank.", code="no_text")
        message_id = _message_id(request, body.get("id"))
        receipt = await self._accept(inbound_of(conversation, user, text, message_id))
        told = receipt_json(receipt, conversation, message_id)
        if is_streamed:
            require_stored(receipt)
            return _stream(self._events(receipt, told), conversation)
        if is_waited_for:
            require_stored(receipt)
            ended = await self._end_of(receipt)
            told |= {"outcome": ended.outcome, "reply": ended.text}
            return JsonResponse(told, headers=_named(conversation))
        if receipt.status == "refused":
            require_stored(receipt)
        return JsonResponse(told, status_code=202, headers=_named(conversation))

    async def chat(self, request: Request) -> Response:
        """Respond like OpenAI's chat completions."""
        require_token(request, self.settings)
        named = id_header(request, SESSION_HEADER)
        asked = read_chat(await read_json_body(request, self.settings))
        user = caller_of(request, self.settings, asked.user).user
        conversation = uuid.uuid4().hex if named is None else checked_id(named, SESSION_HEADER)
        # The earlier messages of a conversation with an id are already in the store.
        earlier = asked.earlier if named is None else []
        if self.store_access is not None:
            await asyncio.to_thread(
                self.store_access.begin, conversation, user, system=asked.system, earlier=earlier
            )
        message_id = _message_id(request, None)
        receipt = await self._accept(inbound_of(conversation, user, asked.text, message_id))
        require_stored(receipt)
        answer = Answer(f"chatcmpl-{uuid.uuid4().hex}", int(time.time()), self.model)
        if asked.is_streamed:
            return _stream(self._chunks(receipt, answer), conversation)
        ended = await self._end_of(receipt)
        return JsonResponse(answer.whole(ended.text), headers=_named(conversation))

    async def models(self, request: Request) -> Response:
        """List the only model: the agent."""
        require_token(request, self.settings)
        model = {"id": self.model, "object": "model", "created": 0, "owned_by": "hermes"}
        return JsonResponse({"object": "list", "data": [model]})

    async def _accept(self, inbound: Inbound) -> Receipt:
        if self.ending.is_set():
            raise ApiError(503, "The gateway is stopping. Try again.", code="restarting")
        if self.store_access is not None:
            self.store_access.require_size(inbound.text)
        return await self.services.accept(inbound)

    def _follow(self, receipt: Receipt) -> AsyncIterator[Progress | None]:
        if receipt.item_id is None or receipt.status == "answered":
            return _at_once(Progress("ended", receipt.reply or "", outcome="completed"))
        return follow(self.watch(receipt.item_id), self.ending, seconds=self.settings.reply_seconds)

    async def _end_of(self, receipt: Receipt) -> Progress:
        spoken, said, ended = ReplyDeltas(), "", Progress("ended")
        async for progress in self._follow(receipt):
            if progress is not None:
                said += spoken.piece(progress)
                ended = progress
        require_answer(ended)
        # The reply at the end of the turn is the complete one.
        return Progress("ended", ended.text or said, outcome=ended.outcome)

    async def _events(self, receipt: Receipt, told: Mapping[str, Any]) -> AsyncIterator[bytes]:
        yield event(told, "receipt")
        try:
            async for progress in self._follow(receipt):
                yield STILL_HERE if progress is None else progress_event(progress)
        except ApiError as problem:
            yield event(problem.as_json(), "error")

    async def _chunks(self, receipt: Receipt, answer: Answer) -> AsyncIterator[bytes]:
        yield answer.chunk({"role": "assistant", "content": ""})
        spoken = ReplyDeltas()
        try:
            async for progress in self._follow(receipt):
                if progress is None:
                    yield STILL_HERE
                    continue
                if progress.kind == "ended":
                    require_answer(progress)
                if progress.kind == "reasoning":
                    yield answer.chunk({"reasoning_content": progress.text})
                if text := spoken.piece(progress):
                    yield answer.chunk({"content": text})
        except ApiError as problem:
            yield event(problem.as_json())
        else:
            yield answer.chunk({}, "stop")
        yield DONE

    # ── reading ───────────────────────────────────────────────────────────────────────────────

    async def list_sessions(self, request: Request) -> Response:
        """List sessions of this API; only the user's, if one is named."""
        user = caller_of(request, self.settings).user
        limit, offset = _page_of(request)
        rows = await asyncio.to_thread(
            self._readable.list_sessions, user, limit=limit + 1, offset=offset
        )
        return JsonResponse(page_json([session_json(row) for row in rows], limit, offset))

    async def session_messages(self, request: Request) -> Response:
        """Read a session."""
        user = caller_of(request, self.settings).user
        session_id = checked_id(request.path_params["session_id"], "session_id")
        found = await asyncio.to_thread(self._readable.find_session, session_id, user)
        if found is None:
            # The same message whether it belongs to another user or does not exist.
            raise ApiError(404, f"Session {session_id} does not exist.", code="not_found")
        return await self._messages(request, session_id, user)

    async def conversation_messages(self, request: Request) -> Response:
        """Read the current session of a conversation."""
        user = caller_of(request, self.settings).user
        conversation = checked_id(request.path_params["conversation"], "conversation")
        session_id = await asyncio.to_thread(self._readable.current_session_id, conversation, user)
        if session_id is None:
            raise ApiError(404, f"Conversation {conversation} does not exist.", code="not_found")
        return await self._messages(request, session_id, user)

    async def _messages(self, request: Request, session_id: str, user: str | None) -> Response:
        limit, offset = _page_of(request)
        rows = await asyncio.to_thread(
            self._readable.list_messages, session_id, user, limit=limit + 1, offset=offset
        )
        page = page_json([message_json(row) for row in rows], limit, offset)
        return JsonResponse(page | {"session_id": session_id})

    @property
    def _readable(self) -> StoreAccess:
        if self.store_access is None:
            raise ApiError(503, "There is no store to read.", code="no_store")
        return self.store_access


# ── parts ─────────────────────────────────────────────────────────────────────────────────────


def _message_id(request: Request, field: object) -> str:
    """Return the id that identifies retries of a message."""
    given = id_header(request, KEY_HEADER)
    if given is None and field is None:
        return uuid.uuid4().hex
    return checked_id(field if given is None else given, KEY_HEADER if given else "id")


def _page_of(request: Request) -> tuple[int, int]:
    query = request.query_params
    limit = as_number(query.get("limit"), "limit", default=50, at_most=_MOST_PER_PAGE)
    return max(1, limit), as_number(query.get("offset"), "offset", default=0, at_most=_MOST_OFFSET)


def _named(conversation: str) -> dict[str, str]:
    """Return the header that a client sends to continue the conversation."""
    return {SESSION_HEADER: conversation}


def _stream(pieces: AsyncIterator[bytes], conversation: str) -> Response:
    return StreamingResponse(
        pieces, media_type="text/event-stream", headers=_STREAM_HEADERS | _named(conversation)
    )


async def _at_once(ended: Progress) -> AsyncIterator[Progress | None]:
    yield ended


def _answered(problem: ApiError) -> Response:
    return JsonResponse(problem.as_json(), status_code=problem.status, headers=problem.headers)


async def _tell_problem(_request: Request, error: Exception) -> Response:
    return _answered(error) if isinstance(error, ApiError) else _answered(_UNFORESEEN)


async def _tell_status(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    if status == 404:
        return _answered(ApiError(404, "Not found; see /openapi.json.", code="route"))
    allowed = getattr(error, "headers", None) or {}
    problem = ApiError(
        status, f"{request.method} is not allowed here; see /openapi.json.", code="method"
    )
    return JsonResponse(problem.as_json(), status_code=status, headers=allowed)


async def _tell_error(_request: Request, error: Exception) -> Response:
    """Convert errors of the gateway and the store."""
    if isinstance(error, MessageTooLarge):
        return _answered(ApiError(413, str(error), code="too_large"))
    if isinstance(error, InvalidInput):
        return _answered(ApiError(400, str(error), code="invalid_value"))
    if isinstance(error, NotFound):
        return _answered(ApiError(404, "It no longer exists.", code="not_found"))
    if isinstance(error, (PlatformError, StoreError)):
        logger.warning("api: the store is unavailable: %s", error)
        return _answered(
            ApiError(503, "The store is unavailable. Try again later.", code="unavailable")
        )
    logger.warning("api: a request failed unexpectedly: %s", where(error))
    return _answered(_UNFORESEEN)


_UNFORESEEN: Final = ApiError(500, "Internal error in the gateway; see its log.", code="internal")
