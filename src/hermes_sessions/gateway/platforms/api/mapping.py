"""Map requests to messages of the gateway. Pure.

Ids come from clients and go into keys, scopes and prompts, so they are short and have only harmless
characters: no slash, no space, no line end.

Conversations are separate per user: the same id for two users is two conversations, because the
chat's id contains both. A user cannot name a conversation of another user.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from hermes_sessions.gateway.events import Inbound
from hermes_sessions.gateway.platforms.api.errors import ApiError
from hermes_sessions.model.scope import Scope
from hermes_sessions.model.source import Platform, SessionSource

PLATFORM: Final = Platform.API_SERVER
SESSION_HEADER: Final = "X-Hermes-Session-Id"
USER_HEADER: Final = "X-Hermes-User-Id"
KEY_HEADER: Final = "Idempotency-Key"

#: The pattern of ids; also in the OpenAPI description.
ID_FORM: Final = r"[A-Za-z0-9._@+=:-]{1,128}"
_ID: Final = re.compile(ID_FORM)
_ROLES: Final = frozenset({"system", "developer", "user", "assistant", "tool", "function"})


class ChatRequest(NamedTuple):
    """A request for a chat completion."""

    #: The client's system prompt.
    system: str | None
    #: Earlier messages in the request, in the store's format.
    earlier: list[dict[str, Any]]
    #: New messages: the user's after the last reply.
    text: str
    is_streamed: bool
    user: str | None


def checked_id(value: object, what: str) -> str:
    """Return a validated id.

    Raises:
        ApiError: it is not valid.
    """
    if not isinstance(value, str) or not _ID.fullmatch(value):
        raise ApiError(
            400,
            f"{what} must be 1 to 128 letters, digits or one of . _ @ + = : -",
            code="invalid_id",
            param=what,
        )
    return value


def one_of(header: str | None, field: object, what: str) -> str | None:
    """Return an id from a header or the body; None if it is in neither.

    Raises:
        ApiError: it is not valid, or the two differ.
    """
    by_header = None if header is None else checked_id(header, what)
    by_field = None if field is None else checked_id(field, what)
    if by_header and by_field and by_header != by_field:
        raise ApiError(
            400,
            f"{what} is {by_header} in the header and {by_field} in the body; send only one of "
            "them.",
            code="contradiction",
            param=what,
        )
    return by_header or by_field


def source_of(conversation: str, user: str | None, message_id: str | None = None) -> SessionSource:
    """Return the source of a message: a private chat, of a user if one is named.

    Without a user, the conversation is isolated: it does not see other conversations.
    """
    return SessionSource(
        PLATFORM,
        f"{user}/{conversation}" if user else conversation,
        user_id=user or f"/{conversation}",
        message_id=message_id,
        # The token authorises the caller.
        role_authorized=True,
    )


def inbound_of(conversation: str, user: str | None, text: str, message_id: str) -> Inbound:
    """Return a message for the gateway."""
    return Inbound(source_of(conversation, user, message_id), text, message_id)


def scope_of(user: str | None) -> Scope:
    """Return the scope of a caller: conversations of this API, and of those only the user's."""
    return Scope(user_id=user, source=PLATFORM.value)


# ── OpenAI's form ─────────────────────────────────────────────────────────────────────────────


def read_chat(body: object) -> ChatRequest:
    """Return the parsed request for a chat completion.

    Raises:
        ApiError: it is not valid or not supported.
    """
    request = as_object(body)
    messages = request.get("messages")
    if not isinstance(messages, list) or not messages:
        raise _wrong("messages must be a list with at least one message.", "messages")
    _refuse_unsupported_options(request)
    read = [_read_message(message, number) for number, message in enumerate(messages)]
    spoken = [message for message in read if message["role"] != "system"]
    system = "\n\n".join(message["content"] for message in read if message["role"] == "system")
    last_answer = max(
        (number for number, message in enumerate(spoken) if message["role"] != "user"), default=-1
    )
    new = spoken[last_answer + 1 :]
    text = "\n\n".join(message["content"] for message in new).strip()
    if not text:
        raise _wrong("The last message must be from the user, and must not be empty.", "messages")
    return ChatRequest(
        system=system or None,
        earlier=spoken[: last_answer + 1],
        text=text,
        is_streamed=as_flag(request.get("stream"), "stream"),
        user=None if request.get("user") is None else checked_id(request["user"], "user"),
    )


