"""Map lines of the socket to messages of the gateway. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from hermes_sessions.gateway.events import Inbound
from hermes_sessions.gateway.platforms.port import UnreadablePayload
from hermes_sessions.model.source import Platform, SessionSource

# The protocol: one JSON object per line.  A client starts with ``hello``, then sends ``message``
# and, for every message that it has shown, ``seen``. The gateway sends ``welcome``, then
# ``receipt`` or ``failed`` for each message, ``progress`` until it is answered, ``typing``, and
# ``message`` for what the agent says. It answers ``bye`` with ``bye`` when the client has shown
# every message.


PROTOCOL: Final = 1
#: The longest line that a client accepts.
MAX_REPLY_BYTES: Final = 16 * 1024**2


def line_of(kind: str, /, **values: Any) -> bytes:
    """Return an object as a line."""
    # ASCII only: a lone surrogate cannot be encoded in UTF-8.
    return json.dumps({"type": kind, **values}).encode() + b"\n"


def read_line(line: bytes) -> Mapping[str, Any]:
    """Return the object in a line; it has a ``type``.

    Raises:
        UnreadablePayload: it is not valid.
    """
    try:
        said = json.loads(line.decode())
    except (ValueError, RecursionError) as error:
        raise UnreadablePayload(f"A line is not JSON: {type(error).__name__}.") from error
    if not isinstance(said, dict) or not isinstance(said.get("type"), str):
        raise UnreadablePayload("A line must be a JSON object with a type.")
    return said


def text_in(said: Mapping[str, Any], name: str) -> str:
    """Return a text field of a line.

    Raises:
        UnreadablePayload: it is missing or not a text.
    """
    value = said.get(name)
    if not isinstance(value, str) or not value.strip():
        raise UnreadablePayload(f"{said['type']} needs {name}, as text.")
    return value


PLATFORM: Final = Platform.LOCAL
DEFAULT_CHAT: Final = "main"
_NAME: Final = re.compile(r"[A-Za-z0-9._@+=:-]{1,128}")


class ChatAddress(NamedTuple):
    """The chat and the user of a client: the user of this machine, or a named one."""

    chat: str
    user: str | None
    uid: int

    @property
    def chat_id(self) -> str:
        """The chat's id: named users have separate chats."""
        return f"{self.user}/{self.chat}" if self.user else self.chat


def address_of(said: Mapping[str, Any], uid: int) -> ChatAddress:
    """Return the place of a client from its hello.

    Raises:
        UnreadablePayload: it is not a hello, or not a valid chat.
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


def inbound_of(said: Mapping[str, Any], address: ChatAddress) -> Inbound:
    """Return a message for the gateway.

    Raises:
        UnreadablePayload: it is not a valid message.
    """
    text, message_id = text_in(said, "text"), text_in(said, "id")
    if not _NAME.fullmatch(message_id):
        raise UnreadablePayload("id must be 1 to 128 letters, digits or one of . _ @ + = : -")
    source = SessionSource(
        PLATFORM,
        address.chat_id,
        # A name cannot be a number: a named user cannot pass as the user of this machine.
        user_id=f"named:{address.user}" if address.user else str(address.uid),
        message_id=message_id,
        # Only the user who started the gateway can open the socket.
        role_authorized=True,
    )
    return Inbound(source, text, message_id)
