"""The port between the gateway and a messenger: `Adapter`, `Services` and their errors.

Every platform has an `Adapter` that passes ``hermes_sessions_testing.platforms``. Adapters run on
the gateway's event loop and never block it. They receive and send messages and report the outcome;
access control, commands and retries belong to the gateway.
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
    """A messenger refused a request or cannot be reached."""


class RateLimited(PlatformError):
    """Too many requests; retry after ``retry_after`` seconds."""

    def __init__(self, message: str, retry_after: float) -> None:
        self.retry_after = retry_after
        super().__init__(message)


class Unreachable(PlatformError):
    """The network or the platform failed; retry later."""


class Undeliverable(PlatformError):
    """The platform refuses this for good: blocked, unknown chat, not permitted."""


class LoginRefused(PlatformError):
    """The token or key is wrong; retrying does not help."""


class UnreadablePayload(PlatformError):
    """A payload is not a readable message; it is logged, skipped and confirmed."""


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
#: ``interrupted``: by another message, ``/stop`` or a reset; the partial reply is kept.
#: ``dropped``: it had no turn, or one that does not count.
EndOutcome = Literal["completed", "failed", "interrupted", "dropped"]


@dataclass(frozen=True, slots=True)
class Progress:
    """An event of a running turn, for its watchers."""

    kind: Literal["text", "reasoning", "tool_started", "tool_finished", "ended"]
    text: str = ""
    #: With ``ended``.
    outcome: EndOutcome | None = None


class Services(Protocol):
    """What the gateway offers to an adapter."""

    async def accept(self, inbound: Inbound) -> Receipt:
        """Store a message; when this returns, it is durable, or its sender was told why not. A
        message that fails unexpectedly is kept in a file.

        Raises:
            InvalidInput: the message can never be stored: skip and confirm it.
            Unreachable: it could not be stored anywhere: do not confirm it to the platform.
        """

    async def may_talk(self, source: SessionSource) -> bool:
        """Return whether a user may talk to the agent in a chat, before they have written.

        Raises:
            StoreError: the store cannot tell at the moment.
        """

    def watch(self, item_id: int) -> AsyncIterator[Progress]:
        """Yield the events of a message until its turn has ended."""

    async def undelivered(self, key: str, message_id: str, why: str) -> None:
        """Record that the platform failed to deliver a message that it had accepted under this
        key and id: the reply is kept as dead. No-op if the message is unknown or already dead.

        Raises:
            StoreError: it was not recorded; let the platform report it again.
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
        """The id of the user who runs the gateway, if the platform knows it."""
        return None

    @abstractmethod
    async def connect(self, services: Services) -> None:
        """Log in and start to receive; return when connected.

        Afterwards the adapter reconnects automatically, without limit, with growing pauses.

        Raises:
            LoginRefused: the configuration is wrong.
            Unreachable: retry later.
        """

    @abstractmethod
    async def disconnect(self) -> None:
        """Stop receiving, wait for messages that are being accepted, close; may be called twice."""

    @property
    @abstractmethod
    def is_connected(self) -> bool:
        """Whether messages can arrive at the moment."""

    @abstractmethod
    async def send(self, target: Target, text: str, *, key: str) -> str:
        """Send one message that fits the limit; return the platform's id of it.

        *text* is Markdown; the adapter shows it as the platform does. *key* is the same when the
        same part is sent again.

        Raises:
            RateLimited, Unreachable, Undeliverable
        """

    def chat_type_of(self, chat_id: str) -> str | None:  # noqa: ARG002 - all are private here
        """Return the type of a chat without messages so far, as in `SessionSource`: ``dm``,
        ``group`` or ``channel``; None if it is not known yet. Makes no request, and may be called
        from any thread.
        """
        return "dm"

    async def edit(self, target: Target, message_id: str, text: str) -> None:
        """Replace a sent message. Only where `limits.edits`.

        Raises:
            RateLimited, Unreachable, Undeliverable
        """
        raise NotImplementedError

    async def typing(self, target: Target) -> None:  # noqa: B027 - nothing to show is fine
        """Show for some seconds that a reply is being written, if the platform can."""

    async def fetch(self, attachment: Attachment, *, limit: int) -> bytes:
        """Return the contents of an attached file.

        Raises:
            Undeliverable: it is gone, or has more than *limit* bytes.
            RateLimited, Unreachable
        """
        raise NotImplementedError