def as_object(body: object) -> Mapping[str, Any]:
    """Return a body that is an object.

    Raises:
        ApiError: it is not one.
    """
    if not isinstance(body, Mapping):
        raise _wrong("The body must be a JSON object.", None)
    return body


def as_flag(value: object, what: str) -> bool:
    """Return a boolean from JSON, or from the text of a query.

    Raises:
        ApiError: it is neither true nor false.
    """
    if isinstance(value, str) and value.lower() in {"", "1", "true", "yes"}:
        return True
    if (
        value is None
        or value == "0"
        or (isinstance(value, str) and value.lower() in {"false", "no"})
    ):
        return False
    if isinstance(value, bool):
        return value
    raise _wrong(f"{what} must be true or false.", what)


def as_number(value: str | None, what: str, *, default: int, at_most: int) -> int:
    """Return an integer from a query.

    Raises:
        ApiError: it is not valid, or out of bounds.
    """
    if value is None:
        return default
    is_number = value.isascii() and value.isdigit() and len(value) < 10
    if not is_number or int(value) > at_most:
        raise _wrong(f"{what} must be a whole number from 0 to {at_most}.", what)
    return int(value)


def _wrong(message: str, param: str | None, code: str = "invalid_value") -> ApiError:
    return ApiError(400, message, code=code, param=param)


def _refuse_unsupported_options(request: Mapping[str, Any]) -> None:
    """Refuse options that would change the format of the response; sampling is configured in the
    gateway.
    """
    if request.get("tools") or request.get("functions"):
        name = "tools" if request.get("tools") else "functions"
        raise _wrong(
            f"{name} is not supported: the agent has its own tools, which the gateway runs.",
            name,
            "unsupported_parameter",
        )
    # Not a set: the value may be a list, which is not hashable.
    if request.get("n") not in (None, 1):
        raise _wrong("n must be 1: a conversation has one reply.", "n", "unsupported_parameter")
    form = request.get("response_format")
    if form is not None and as_object(form).get("type") != "text":
        raise _wrong(
            "response_format must be text: the agent replies in text.",
            "response_format",
            "unsupported_parameter",
        )


def _read_message(message: object, number: int) -> dict[str, Any]:
    where = f"messages[{number}]"
    if not isinstance(message, Mapping):
        raise _wrong(f"{where} must be an object.", where)
    role = message.get("role")
    if not isinstance(role, str) or role not in _ROLES:
        known = ", ".join(sorted(_ROLES))
        raise _wrong(f"{where}.role must be one of: {known}.", f"{where}.role")
    content = _text_of(message.get("content"), f"{where}.content")
    read: dict[str, Any] = {"role": _role(role), "content": content}
    if read["role"] == "tool":
        read["tool_call_id"] = str(message.get("tool_call_id") or message.get("name") or "")
    if read["role"] == "assistant" and isinstance(message.get("tool_calls"), list):
        read["tool_calls"] = message["tool_calls"]
    return read


def _role(role: str) -> str:
    return {"developer": "system", "function": "tool"}.get(role, role)


def _text_of(content: object, where: str) -> str:
    """Return the text of a message, which may be in parts."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise _wrong(f"{where} must be text, or a list of text parts.", where)
    texts = []
    for part in content:
        text = part.get("text") if isinstance(part, Mapping) else None
        if not isinstance(text, str):
            raise _wrong(
                f"{where} has a part that is not text; only text is supported.",
                where,
                "unsupported_content",
            )
        texts.append(text)
    return "\n".join(texts)
