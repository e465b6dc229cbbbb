"""How adapters go on: growing pauses after failures, and an end as soon as it is asked for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, TypeVar

from hermes_sessions.errors import HermesSessionsError, InvalidInput
from hermes_sessions.gateway.events import Inbound
from hermes_sessions.gateway.platforms.port import (
    LoginRefused,
    PlatformError,
    RateLimited,
    Services,
)

# How adapters hand over what arrived: nothing is confirmed to a platform that is not kept.


async def deliver_inbound(
    services: Services | None,
    inbound: Inbound,
    *,
    named: str,
    skip: Callable[[str], None],
    logger: logging.Logger,
) -> bool:
    """Offer a message to the gateway; return whether it need not be offered again, and may be
    confirmed to its platform. *skip* hears why one is no message for anybody; *named* is how the
    log calls it. Raises nothing but cancellation: whoever receives goes on.
    """
    if services is None:
        return False
    try:
        await services.accept(inbound)
    except InvalidInput as error:
        skip(str(error))
    except HermesSessionsError as error:
        logger.warning("%s cannot be stored yet: %s", named, error)
        return False
    except Exception:
        logger.exception("%s could not be taken", named)
        return False
    return True


T = TypeVar("T")
#: Waits for so many seconds; another one lets tests go on at once.
Sleep = Callable[[float], Awaitable[None]]

_LONGEST: Final = 60.0


class Stopped(Exception):
    """What was waited for is no longer wanted."""


def pause_after(failures: int) -> float:
    """Return how many seconds to wait after so many failures in a row: 1, 2, 4 … 60."""
    return min(2.0 ** min(max(failures, 1) - 1, 10), _LONGEST)


class StopSignal:
    """Whether to go on, asked for by whoever disconnects."""

    def __init__(self) -> None:
        self._asked_for = asyncio.Event()

    @property
    def is_stop_requested(self) -> bool:
        """Whether it is over."""
        return self._asked_for.is_set()

    def ask(self) -> None:
        """Let it be over."""
        self._asked_for.set()

    async def result_unless_stopped(self, awaitable: Awaitable[T]) -> T:
        """Return what *awaitable* does, unless the end is asked for first; then it is cancelled,
        and when that was so before, it does not even begin.

        Raises:
            Stopped: it was.
        """
        wanted = asyncio.ensure_future(awaitable)
        end = asyncio.ensure_future(self._asked_for.wait())
        try:
            if self.is_stop_requested:
                raise Stopped
            await asyncio.wait({wanted, end}, return_when=asyncio.FIRST_COMPLETED)
            if wanted.done():
                return wanted.result()
            raise Stopped
        finally:
            end.cancel()
            if not wanted.done():
                wanted.cancel()
                with suppress(asyncio.CancelledError):
                    await wanted

    async def pause(self, sleep: Sleep, seconds: float) -> None:
        """Return after so many seconds, or when the end is asked for."""
        with suppress(Stopped):
            await self.result_unless_stopped(sleep(seconds))


async def keep_receiving(
    receive: Callable[[], Awaitable[bool]],
    ending: StopSignal,
    *,
    sleep: Sleep,
    platform: str,
    logger: logging.Logger,
    lost: Callable[[PlatformError], Awaitable[None]] | None = None,
) -> None:
    """Call *receive* until *ending*, whatever goes wrong. It returns whether things go as they
    should; otherwise, and after errors, there are pauses. *lost* hears of the platform's errors.
    """
    failures = 0
    while not ending.is_stop_requested:
        try:
            failures = 0 if await receive() else failures + 1
            pause = pause_after(failures) if failures else 0.0
        except Stopped:
            return
        except RateLimited as error:
            pause = error.retry_after
        except PlatformError as error:
            failures += 1
            pause = pause_after(failures)
            level = logging.ERROR if isinstance(error, LoginRefused) else logging.WARNING
            logger.log(level, "%s: %s; next try in %g s", platform, error, pause)
            if lost is not None:
                await lost(error)
        except Exception:
            # Whatever it is: messages go on arriving, and nothing was confirmed.
            failures += 1
            pause = pause_after(failures)
            logger.exception("%s: receiving failed; next try in %g s", platform, pause)
        if pause:
            await ending.pause(sleep, pause)
