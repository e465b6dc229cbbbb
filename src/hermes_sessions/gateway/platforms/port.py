"""What a messenger is to the gateway.

A platform is a folder with an `Adapter`, and passes ``hermes_sessions_testing.platforms``. Adapters
live on the gateway's event loop and never block it. They do not decide who may talk, what a command
is or when a reply is due; they receive, send and tell how it went.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

from hermes_sessions.errors import HermesSessionsError
from hermes_sessions.gateway.events import Attachment, Inbound, Receipt, Target
from hermes_sessions.model.source import SessionSource


class PlatformError(HermesSessionsError):
    """A messenger refused or cannot be reached."""


class RateLimited(PlatformError):
    """Too many requests; may be tried again after ``retry_after`` seconds."""

    def __init__(self, message: str, retry_after: float) -> None:
        self.retry_after = retry_after
        super().__init__(message)


class Unreachable(PlatformError):
    """The network or the platform failed; the same may work later."""


class Undeliverable(PlatformError):
    """The platform will not take this, now or later: blocked, no such chat, not allowed."""


class LoginRefused(PlatformError):
    """The token or key is wrong; trying again does not help."""


class UnreadablePayload(PlatformError):
    """What arrived cannot be read as a message; it is reported, skipped and confirmed."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a platform can do."""

    #: Longest text of one message, in `length_unit`.
    text: int
    length_unit: Literal["characters", "utf16", "bytes"] = "characters"
    #: Whether a sent message can be changed, and the shortest time between two changes.
    edits: bool = False
    edit_seconds: float = 1.0
    typing: bool = False
    #: Whether sending the same key twice delivers once.
    idempotent: bool = False


#: How a message ended. ``completed``: it was answered. ``failed``: its sender was told why not.
#: ``interrupted``: by another message, ``/stop`` or a reset, and what was said is kept.
#: ``dropped``: it had no turn, or one that does not count.
EndOutcome = Literal["completed", "failed", "interrupted", "dropped"]


@dataclass(frozen=True, slots=True)
class Progress:
    """Something about a turn that is under way, for those who watch it."""

    kind: Literal["text", "reasoning", "tool_started", "tool_finished", "ended"]
    text: str = ""
    #: With ``ended``.
    outcome: EndOutcome | None = None


class Services(Protocol):
    """What the gateway offers to an adapter."""

    async def accept(self, inbound: Inbound) -> Receipt:
        """Take a message; when this returns, it is durable, or refused in words. What fails in a
        way nobody foresaw is kept as well, in a file.

        Raises:
            InvalidInput: it is no message for anybody: it is not worth offering again.
            Unreachable: it could be kept nowhere: do not confirm it to the platform.
        """

    async def may_talk(self, source: SessionSource) -> bool:
        """Return whether somebody who has not said anything would be heard, in that chat.

        Raises:
            StoreError: it is not known now.
        """

    def watch(self, item_id: int) -> AsyncIterator[Progress]:
        """Yield what happens to a message until its turn ended; at once if it has."""

    async def undelivered(self, key: str, message_id: str, why: str) -> None:
        """Note that a message which the platform had taken, under this key and with this id, did
        not arrive, as it says now: the reply is kept as dead. What is known, or nobody's, is
        nothing.

        Raises:
            StoreError: it was not noted; have the platform say it again.
        """

    async def load_state(self, name: str) -> str | None:
        """Return what the adapter saved under *name*: an offset, a token to continue from."""

    async def save_state(self, name: str, value: str) -> None:
        """Save a short text for the next start."""


class Adapter(ABC):
    """One connected messenger."""

    #: The platform in session keys; that of a package is the name of its `PlatformSpec`.
    name: ClassVar[str]
    limits: ClassVar[Limits]
    #: Whether it answers health probes, which it does also while the database is unavailable.
    has_probes: ClassVar[bool] = False

    @property
    def owner_id(self) -> str | None:
        """The id of whoever runs the gateway, where the platform knows that."""
        return None

    @abstractmethod
    async def connect(self, services: Services) -> None:
        """Log in and begin to receive; returns when it is connected.

        Afterwards the adapter reconnects by itself, for ever, with growing pauses.

        Raises:
            LoginRefused: what is configured is wrong.
            Unreachable: try again later.
        """

    @abstractmethod
    async def disconnect(self) -> None:
        """Stop receiving, wait for messages that are being accepted, close; may be called twice."""

    @property
    @abstractmethod
    def is_connected(self) -> bool:
        """Whether messages arrive at the moment."""

    @abstractmethod
    async def send(self, target: Target, text: str, *, key: str) -> str:
        """Send one message that fits the limit; return the platform's id of it.

        *text* is Markdown; the adapter shows it as the platform does. *key* is the same when the
        same part is sent again.

        Raises:
            RateLimited, Unreachable, Undeliverable
        """

    def chat_type_of(self, chat_id: str) -> str | None:  # noqa: ARG002 - all are private here
        """Return what kind of chat it is in which nobody has written yet, as `SessionSource` has
        it: ``dm``, ``group`` or ``channel``; None when the platform has not told that yet. Asks
        nobody, and may be called from any thread.
        """
        return "dm"

    async def edit(self, target: Target, message_id: str, text: str) -> None:
        """Replace a sent message. Only where `limits.edits`.

        Raises:
            RateLimited, Unreachable, Undeliverable
        """
        raise NotImplementedError

    async def typing(self, target: Target) -> None:  # noqa: B027 - nothing to show is fine
        """Show for some seconds that an answer is coming, where there is such a thing."""

    async def fetch(self, attachment: Attachment, *, limit: int) -> bytes:
        """Return the contents of a file that came with a message.

        Raises:
            Undeliverable: it is gone, or has more than *limit* bytes.
            RateLimited, Unreachable
        """
        raise NotImplementedError
