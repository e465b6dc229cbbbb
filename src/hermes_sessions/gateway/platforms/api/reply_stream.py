"""Following a message until its turn ended, as long as a client may wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final

from hermes_sessions.gateway.events import Receipt
from hermes_sessions.gateway.platforms.api.errors import ApiError
from hermes_sessions.gateway.platforms.port import Progress

#: Seconds without anything to say, after which that is said.
QUIET_SECONDS: Final = 15.0
#: The others are 403.
_REFUSALS: Final = {"too many": 429, "full": 429, "too large": 413, "failed": 500}
_KEPT: Final = "Your message is stored and will be answered; do not send it again. "


async def follow(
    progress: AsyncIterator[Progress],
    ending: asyncio.Event,
    *,
    seconds: float,
    quiet_seconds: float = QUIET_SECONDS,
) -> AsyncIterator[Progress | None]:
    """Yield what happens, the end last, and None when nothing did for a while.

    Raises:
        ApiError: the time is over, the gateway stops, or nothing more can be heard of it.
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
                    f"The gateway restarts. {_KEPT}Read the answer in the conversation.",
                    code="restarting",
                    is_stored=True,
                )
            elif clock() >= until:
                raise ApiError(
                    504,
                    f"The answer takes long. {_KEPT}Read it in the conversation later.",
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
            f"Nothing more is heard of the answer here. {_KEPT}",
            code="out_of_sight",
            is_stored=True,
        ) from None


def require_stored(receipt: Receipt) -> None:
    """Return when a message was taken, or carried out.

    Raises:
        ApiError: it was refused, or has to wait for the database.
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
            f"The database cannot be reached. {_KEPT}",
            code="database_unreachable",
            is_stored=True,
        )
    if receipt.status != "answered" and receipt.item_id is None:
        raise ApiError(409, "This message was sent before.", code="duplicate", is_stored=True)


def require_answer(ended: Progress) -> None:
    """Return when a turn ended with an answer.

    Raises:
        ApiError: it did not.
    """
    if ended.outcome == "failed":
        raise ApiError(502, ended.text or "The model failed.", code="model_failed", is_stored=True)
    if ended.outcome in {"interrupted", "dropped"}:
        raise ApiError(
            409,
            "The answer was interrupted: by another message, by /stop or by a reset. What was "
            "said is kept.",
            code="interrupted",
            is_stored=True,
        )
