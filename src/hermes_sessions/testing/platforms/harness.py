"""What the author of a platform supplies to the kit: the world around the adapter."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Any, Literal, NamedTuple

from hermes_sessions.gateway.platforms.port import Adapter

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
