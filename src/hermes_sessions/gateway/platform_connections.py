"""Connecting a gateway's platforms, each for itself: what goes wrong with one is nobody else's
matter, at the start and at the end.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from hermes_sessions.errors import ConfigError, HermesSessionsError
from hermes_sessions.gateway.platforms.port import Adapter, LoginRefused, Services
from hermes_sessions.gateway.platforms.receive_loop import Sleep, pause_after

logger = logging.getLogger(__name__)

#: The state of a platform from which messages arrive.
CONNECTED: Final = "connected"
#: How long a gateway that starts waits for a platform before it goes on without it.
FIRST_SECONDS: Final = 15.0
#: How long a platform may take to disconnect, and then to give up disconnecting.
GRACE_SECONDS: Final = 5.0
_CANCEL_SECONDS: Final = 1.0


@dataclass(slots=True)
class Connections:
    """The platforms of one gateway. On its event loop."""

    adapters: Mapping[str, Adapter]
    #: Called when a platform is connected after `connect` returned.
    on_late: Callable[[], Awaitable[None]]
    sleep: Sleep = asyncio.sleep
    first_seconds: float = FIRST_SECONDS
    grace_seconds: float = GRACE_SECONDS
    #: Platforms that are not tried again, and why.
    refused: dict[str, str] = field(default_factory=dict)
    #: Those that are tried again, and what went wrong the last time.
    failing: dict[str, str] = field(default_factory=dict)
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)
    _is_begun: bool = False

    async def connect(self, services: Services, ending: asyncio.Event) -> None:
        """Connect all; return when each was tried once, some seconds have passed, or *ending* is
        set. Those that could not be reached are tried again, for ever.

        Raises:
            LoginRefused: none of them can be used as it is configured.
        """
        tried = [asyncio.Event() for _ in self.adapters]
        for name, event in zip(self.adapters, tried, strict=True):
            self._tasks.append(asyncio.create_task(self._bring_up(name, services, event)))
        all_tried = asyncio.create_task(_all_of(tried))
        ended = asyncio.create_task(ending.wait())
        await asyncio.wait(
            {all_tried, ended},
            timeout=self.first_seconds,
            return_when=asyncio.FIRST_COMPLETED,
        )
        all_tried.cancel()
        ended.cancel()
        self._is_begun = True
        for name, event in zip(self.adapters, tried, strict=True):
            if not event.is_set() and not ending.is_set():
                logger.warning("%s takes long to connect; the others go on without it", name)
        if self.adapters and len(self.refused) == len(self.adapters):
            raise LoginRefused(
                "No platform can be used: "
                + "; ".join(f"{name}: {why}" for name, why in self.refused.items())
            )

    async def _bring_up(self, name: str, services: Services, tried: asyncio.Event) -> None:
        failures = 0
        while not await self._is_settled(name, services, failures):
            tried.set()
            failures += 1
            await self.sleep(pause_after(failures))
        self.failing.pop(name, None)
        tried.set()
        if self._is_begun and name not in self.refused:
            await self.on_late()

    async def _is_settled(self, name: str, services: Services, failures: int) -> bool:
        """Try to connect a platform; return whether it need not be tried again."""
        try:
            await self.adapters[name].connect(services)
        except (LoginRefused, ConfigError) as error:
            self.refused[name] = str(error)
            logger.error("%s is left out; put this right, and restart: %s", name, error)  # noqa: TRY400
        except HermesSessionsError as error:
            self.failing[name] = str(error)
            level = logging.INFO if failures else logging.WARNING
            logger.log(level, "%s cannot be reached, trying again: %s", name, error)
            return False
        except Exception as error:
            # Nobody foresaw it; the other platforms do not suffer from it.
            self.failing[name] = type(error).__name__
            logger.exception("%s could not be connected, trying again", name)
            return False
        return True

    def states(self) -> dict[str, str]:
        """Return how each platform is: ``connected``, or in words why not."""
        return {name: self._state_of(name, adapter) for name, adapter in self.adapters.items()}

    def _state_of(self, name: str, adapter: Adapter) -> str:
        if adapter.is_connected:
            return CONNECTED
        if (why := self.refused.get(name)) is not None:
            return f"left out: {why}"
        why = self.failing.get(name)
        return "not connected" if why is None else f"not connected: {why}"

    async def disconnect(self) -> None:
        """Disconnect all at the same time; whoever takes too long is not waited for."""
        await _stop(self._tasks, 0)
        ends = [
            asyncio.create_task(_take_down(name, adapter))
            for name, adapter in self.adapters.items()
        ]
        await _stop(ends, self.grace_seconds)


async def _take_down(name: str, adapter: Adapter) -> None:
    try:
        await adapter.disconnect()
    except asyncio.CancelledError:
        logger.warning("%s did not disconnect in time", name)
        raise
    except HermesSessionsError as error:
        logger.warning("%s did not disconnect: %s", name, error)
    except Exception:
        # The others disconnect all the same, and the end is stored.
        logger.exception("%s did not disconnect", name)


async def _all_of(events: list[asyncio.Event]) -> None:
    for event in events:
        await event.wait()


async def _stop(tasks: list[asyncio.Task[None]], patience: float) -> None:
    """Wait for tasks, then cancel them; one that does not even end then is left behind."""
    if not tasks:
        return
    _, late = await asyncio.wait(tasks, timeout=patience)
    for task in late:
        task.cancel()
    if late:
        await asyncio.wait(late, timeout=_CANCEL_SECONDS)
