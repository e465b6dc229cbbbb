"""A small HTTP server for one path that a platform calls.

A call is authenticated by a secret in a header or a signature over the body. It is confirmed after
its messages are stored; otherwise the platform calls again. The servers of the SDKs would confirm
too early.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple, Protocol

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from hermes_sessions.gateway.platforms.http_server import Listener, ServerLimits

#: A larger body is not kept, and beyond this size the connection is closed.
_MAX_RECEIVED: Final = 16 * 1024**2
_BODY_SECONDS: Final = 10.0
_PATIENCE: Final = ServerLimits(connections=200, stop_seconds=30)

#: Handles the body of a call, None if it is not JSON or too large; returns whether it may be
#: confirmed.
Take = Callable[[object], Awaitable[bool]]


class Proof(Protocol):
    """Authenticates a call, as far as its headers do not."""

    def hear(self, chunk: bytes) -> None:
        """Process the next part of the body."""

    def holds(self) -> bool:
        """Return whether the call is authentic, after the whole body."""


class HeaderProof:
    """A call that its headers authenticate."""

    def hear(self, chunk: bytes) -> None:
        """See `Proof.hear`."""

    def holds(self) -> bool:
        """See `Proof.holds`."""
        return True


class Signature:
    """A signature over the whole body: an HMAC-SHA256 in a header."""

    def __init__(self, given: str, secret: bytes, *, mark: str, before: bytes = b"") -> None:
        """*given* is the header's value: *mark*, then the digest of *before* and the body."""
        self._given = given.encode("utf-8", "surrogateescape")
        self._mark = mark.encode()
        self._made = hmac.new(secret, before, hashlib.sha256)

    def hear(self, chunk: bytes) -> None:
        """See `Proof.hear`."""
        self._made.update(chunk)

    def holds(self) -> bool:
        """See `Proof.holds`."""
        return hmac.compare_digest(self._given, self._mark + self._made.hexdigest().encode())


class ListenAddress(NamedTuple):
    """Where to listen, and the section of the configuration that says so."""

    section: str
    host: str
    port: int
    path: str


class Webhook:
    """Listens from `start` to `stop`."""

    def __init__(
        self,
        address: ListenAddress,
        take: Take,
        proof_of: Callable[[Request], Proof | None],
        *,
        refusal: int,
        max_body: int,
        more: Sequence[Route] = (),
    ) -> None:
        """*proof_of* checks the headers of a call; None means that it is not authentic, and the
        answer has the status *refusal*. *more* are further routes.
        """
        self._take = take
        self._proof_of = proof_of
        self._refusal = refusal
        self._max_body = max_body
        self._listener = Listener(
            Starlette(routes=[*more, Route(address.path, self._receive, methods=["POST"])]),
            section=address.section,
            host=address.host,
            port=address.port,
            patience=_PATIENCE,
        )

    @property
    def port(self) -> int:
        """Where it listens."""
        return self._listener.port

    @property
    def is_running(self) -> bool:
        """Whether it serves requests."""
        return self._listener.is_running

    async def start(self) -> None:
        """Start to listen.

        Raises:
            ConfigError: the address cannot be used.
        """
        await self._listener.start()

    async def stop(self) -> None:
        """Stop listening after running calls are finished; a second call does nothing."""
        await self._listener.stop()

    async def _receive(self, request: Request) -> Response:
        proof = self._proof_of(request)
        if proof is None:
            return Response(status_code=self._refusal)
        try:
            async with asyncio.timeout(_BODY_SECONDS):
                body = await self._body_of(request, proof)
        except TimeoutError:
            return Response(status_code=408)
        except (_TooLarge, ClientDisconnect):
            return Response(status_code=413)
        if not proof.holds():
            return Response(status_code=self._refusal)
        return await self._answer(self._parsed(request, body))

    def _parsed(self, request: Request, body: bytes) -> object:  # noqa: ARG002 - for those who ask
        """Return the contents of a body, None if it is not readable."""
        return parsed_json(body)

    async def _answer(self, payload: object) -> Response:
        """Pass a payload on, and return the response to the platform."""
        is_taken = await self._take(payload)
        return Response(status_code=200 if is_taken else 503)

    async def _body_of(self, request: Request, proof: Proof) -> bytes:
        """Return the body, authenticated as a whole; empty if it is too large."""
        body = bytearray()
        received = 0
        async for chunk in request.stream():
            received += len(chunk)
            if received > _MAX_RECEIVED:
                raise _TooLarge
            proof.hear(chunk)
            if received <= self._max_body:
                body += chunk
        return bytes(body) if received <= self._max_body else b""


class _TooLarge(Exception):
    """A platform would not send this."""


def parsed_json(body: bytes) -> object:
    """Return the contents of a body, None if it is not JSON."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None
