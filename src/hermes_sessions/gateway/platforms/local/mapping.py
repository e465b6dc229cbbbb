"""What clients of the socket say, as the gateway takes it: pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from hermes_sessions.gateway.events import Inbound
from hermes_sessions.gateway.platforms.port import UnreadablePayload
from hermes_sessions.model.source import Platform, SessionSource

# What passes through the socket: one JSON object in each line.
#
# A client begins with ``hello``, then sends ``message`` and, for every message that it was given,
# ``seen``. The gateway answers ``welcome``, then ``receipt`` or ``failed`` for each message,
# ``progress`` until it is answered, and ``message`` for what the agent says, ``typing`` before
# that. A client that says ``bye`` is told the same when it has seen everything.


PROTOCOL: Final = 1
#: The longest line that a client takes.
MAX_REPLY_BYTES: Final = 16 * 1024**2


def line_of(kind: str, /, **values: Any) -> bytes:
    """Return a line."""
    # All ASCII: half a character cannot be written in UTF-8.
    return json.dumps({"type": kind, **values}).encode() + b"\n"


def read_line(line: bytes) -> Mapping[str, Any]:
    """Return what a line says; it has a ``type``.

    Raises:
        UnreadablePayload: nothing that can be understood.
    """
    try:
        said = json.loads(line.decode())
    except (ValueError, RecursionError) as error:
        raise UnreadablePayload(f"A line is not JSON: {type(error).__name__}.") from error
    if not isinstance(said, dict) or not isinstance(said.get("type"), str):
        raise UnreadablePayload("A line must be a JSON object with a type.")
    return said


def text_in(said: Mapping[str, Any], name: str) -> str:
    """Return a text of a line.

    Raises:
        UnreadablePayload: there is none.
    """
    value = said.get(name)
    if not isinstance(value, str) or not value.strip():
        raise UnreadablePayload(f"{said['type']} needs {name}, a text.")
    return value


PLATFORM: Final = Platform.LOCAL
DEFAULT_CHAT: Final = "main"
_NAME: Final = re.compile(r"[A-Za-z0-9._@+=:-]{1,128}")


class ChatAddress(NamedTuple):
    """Where a client is: in a chat, as the user of this machine or as somebody they named."""

    chat: str
    user: str | None
    uid: int

    @property
    def chat_id(self) -> str:
        """The chat's id: chats of people who were named are their own."""
        return f"{self.user}/{self.chat}" if self.user else self.chat


def place_of(said: Mapping[str, Any], uid: int) -> ChatAddress:
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
    return ChatAddress(chat, user or None, uid)


def inbound_of(said: Mapping[str, Any], place: ChatAddress) -> Inbound:
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
