"""The receive loop of adapters: growing pauses after failures, and an immediate stop."""

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

# Delivery to the gateway: a message is confirmed to its platform only after it is stored.


async def deliver_inbound(
    services: Services | None,
    inbound: Inbound,
    *,
    named: str,
    skip: Callable[[str], None],
    logger: logging.Logger,
) -> bool:
    """Pass a message to the gateway; return whether it may be confirmed to its platform.

    *skip* is called with the reason when the message can never be stored; *named* is its name in
    the log. Raises nothing but cancellation, so that the receive loop continues.
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
        logger.exception("%s could not be stored", named)
        return False
    return True


T = TypeVar("T")
#: Waits N seconds; tests pass one that returns immediately.
Sleep = Callable[[float], Awaitable[None]]

_LONGEST: Final = 60.0


class Stopped(Exception):
    """The adapter is disconnecting; the result is no longer needed."""


def pause_after(failures: int) -> float:
    """Return the pause in seconds after N failures in a row: 1, 2, 4 … 60."""
    return min(2.0 ** min(max(failures, 1) - 1, 10), _LONGEST)


class StopSignal:
    """Tells a receive loop to stop."""

    def __init__(self) -> None:
        self._asked_for = asyncio.Event()

    @property
    def is_stop_requested(self) -> bool:
        """Whether the loop must stop."""
        return self._asked_for.is_set()

    def ask(self) -> None:
        """Request the stop."""
        self._asked_for.set()

    async def result_unless_stopped(self, awaitable: Awaitable[T]) -> T:
        """Return the result of *awaitable*, which is cancelled when the stop is requested first.

        Raises:
            Stopped: the stop was requested.
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
        """Return after N seconds, or when the stop is requested."""
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
    """Call *receive* until *ending*, whatever fails. It returns whether it succeeded; otherwise,
    and after errors, there is a pause. *lost* is called with the platform's errors.
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
            logger.log(level, "%s: %s; retrying in %g s", platform, error, pause)
            if lost is not None:
                await lost(error)
        except Exception:
            # An unexpected error must not end the loop; nothing was confirmed.
            failures += 1
            pause = pause_after(failures)
            logger.exception("%s: receiving failed; retrying in %g s", platform, pause)
        if pause:
            await ending.pause(sleep, pause)
