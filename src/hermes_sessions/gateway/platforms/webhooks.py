"""Where a platform brings things to: a small HTTP server for one path.

What comes is the platform's if it proves so, by a secret in its head or a signature over its body.
It is confirmed when it was taken, and otherwise the platform brings it again. The SDKs' own servers
would answer before that.
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

#: What is larger than a platform's calls is not kept, and beyond this not even received.
_MAX_RECEIVED: Final = 16 * 1024**2
_BODY_SECONDS: Final = 10.0
_PATIENCE: Final = ServerLimits(connections=200, stop_seconds=30)

#: Takes the body of a call, None for one that is no JSON or too large; tells whether it may be
#: confirmed.
Take = Callable[[object], Awaitable[bool]]


class Proof(Protocol):
    """Whether a call is the platform's, as far as its head did not say."""

    def hear(self, chunk: bytes) -> None:
        """Take the next part of the body."""

    def holds(self) -> bool:
        """Return whether the call is the platform's, after all of the body."""


class HeaderProof:
    """A proof that the head gave."""

    def hear(self, chunk: bytes) -> None:
        """See `Proof.hear`."""

    def holds(self) -> bool:
        """See `Proof.holds`."""
        return True


class Signature:
    """A proof over all of the body: the HMAC with SHA-256 that a header gives."""

    def __init__(self, given: str, secret: bytes, *, mark: str, before: bytes = b"") -> None:
        """*given* is as the header has it: *mark*, then the digest of *before* and the body."""
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
        """*proof_of* looks at the head of a call: None is not the platform's, and is answered with
        the status *refusal*. *more* is what else is answered there.
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
        """Whether somebody answers."""
        return self._listener.is_running

    async def start(self) -> None:
        """Begin to listen.

        Raises:
            ConfigError: the address cannot be used.
        """
        await self._listener.start()

    async def stop(self) -> None:
        """Stop listening when what is being taken is taken; a second call does nothing."""
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
        """Return what is in a body, None for what nobody can read."""
        return parsed_json(body)

    async def _answer(self, payload: object) -> Response:
        """Have a payload of the platform's taken, and return what it is told."""
        is_taken = await self._take(payload)
        return Response(status_code=200 if is_taken else 503)

    async def _body_of(self, request: Request, proof: Proof) -> bytes:
        """Return the body, all of which is proved; nothing of one that is too large."""
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
    """Nothing that a platform would send."""


def parsed_json(body: bytes) -> object:
    """Return what is in a body, None for what is no JSON."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None
