"""What passes between a messenger and the gateway: values, without behaviour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from hermes_sessions.model.source import SessionSource


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file that came with a message, by reference: its bytes are fetched when they are needed."""

    kind: Literal["photo", "audio", "video", "document", "other"]
    #: How the platform names it, or where it was stored.
    reference: str
    name: str | None = None
    mime_type: str | None = None
    size: int | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """One of several messages of a platform that make one here, such as a picture of an album."""

    message_id: str
    text: str
    attachments: tuple[Attachment, ...] = ()
    order: float | None = None


@dataclass(frozen=True, slots=True)
class Inbound:
    """A message as a platform delivered it."""

    source: SessionSource
    text: str
    #: Unique within the chat; None where the platform has none, and then nothing is deduplicated.
    message_id: str | None
    #: When the platform says it was sent, in seconds since the epoch.
    sent_at: float | None = None
    attachments: tuple[Attachment, ...] = ()
    #: The message it answers, by its id.
    reply_to: str | None = None
    #: What an adapter wants to find again when it sends the reply; JSON can hold it.
    extra: dict[str, Any] = field(default_factory=dict)
    #: Ids of the roles that the sender has in the chat, where the platform has such a thing.
    roles: tuple[str, ...] = ()
    #: Its place in the chat, where the platform has one: higher than that of every message before.
    order: float | None = None
    #: What it was made of, the first included, where the platform sent several messages. Of those,
    #: what was stored before is left out.
    parts: tuple[Part, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON can hold it; `from_dict` makes an equal one of that."""
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
            # An earlier version reads what it knows.
            **({"parts": [asdict(part) for part in self.parts]} if self.parts else {}),
        }

    def only(self, parts: Sequence[Part]) -> Inbound:
        """Return what remains of it when it has these parts alone, at least one."""
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
        """Return the message that `to_dict` described.

        Raises:
            InvalidInput, TypeError, KeyError: it describes none.
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


#: ``stored``: it will have a turn. ``answered``: a command that was carried out. ``duplicate``:
#: it was stored before. ``refused``: see the reason. ``spooled``: kept in a local file until the
#: database is back.
Status = Literal["stored", "answered", "duplicate", "refused", "spooled"]
#: Why a message is refused. ``unknown``, ``blocked``, ``bot``: the sender may not talk here.
#: ``too many``: not so fast. ``full``: too much waits in the lane. ``too large``: it cannot be
#: stored. ``failed``: something went wrong that nobody foresaw, and it was kept aside.
Refusal = Literal["unknown", "blocked", "bot", "too many", "full", "too large", "failed"]


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of a message; returned when that is durable."""

    status: Status
    #: Number in the mailbox, where there is one.
    item_id: int | None = None
    #: How many wait in the lane, this one included.
    depth: int = 0
    #: What the sender is told, if anything.
    reply: str | None = None
    session_key: str | None = None
    #: The reply is in the outbox, and is sent from there.
    is_said: bool = False
    #: With ``refused``: why.
    reason: Refusal | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """Where a reply goes."""

    platform: str
    chat_id: str
    thread_id: str | None = None
    #: The message it answers, where the platform shows that.
    reply_to: str | None = None
    extra: dict[str, Any] = field(default_factory=dict)


def target_of_message(inbound: Inbound) -> Target:
    """Return where a message is answered."""
    source = inbound.source
    return Target(
        source.platform.value, source.chat_id, source.thread_id, inbound.message_id, inbound.extra
    )
