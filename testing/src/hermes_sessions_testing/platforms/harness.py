"""What the kit runs adapters with: a recording gateway, and the server that authors supply."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import cached_property
from typing import Any, Final, Literal, NamedTuple

from hermes_sessions.gateway.events import Inbound, Receipt, Target
from hermes_sessions.gateway.platforms.port import Adapter, Progress
from hermes_sessions.model.source import SessionSource


class RecordingServices:
    """A gateway that records every message; it fails or waits when a test tells it to."""

    def __init__(self, states: dict[str, str] | None = None) -> None:
        """*states* holds what adapters save, so that a restarted adapter finds it."""
        self.accepted: list[Inbound] = []
        #: Messages that were offered, accepted or not.
        self.offered: list[Inbound] = []
        self.states: dict[str, str] = {} if states is None else states
        #: Parts that were reported as not delivered after they were sent: key, message id, reason.
        self.undelivered_parts: list[tuple[str, str, str]] = []
        #: Ids of the users that may talk; None allows all.
        self.known: set[str | None] | None = None
        self._failures: list[Exception] = []
        self._lasting: Exception | None = None
        self._changed = asyncio.Condition()
        self._gate: asyncio.Event | None = None

    def fail_with(self, *errors: Exception) -> None:
        """Raise these errors for the next messages, one each."""
        self._failures += errors

    def keep_failing_with(self, error: Exception) -> None:
        """Raise this error for every message from now on."""
        self._lasting = error

    def hold(self) -> asyncio.Event:
        """Accept no message before the returned event is set."""
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
        """See `Services.watch`; every turn has already ended."""
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
        """Return when *condition* holds; it is checked again after every message."""
        async with asyncio.timeout(_PATIENCE), self._changed:
            await self._changed.wait_for(condition)

    async def texts(self, count: int) -> list[str]:
        """Wait for *count* accepted messages and return their texts."""
        await self.wait_for(lambda: len(self.accepted) >= count)
        return [inbound.text for inbound in self.accepted]


_PATIENCE: Final = 60.0


class AdapterHarness:
    """A connected adapter with its messenger server and a recording gateway."""

    def __init__(self, messenger: MessengerServer, adapter: Adapter) -> None:
        self.messenger = messenger
        self.adapter = adapter
        self.services = RecordingServices(messenger.states)

    async def hear(
        self, text: str = "Hello", *, sender: Sender = "anna", room: Room = "private"
    ) -> Inbound:
        """Let a user write, and return the message as the gateway received it."""
        before = len(self.services.accepted)
        self.messenger.write(text, sender=sender, room=room)
        await self.services.wait_for(lambda: len(self.services.accepted) > before)
        return self.services.accepted[-1]

    async def until(self, condition: Callable[[], Any]) -> None:
        """Wait until *condition* holds on the messenger server."""
        await asyncio.to_thread(self.messenger.wait_until, condition)

    async def until_connected(self) -> None:
        """Wait until the adapter is connected."""
        async with asyncio.timeout(_PATIENCE):
            while not self.adapter.is_connected:  # noqa: ASYNC110 - adapters have no event for it
                await asyncio.sleep(0.01)


def run_connected(
    messenger: MessengerServer, steps: Callable[[AdapterHarness], Awaitable[None]]
) -> None:
    """Run *steps* with a connected adapter, and disconnect it afterwards."""

    async def main() -> None:
        harness = AdapterHarness(messenger, messenger.make_adapter())
        await harness.adapter.connect(harness.services)
        try:
            await steps(harness)
        finally:
            await harness.adapter.disconnect()

    asyncio.run(main())


def answer_to(inbound: Inbound) -> Target:
    """Return the target of a reply to a message."""
    source = inbound.source
    return Target(source.platform.value, source.chat_id, source.thread_id, inbound.message_id)


#: Two users and a bot.
Sender = Literal["anna", "bert", "robot"]
#: A private chat, a group, and a topic or thread in that group.
Room = Literal["private", "group", "topic"]


class Shown(NamedTuple):
    """A message that the adapter sent, as users see it now."""

    chat_id: str
    message_id: str
    #: Without markup.
    text: str
    thread_id: str | None = None


class MessengerServer(ABC):
    """A server that speaks the messenger's protocol over a real socket, driven by the kit.

    Each test gets a new one and closes it at the end. Methods may be called from any thread, and
    block only where they say so.
    """

    #: Kinds of rooms that the messenger has.
    rooms: tuple[Room, ...] = ("private", "group", "topic")

    @cached_property
    def states(self) -> dict[str, str]:
        """What adapters saved through the gateway; the next adapter of this server finds it."""
        return {}

    @abstractmethod
    def make_adapter(self) -> Adapter:
        """Return an adapter for this server, not connected.

        Give it a ``sleep`` that returns at once, so that its pauses take no time.
        """

    # ── what users do ─────────────────────────────────────────────────────────────────────────

    @abstractmethod
    def write(self, text: str, *, sender: Sender = "anna", room: Room = "private") -> str:
        """Let a user write to the adapter, and return the message's id.

        In groups, mention the bot if the messenger needs that; the text must arrive unchanged.
        """

    @abstractmethod
    def deliver_again(self, message_id: str) -> None:
        """Deliver a confirmed message again."""

    @abstractmethod
    def deliver_unreadable(self) -> None:
        """Deliver payloads that do not match the messenger's documentation, and oversized ones."""

    @abstractmethod
    def block(self, chat_id: str) -> None:
        """Refuse all further messages in a chat, as if the user had blocked the bot."""

    # ── what goes wrong ───────────────────────────────────────────────────────────────────────

    @abstractmethod
    def refuse_logins(self) -> None:
        """Refuse the credentials of adapters from now on."""

    @abstractmethod
    def limit_rate(self, seconds: float) -> None:
        """Answer the adapter's next message with a rate limit of *seconds*."""

    @abstractmethod
    def lose_connections(self) -> None:
        """Drop the connection on which the adapter receives, or its next attempt to receive.

        Later attempts succeed.
        """

    @abstractmethod
    def lose_next_send(self) -> None:
        """Drop the connection during the next message that the adapter sends."""

    # ── what tests observe─────────────────────────────────────────────────────────────────────

    @abstractmethod
    def shown(self) -> list[Shown]:
        """Return the messages that the adapter sent, in order."""

    @abstractmethod
    def is_confirmed(self, message_id: str) -> bool:
        """Return whether the adapter confirmed the message."""

    @abstractmethod
    def has_unconfirmed(self) -> bool:
        """Return whether any payload, readable or not, is still unconfirmed."""

    @abstractmethod
    def wait_until(self, condition: Callable[[], Any]) -> None:
        """Block until *condition* holds; check it again whenever this server's state changes."""

    @abstractmethod
    def close(self) -> None:
        """Stop the server and release its resources."""
