"""Connects and disconnects the platforms of a gateway independently, so that the failure of one
never affects the others.
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

#: The state of a connected platform.
CONNECTED: Final = "connected"
#: The longest wait for a platform at the start of a gateway.
FIRST_SECONDS: Final = 15.0
#: The longest wait for a platform to disconnect, and then for its cancellation.
GRACE_SECONDS: Final = 5.0
_CANCEL_SECONDS: Final = 1.0


@dataclass(slots=True)
class Connections:
    """The platform connections of one gateway. On its event loop."""

    adapters: Mapping[str, Adapter]
    #: Called when a platform connects after `connect` returned.
    on_late: Callable[[], Awaitable[None]]
    sleep: Sleep = asyncio.sleep
    first_seconds: float = FIRST_SECONDS
    grace_seconds: float = GRACE_SECONDS
    #: Platforms that are not retried, and why.
    refused: dict[str, str] = field(default_factory=dict)
    #: Platforms that are retried, and the last error.
    failing: dict[str, str] = field(default_factory=dict)
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)
    _is_begun: bool = False

    async def connect(self, services: Services, ending: asyncio.Event) -> None:
        """Connect all platforms; return when each was tried once, after a time limit, or when
        *ending* is set. Unreachable platforms are retried for ever.

        Raises:
            LoginRefused: no platform accepts its configuration.
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
                logger.warning("%s is slow to connect; starting without it", name)
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
        """Try to connect a platform; return whether no retry is needed."""
        try:
            await self.adapters[name].connect(services)
        except (LoginRefused, ConfigError) as error:
            self.refused[name] = str(error)
            logger.error("%s is disabled until you fix this and restart: %s", name, error)  # noqa: TRY400
        except HermesSessionsError as error:
            self.failing[name] = str(error)
            level = logging.INFO if failures else logging.WARNING
            logger.log(level, "cannot reach %s, trying again: %s", name, error)
            return False
        except Exception as error:
            # An unexpected error must not affect other platforms.
            self.failing[name] = type(error).__name__
            logger.exception("could not connect %s, trying again", name)
            return False
        return True

    def states(self) -> dict[str, str]:
        """Return the state of each platform: ``connected``, or why not."""
        return {name: self._state_of(name, adapter) for name, adapter in self.adapters.items()}

    def _state_of(self, name: str, adapter: Adapter) -> str:
        if adapter.is_connected:
            return CONNECTED
        if (why := self.refused.get(name)) is not None:
            return f"disabled: {why}"
        why = self.failing.get(name)
        return "not connected" if why is None else f"not connected: {why}"

    async def disconnect(self) -> None:
        """Disconnect all platforms at once, each within a time limit."""
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
        # The other platforms still disconnect, and the end is stored.
        logger.exception("%s did not disconnect", name)


async def _all_of(events: list[asyncio.Event]) -> None:
    for event in events:
        await event.wait()


async def _stop(tasks: list[asyncio.Task[None]], patience: float) -> None:
    """Wait for tasks, then cancel them; abandon a task that ignores its cancellation."""
    if not tasks:
        return
    _, late = await asyncio.wait(tasks, timeout=patience)
    for task in late:
        task.cancel()
    if late:
        await asyncio.wait(late, timeout=_CANCEL_SECONDS)
