"""The values that messengers and the gateway exchange."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from hermes_sessions.model.source import SessionSource


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file of a message, by reference: its bytes are fetched when they are needed."""

    kind: Literal["photo", "audio", "video", "document", "other"]
    #: Its id on the platform, or the path where it was stored.
    reference: str
    name: str | None = None
    mime_type: str | None = None
    size: int | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """One of several platform messages that form one message, such as a picture of an album."""

    message_id: str
    text: str
    attachments: tuple[Attachment, ...] = ()
    order: float | None = None


@dataclass(frozen=True, slots=True)
class Inbound:
    """A message from a platform."""

    source: SessionSource
    text: str
    #: Unique within the chat; None if the platform has no ids, which disables deduplication.
    message_id: str | None
    #: The time at which the platform says it was sent, in seconds since the epoch.
    sent_at: float | None = None
    attachments: tuple[Attachment, ...] = ()
    #: The id of the message that it replies to.
    reply_to: str | None = None
    #: Data that the adapter needs to send the reply; JSON can hold it.
    extra: dict[str, Any] = field(default_factory=dict)
    #: Ids of the sender's roles in the chat, if the platform has roles.
    roles: tuple[str, ...] = ()
    #: Its position in the chat, if the platform has one: higher than that of earlier messages.
    order: float | None = None
    #: Its parts, if the platform sent several messages. Parts that were stored before are left out.
    parts: tuple[Part, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return it in a form that JSON can hold; `from_dict` makes an equal one of it."""
        return {
            "source": self.source.to_dict(),
            "text": self.text,
            "message_id": self.message_id,
            "sent_at": self.sent_at,
            "attachments": [asdict(attachment) for attachment in self.attachments],
            "reply_to": self.reply_to,
            "extra": self.extra,
            "roles": list(self.roles),
            "order": self.order,
            # An earlier version ignores unknown keys.
            **({"parts": [asdict(part) for part in self.parts]} if self.parts else {}),
        }

    def only(self, parts: Sequence[Part]) -> Inbound:
        """Return the message with only these parts, at least one."""
        first = parts[0]
        return replace(
            self,
            source=replace(self.source, message_id=first.message_id),
            text="\n".join(part.text for part in parts if part.text),
            message_id=first.message_id,
            attachments=tuple(file for part in parts for file in part.attachments),
            order=first.order,
            parts=tuple(parts),
        )

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Inbound:
        """Return the message that `to_dict` wrote.

        Raises:
            InvalidInput, TypeError, KeyError: *values* are not valid.
        """
        read = {
            "source": SessionSource.from_dict(values["source"]),
            "attachments": _attachments(values["attachments"]),
            "roles": tuple(values.get("roles", ())),
            "parts": tuple(
                Part(**{**part, "attachments": _attachments(part["attachments"])})
                for part in values.get("parts", ())
            ),
        }
        return cls(**{**values, **read})


def _attachments(values: Sequence[Mapping[str, Any]]) -> tuple[Attachment, ...]:
    return tuple(Attachment(**each) for each in values)


#: ``stored``: it will get a turn. ``answered``: a command that ran. ``duplicate``: it was stored
#: before. ``refused``: see the reason. ``spooled``: kept in a local file until the database is
#: back.
Status = Literal["stored", "answered", "duplicate", "refused", "spooled"]
#: Why a message is refused. ``unknown``, ``blocked``, ``bot``: the sender is not allowed.
#: ``too many``: above the rate limit. ``full``: the lane's queue is full. ``too large``: it cannot
#: be stored. ``failed``: an unexpected error; the message was set aside.
Refusal = Literal["unknown", "blocked", "bot", "too many", "full", "too large", "failed"]


@dataclass(frozen=True, slots=True)
class Receipt:
    """The result of a message; returned when it is durable."""

    status: Status
    #: Its id in the mailbox, if it is there.
    item_id: int | None = None
    #: The number of messages in the lane's queue, including this one.
    depth: int = 0
    #: The reply to the sender, if any.
    reply: str | None = None
    session_key: str | None = None
    #: Whether the reply is in the outbox, and is sent from there.
    is_in_outbox: bool = False
    #: The reason, if refused.
    reason: Refusal | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """The destination of a reply."""

    platform: str
    chat_id: str
    thread_id: str | None = None
    #: The id of the message to reply to, if the platform shows that.
    reply_to: str | None = None
    extra: dict[str, Any] = field(default_factory=dict)


def target_of_message(inbound: Inbound) -> Target:
    """Return the destination of the reply to a message."""
    source = inbound.source
    return Target(
        source.platform.value, source.chat_id, source.thread_id, inbound.message_id, inbound.extra
    )
