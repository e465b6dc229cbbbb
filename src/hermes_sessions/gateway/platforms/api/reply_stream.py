"""Follow a message until its turn has ended, within the time that a client may wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final

from hermes_sessions.gateway.events import Receipt
from hermes_sessions.gateway.platforms.api.errors import ApiError
from hermes_sessions.gateway.platforms.port import Progress

#: Idle seconds after which a keep-alive is sent.
QUIET_SECONDS: Final = 15.0
#: All others are 403.
_REFUSALS: Final = {"too many": 429, "full": 429, "too large": 413, "failed": 500}
_KEPT: Final = "Your message is stored and will be answered; do not send it again. "


async def follow(
    progress: AsyncIterator[Progress],
    ending: asyncio.Event,
    *,
    seconds: float,
    quiet_seconds: float = QUIET_SECONDS,
) -> AsyncIterator[Progress | None]:
    """Yield the events of a turn, the end last, and None after each idle interval.

    Raises:
        ApiError: the time is over, the gateway stops, or the turn cannot be followed further.
    """
    clock = asyncio.get_running_loop().time
    until = clock() + seconds
    stops: asyncio.Future[Any] = asyncio.ensure_future(ending.wait())
    following: asyncio.Future[Any] = asyncio.ensure_future(anext(progress))
    try:
        while True:
            pause = min(quiet_seconds, max(0.0, until - clock()))
            await asyncio.wait(
                {stops, following}, timeout=pause, return_when=asyncio.FIRST_COMPLETED
            )
            if following.done():
                happened = _result_of(following)
                yield happened
                if happened.kind == "ended":
                    return
                following = asyncio.ensure_future(anext(progress))
            elif stops.done():
                raise ApiError(
                    503,
                    f"The gateway is restarting. {_KEPT}Read the reply in the conversation.",
                    code="restarting",
                    is_stored=True,
                )
            elif clock() >= until:
                raise ApiError(
                    504,
                    f"The reply is not ready yet. {_KEPT}Read it in the conversation later.",
                    code="takes_long",
                    is_stored=True,
                )
            else:
                yield None
    finally:
        stops.cancel()
        following.cancel()
        await asyncio.gather(stops, following, return_exceptions=True)
        close = getattr(progress, "aclose", None)
        if close is not None:
            await close()


def _result_of(following: asyncio.Future[Progress]) -> Progress:
    try:
        return following.result()
    except StopAsyncIteration:
        raise ApiError(
            503,
            f"The reply can no longer be followed here. {_KEPT}",
            code="out_of_sight",
            is_stored=True,
        ) from None


def require_stored(receipt: Receipt) -> None:
    """Return if a message was accepted or was a command.

    Raises:
        ApiError: it was refused, or waits for the database.
    """
    if receipt.status == "refused":
        raise ApiError(
            _REFUSALS.get(receipt.reason or "unknown", 403),
            receipt.reply or "This sender may not talk to the agent.",
            code="refused",
        )
    if receipt.status == "spooled":
        raise ApiError(
            503,
            f"The database is unavailable. {_KEPT}",
            code="database_unreachable",
            is_stored=True,
        )
    if receipt.status != "answered" and receipt.item_id is None:
        raise ApiError(409, "This message was sent before.", code="duplicate", is_stored=True)


def require_answer(ended: Progress) -> None:
    """Return if a turn ended with a reply.

    Raises:
        ApiError: it did not.
    """
    if ended.outcome == "failed":
        raise ApiError(502, ended.text or "The model failed.", code="model_failed", is_stored=True)
    if ended.outcome in {"interrupted", "dropped"}:
        raise ApiError(
            409,
            "The reply was interrupted by another message, by /stop or by a reset. The part so "
            "far is stored.",
            code="interrupted",
            is_stored=True,
        )
