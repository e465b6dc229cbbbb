"""What the author of a platform supplies to the kit: the world around the adapter."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import cached_property
from typing import Any, Final, Literal, NamedTuple

from hermes_sessions.gateway.events import Inbound, Receipt, Target
from hermes_sessions.gateway.platforms.port import Adapter, Progress
from hermes_sessions.model.source import SessionSource

# A gateway for adapters under test: it remembers what it was given.


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


# A play: an adapter, connected to a world and to a gateway that remembers.


_PATIENCE: Final = 60.0


class AdapterHarness:
    """What a test needs; the adapter is connected."""

    def __init__(self, world: PlatformWorld, adapter: Adapter) -> None:
        self.world = world
        self.adapter = adapter
        self.services = RecordingServices(world.states)

    async def hear(
        self, text: str = "Hello", *, sender: Sender = "anna", room: Room = "private"
    ) -> Inbound:
        """Let somebody write and return the message as the gateway got it."""
        before = len(self.services.accepted)
        self.world.write(text, sender=sender, room=room)
        await self.services.wait_for(lambda: len(self.services.accepted) > before)
        return self.services.accepted[-1]

    async def until(self, condition: Callable[[], Any]) -> None:
        """Return when something is the case in the world."""
        await asyncio.to_thread(self.world.wait_until, condition)

    async def until_connected(self) -> None:
        """Return when the adapter is connected."""
        async with asyncio.timeout(_PATIENCE):
            while not self.adapter.is_connected:  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(0.01)


def run_connected(world: PlatformWorld, steps: Callable[[AdapterHarness], Awaitable[None]]) -> None:
    """Run *scene* with a connected adapter, which is disconnected afterwards."""

    async def main() -> None:
        harness = AdapterHarness(world, world.make_adapter())
        await harness.adapter.connect(harness.services)
        try:
            await steps(harness)
        finally:
            await harness.adapter.disconnect()

    asyncio.run(main())


def answer_to(inbound: Inbound) -> Target:
    """Return where an answer to a message goes."""
    source = inbound.source
    return Target(source.platform.value, source.chat_id, source.thread_id, inbound.message_id)


#: Two people, and a program that writes by itself.
Sender = Literal["anna", "bert", "robot"]
#: A conversation of two, a group, and a topic or thread of that group.
Room = Literal["private", "group", "topic"]


class Shown(NamedTuple):
    """A message of the adapter, as people see it now."""

    chat_id: str
    message_id: str
    #: Without markup.
    text: str
    thread_id: str | None = None


class PlatformWorld(ABC):
    """A messenger on this machine: a server that speaks the platform's protocol over a real socket,
    moved by the kit.

    One is made for each test, and closed after it. Everything may be called from any thread, and
    blocks only where it says so.
    """

    #: Rooms that the platform has.
    rooms: tuple[Room, ...] = ("private", "group", "topic")

    @cached_property
    def states(self) -> dict[str, str]:
        """What adapters saved through the gateway: the next one in this world finds it."""
        return {}

    @abstractmethod
    def make_adapter(self) -> Adapter:
        """Return an adapter for this world, not connected.

        Its pauses must not take time: give it a ``sleep`` that returns at once.
        """

    # ── what people do ────────────────────────────────────────────────────────────────────────

    @abstractmethod
    def write(self, text: str, *, sender: Sender = "anna", room: Room = "private") -> str:
        """Let somebody write to the adapter and return the message's id.

        In groups it is addressed, if the platform wants that, so that the text arrives as it is.
        """

    @abstractmethod
    def deliver_again(self, message_id: str) -> None:
        """Let the platform deliver a message once more, though it was confirmed."""

    @abstractmethod
    def deliver_unreadable(self) -> None:
        """Let payloads arrive that are not what the platform documents, and some that are far too
        large.
        """

    @abstractmethod
    def block(self, chat_id: str) -> None:
        """Let the other side refuse all further messages in a chat."""

    # ── what goes wrong ───────────────────────────────────────────────────────────────────────

    @abstractmethod
    def refuse_logins(self) -> None:
        """Let the credentials of adapters be wrong from now on."""

    @abstractmethod
    def limit_rate(self, seconds: float) -> None:
        """Let the next message that the adapter sends be one too many, for so many seconds."""

    @abstractmethod
    def lose_connections(self) -> None:
        """Let what the adapter is waiting for, or does next to receive, fail by a lost connection.
        What comes after that works.
        """

    @abstractmethod
    def lose_next_send(self) -> None:
        """Let the connection be lost over the next message that the adapter sends."""

    # ── what can be seen ──────────────────────────────────────────────────────────────────────

    @abstractmethod
    def shown(self) -> list[Shown]:
        """Return the messages of the adapter, in the order in which they were sent."""

    @abstractmethod
    def is_confirmed(self, message_id: str) -> bool:
        """Tell whether the adapter confirmed that it received the message."""

    @abstractmethod
    def has_unconfirmed(self) -> bool:
        """Tell whether anything waits to be confirmed, readable or not."""

    @abstractmethod
    def wait_until(self, condition: Callable[[], Any]) -> None:
        """Block until *condition* holds; looks again whenever something happened in this world."""

    @abstractmethod
    def close(self) -> None:
        """Release everything."""
