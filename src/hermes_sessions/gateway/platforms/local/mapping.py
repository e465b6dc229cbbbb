"""What clients of the socket say, as the gateway takes it: pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from hermes_sessions.gateway.events import Inbound
from hermes_sessions.gateway.platforms.local.wire import text_in
from hermes_sessions.gateway.platforms.port import UnreadablePayload
from hermes_sessions.model.source import Platform, SessionSource

PLATFORM: Final = Platform.LOCAL
DEFAULT_CHAT: Final = "main"
_NAME: Final = re.compile(r"[A-Za-z0-9._@+=:-]{1,128}")


class Place(NamedTuple):
    """Where a client is: in a chat, as the user of this machine or as somebody they named."""

    chat: str
    user: str | None
    uid: int

    @property
    def chat_id(self) -> str:
        """The chat's id: chats of people who were named are their own."""
        return f"{self.user}/{self.chat}" if self.user else self.chat


def place_of(said: Mapping[str, Any], uid: int) -> Place:
    """Return where a client that said hello is.

    Raises:
        UnreadablePayload: it did not, or not in a chat that can be.
    """
    if said["type"] != "hello":
        raise UnreadablePayload("The first line must be a hello.")
    chat, user = said.get("chat") or DEFAULT_CHAT, said.get("user")
    for name, value in (("chat", chat), ("user", user or "x")):
        if not isinstance(value, str) or not _NAME.fullmatch(value):
            raise UnreadablePayload(
                f"{name} must be 1 to 128 letters, digits or one of . _ @ + = : -"
            )
    return Place(chat, user or None, uid)


def inbound_of(said: Mapping[str, Any], place: Place) -> Inbound:
    """Return a message for the gateway.

    Raises:
        UnreadablePayload: it is none.
    """
    text, message_id = text_in(said, "text"), text_in(said, "id")
    if not _NAME.fullmatch(message_id):
        raise UnreadablePayload("id must be 1 to 128 letters, digits or one of . _ @ + = : -")
    source = SessionSource(
        PLATFORM,
        place.chat_id,
        # A number is nobody's name: whom a client names cannot be the user of this machine.
        user_id=f"named:{place.user}" if place.user else str(place.uid),
        message_id=message_id,
        # Whoever may open the socket is who started the gateway.
        role_authorized=True,
    )
    return Inbound(source, text, message_id)
