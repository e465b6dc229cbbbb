"""Whom or what an erasure is about, and everything that goes with it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple, get_args

from hermes_sessions.errors import InvalidInput
from hermes_sessions.storage.codec import to_json

Kind = Literal["user", "chat", "session"]


class Subject(NamedTuple):
    """A person or a chat, by the id that its platform gave it, or a session by its own."""

    kind: Kind
    id: str
    #: None: on every platform.
    platform: str | None = None

    def checked(self) -> Subject:
        """Return it.

        Raises:
            InvalidInput: it names nothing.
        """
        if self.kind not in get_args(Kind):
            raise InvalidInput(f"Only a user, a chat or a session can be forgotten: {self.kind!r}.")
        if not isinstance(self.id, str) or not self.id.strip():
            raise InvalidInput(f"Say which {self.kind} to forget.")
        return self

    def digest(self, receipt_id: str) -> str:
        """Return what stands for the id on a receipt: another one on each, so that two receipts
        about one person do not show that they are.
        """
        text = to_json([receipt_id, self.kind, self.id])
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """What is to go, as it was found. Kept with the receipt until nothing needs it any more."""

    subject: Subject
    #: What came later is not meant.
    requested_at: float
    #: All ids of the person, of the chat, or none.
    ids: tuple[str, ...] = ()
    #: Chats in which nobody else is, or that are meant as a whole.
    chat_ids: tuple[str, ...] = ()
    platforms: tuple[str, ...] = ()
    #: Sessions that go as a whole.
    session_ids: tuple[str, ...] = ()
    #: Sessions that several people share: what this one wrote goes.
    rooms: tuple[str, ...] = ()
    #: Numbers of the lanes that go, and their keys.
    lanes: tuple[int, ...] = ()
    session_keys: tuple[str, ...] = ()

    @property
    def are_of_people(self) -> bool:
        """Whether they can be in what a platform delivered."""
        return self.subject.kind != "session"

    def concern(self, platform: str, user_ids: Iterable[str | None], chat_id: str | None) -> bool:
        """Tell whether a message from these people in this chat is meant."""
        if self.subject.platform is not None and platform != self.subject.platform:
            return False
        if self.subject.kind == "user":
            return bool(set(self.ids) & set(user_ids)) or (chat_id or "") in self.chat_ids
        return self.subject.kind == "chat" and chat_id in self.ids

    def to_json(self) -> str:
        """Return the text that `from_json` reads."""
        return to_json(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Targets:
        """Return what `to_json` wrote."""
        values: dict[str, Any] = json.loads(text)
        subject = Subject(*values.pop("subject"))
        moment = values.pop("requested_at")
        lists = {name: tuple(found) for name, found in values.items()}
        return cls(subject=subject, requested_at=moment, **lists)
