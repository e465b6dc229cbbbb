"""The subject of an erasure, and everything that is erased with it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple, get_args

from hermes_sessions.errors import InvalidInput
from hermes_sessions.storage.codec import to_json

Kind = Literal["user", "chat", "session"]


class ErasureSubject(NamedTuple):
    """A user or a chat by its platform's id, or a session by its id."""

    kind: Kind
    id: str
    #: None means every platform.
    platform: str | None = None

    def checked(self) -> ErasureSubject:
        """Return it if it is valid.

        Raises:
            InvalidInput: unknown kind or empty id.
        """
        if self.kind not in get_args(Kind):
            raise InvalidInput(
                f"Only a user, a chat or a session can be forgotten, not {self.kind!r}."
            )
        if not isinstance(self.id, str) or not self.id.strip():
            raise InvalidInput(f"Give the id of the {self.kind} to forget.")
        return self

    def digest(self, receipt_id: str) -> str:
        """Return the digest that replaces the id on a receipt.

        It differs on each receipt, so that two receipts about one user cannot be linked.
        """
        text = to_json([receipt_id, self.kind, self.id])
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


#: The former name.
Subject = ErasureSubject


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasureTargets:
    """The data to erase, as found. Stored with the receipt as long as a step needs it."""

    subject: ErasureSubject
    #: Later data is not included.
    requested_at: float
    #: All ids of the user or the chat; empty for a session.
    ids: tuple[str, ...] = ()
    #: Chats that only the user is in, or that are erased as a whole.
    chat_ids: tuple[str, ...] = ()
    platforms: tuple[str, ...] = ()
    #: Sessions erased as a whole.
    session_ids: tuple[str, ...] = ()
    #: Shared sessions, from which only the user's messages are erased.
    rooms: tuple[str, ...] = ()
    #: Ids of the erased lanes, and their keys.
    lanes: tuple[int, ...] = ()
    session_keys: tuple[str, ...] = ()

    @property
    def are_of_people(self) -> bool:
        """Whether they may occur in messages delivered by a platform."""
        return self.subject.kind != "session"

    def concern(self, platform: str, user_ids: Iterable[str | None], chat_id: str | None) -> bool:
        """Tell whether a message from these users in this chat is to be erased."""
        if self.subject.platform is not None and platform != self.subject.platform:
            return False
        if self.subject.kind == "user":
            return bool(set(self.ids) & set(user_ids)) or (chat_id or "") in self.chat_ids
        return self.subject.kind == "chat" and chat_id in self.ids

    def to_json(self) -> str:
        """Return the text that `from_json` reads."""
        return to_json(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> ErasureTargets:
        """Return what `to_json` wrote."""
        values: dict[str, Any] = json.loads(text)
        subject = ErasureSubject(*values.pop("subject"))
        moment = values.pop("requested_at")
        lists = {name: tuple(found) for name, found in values.items()}
        return cls(subject=subject, requested_at=moment, **lists)
