"""A gateway for adapters under test: it remembers what it was given."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

from hermes_sessions.gateway.events import Inbound, Receipt
from hermes_sessions.gateway.platforms.port import Progress
from hermes_sessions.model.source import SessionSource

#: A guard against hanging, not a measurement.
_PATIENCE: Final = 60.0


class RecordingServices:
    """Takes every message, unless it is told to fail or to wait."""

    def __init__(self, states: dict[str, str] | None = None) -> None:
        """*states* is what adapters saved before, and where they save; it outlives a restart."""
        self.accepted: list[Inbound] = []
        #: What was offered, taken or not.
        self.offered: list[Inbound] = []
        self.states: dict[str, str] = {} if states is None else states
        #: What adapters were told later that it did not arrive: key, message and why.
        self.undelivered_parts: list[tuple[str, str, str]] = []
        #: Who may talk, by id; None: everybody.
        self.known: set[str | None] | None = None
        self._failures: list[Exception] = []
        self._lasting: Exception | None = None
        self._changed = asyncio.Condition()
        self._gate: asyncio.Event | None = None

    def fail_with(self, *errors: Exception) -> None:
        """Let the next messages not be taken."""
        self._failures += errors

    def keep_failing_with(self, error: Exception) -> None:
        """Let no message be taken any more."""
        self._lasting = error

    def hold(self) -> asyncio.Event:
        """Let messages be taken when the event is set, not before."""
        self._gate = asyncio.Event()
        return self._gate

    async def accept(self, inbound: Inbound) -> Receipt:
        """See `Services.accept`."""
        async with self._changed:
            self.offered.append(inbound)
            self._changed.notify_all()
        if self._gate is not None:
            await self._gate.wait()
        if self._lasting is not None:
            raise self._lasting
        if self._failures:
            raise self._failures.pop(0)
        async with self._changed:
            self.accepted.append(inbound)
            self._changed.notify_all()
        return Receipt("stored", item_id=len(self.accepted), depth=1)

    async def may_talk(self, source: SessionSource) -> bool:
        """See `Services.may_talk`."""
        return self.known is None or source.user_id in self.known

    async def watch(self, item_id: int) -> AsyncIterator[Progress]:  # noqa: ARG002
        """See `Services.watch`: every turn has ended."""
        yield Progress("ended", outcome="completed")

    async def undelivered(self, key: str, message_id: str, why: str) -> None:
        """See `Services.undelivered`."""
        if self._failures:
            raise self._failures.pop(0)
        async with self._changed:
            self.undelivered_parts.append((key, message_id, why))
            self._changed.notify_all()

    async def load_state(self, name: str) -> str | None:
        """See `Services.load_state`."""
        return self.states.get(name)

    async def save_state(self, name: str, value: str) -> None:
        """See `Services.save_state`."""
        self.states[name] = value

    async def wait_for(self, condition: Callable[[], Any]) -> None:
        """Return when *condition* holds; looks again at every message."""
        async with asyncio.timeout(_PATIENCE), self._changed:
            await self._changed.wait_for(condition)

    async def texts(self, count: int) -> list[str]:
        """Return the texts of so many messages, when they are there."""
        await self.wait_for(lambda: len(self.accepted) >= count)
        return [inbound.text for inbound in self.accepted]
