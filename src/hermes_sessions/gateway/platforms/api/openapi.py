"""The OpenAPI 3.1 description of the API."""

from __future__ import annotations

from typing import Any, Final

from hermes_sessions.gateway.platforms.api.mapping import (
    ID_FORM,
    KEY_HEADER,
    SESSION_HEADER,
    USER_HEADER,
)

Json = dict[str, Any]

_ID: Final[Json] = {"type": "string", "pattern": f"^{ID_FORM}$"}
_TEXT: Final[Json] = {"type": "string"}
_TEXT_OR_NULL: Final[Json] = {"type": ["string", "null"]}
_NUMBER: Final[Json] = {"type": "integer"}
_STORE_STATE: Final[Json] = {"enum": ["healthy", "degraded", "read-only", "down"]}
_AGE: Final[Json] = {
    "type": "number",
    "description": "Seconds since the last heartbeat, or write, was stored or given up.",
}
_NUMBER_OR_NULL: Final[Json] = {"type": ["integer", "null"]}
_SECONDS_OR_NULL: Final[Json] = {"type": ["number", "null"]}
_FLAG: Final[Json] = {"type": "boolean"}


def description() -> Json:
    """Return the description, ready for JSON."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Hermes Sessions gateway",
            "version": "1",
            "description": (
                "Talk to the agent and read conversations. Every message is stored before it is "
                "answered."
            ),
        },
        "security": [{"token": []}],
        "paths": _PATHS,
        "components": {
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "platforms.api.token of the gateway's configuration",
                }
            },
            "schemas": _SCHEMAS,
        },
    }


def _ref(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def _object(required: str, **properties: Json) -> Json:
    return {"type": "object", "required": required.split(), "properties": properties}


def _list_of(name: str) -> Json:
    return _object(
        "object data has_more next_offset",
        object={"const": "list"},
        data={"type": "array", "items": _ref(name)},
        has_more=_FLAG,
        next_offset=_NUMBER_OR_NULL,
        session_id=_TEXT,
    )


def _json(words: str, schema: Json, *, names_session: bool = False) -> Json:
    answer: Json = {"description": words, "content": {"application/json": {"schema": schema}}}
    if names_session:
        answer["headers"] = {SESSION_HEADER: {"schema": _ID, "description": "The conversation."}}
    return answer


def _stream(words: str) -> Json:
    return {"text/event-stream": {"schema": {"type": "string", "description": words}}}


def _parameter(name: str, where: str, schema: Json, words: str) -> Json:
    return {
        "name": name,
        "in": where,
        "required": where == "path",
        "schema": schema,
        "description": words,
    }


def _operation(
    name: str,
    summary: str,
    answers: Json,
    *,
    parameters: tuple[Json, ...] = (),
    body: Json | None = None,
    is_open: bool = False,
) -> Json:
    operation: Json = {"operationId": name, "summary": summary, "responses": answers}
    if parameters:
        operation["parameters"] = list(parameters)
    if body is not None:
        operation["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": body}},
        }
    if is_open:
        operation["security"] = []
    else:
        operation["responses"] |= {"default": _json("The error.", _ref("Error"))}
    return operation


_USER: Final = _parameter(
    USER_HEADER, "header", _ID, "The user of the request; users have separate conversations."
)
_KEY: Final = _parameter(
    KEY_HEADER, "header", _ID, "Send the same key with a retry: the message is accepted once."
)
_LIMIT: Final = _parameter(
    "limit",
    "query",
    {"type": "integer", "minimum": 1, "maximum": 200},
    "How many to return; 50 by default.",
)
_OFFSET: Final = _parameter("offset", "query", _NUMBER, "How many to skip from the start.")
_CONVERSATION: Final = _parameter("conversation", "path", _ID, "Any name that the client chooses.")

_SCHEMAS: Final[Json] = {
    "Error": _object(
        "error",
        error=_object(
            "message type param code",
            message=_TEXT,
            type=_TEXT,
            param=_TEXT_OR_NULL,
            code=_TEXT,
        ),
    ),
    "NewMessage": _object(
        "text",
        text={"type": "string", "minLength": 1},
        id=_ID | {"description": f"Same as {KEY_HEADER}."},
        user=_ID | {"description": f"Same as {USER_HEADER}."},
    ),
    "Receipt": _object(
        "object status conversation message_id item_id waiting note",
        object={"const": "receipt"},
        status={"enum": ["stored", "answered", "duplicate", "spooled"]},
        conversation=_ID,
        message_id=_ID,
        item_id=_NUMBER_OR_NULL,
        waiting=_NUMBER | {"description": "How many messages are waiting, including this one."},
        note=_TEXT_OR_NULL | {"description": "A note for the sender."},
        outcome=_TEXT_OR_NULL | {"description": "With wait: how the turn ended."},
        reply=_TEXT | {"description": "With wait: the reply."},
    ),
    "Session": _object(
        "object id message_count started_at last_active",
        object={"const": "session"},
        id=_TEXT,
        conversation_id=_TEXT_OR_NULL,
        title=_TEXT_OR_NULL,
        preview=_TEXT_OR_NULL,
        model=_TEXT_OR_NULL,
        message_count=_NUMBER,
        started_at={"type": "number"},
        ended_at=_SECONDS_OR_NULL,
        end_reason=_TEXT_OR_NULL,
        last_active={"type": "number"},
        input_tokens=_NUMBER_OR_NULL,
        output_tokens=_NUMBER_OR_NULL,
    ),
    "Message": _object(
        "object id role content timestamp",
        object={"const": "message"},
        id=_NUMBER,
        role=_TEXT,
        content={"description": "Text, parts of a message, or null."},
        timestamp={"type": "number"},
        tool_name=_TEXT_OR_NULL,
        tool_calls={"description": "In OpenAI's format, or null."},
        tool_call_id=_TEXT_OR_NULL,
    ),
    "SessionList": _list_of("Session"),
    "MessageList": _list_of("Message"),
    "ModelList": _object(
        "object data",
        object={"const": "list"},
        data={
            "type": "array",
            "items": _object(
                "id object created owned_by",
                id=_TEXT,
                object={"const": "model"},
                created=_NUMBER,
                owned_by=_TEXT,
            ),
        },
    ),
    "ChatRequest": _object(
        "messages",
        messages={
            "type": "array",
            "minItems": 1,
            "items": _object(
                "role",
                role={
                    "enum": ["system", "developer", "user", "assistant", "tool", "function"],
                },
                content={"description": "Text, or a list of text parts."},
            ),
        },
        stream=_FLAG,
        user=_ID,
    ),
    "ChatCompletion": _object(
        "id object created model choices",
        id=_TEXT,
        object={"const": "chat.completion"},
        created=_NUMBER,
        model=_TEXT,
        choices={
            "type": "array",
            "items": _object(
                "index message finish_reason",
                index=_NUMBER,
                message=_object(
                    "role content",
                    role={"const": "assistant"},
                    content=_TEXT,
                    refusal={"type": "null"},
                ),
                logprobs={"type": "null"},
                finish_reason={"const": "stop"},
            ),
        },
    ),
    "Health": _object(
        "status store heartbeat_age",
        status={"const": "ok"},
        store=_STORE_STATE,
        heartbeat_age=_AGE,
    ),
    "Readiness": _object(
        "status store heartbeat_age problems",
        status={"enum": ["ready", "not ready"]},
        store=_STORE_STATE,
        heartbeat_age=_AGE,
        problems={"type": "object", "additionalProperties": _TEXT},
    ),
}

_PATHS: Final[Json] = {
    "/healthz": {
        "get": _operation(
            "health",
            "Liveness: the gateway is running.",
            {"200": _json("It is running.", _ref("Health"))},
            is_open=True,
        )
    },
    "/readyz": {
        "get": _operation(
            "readiness",
            "Readiness: messages can be answered.",
            {
                "200": _json("Ready.", _ref("Readiness")),
                "503": _json("Not ready, with the reasons.", _ref("Readiness")),
            },
            is_open=True,
        )
    },
    "/metrics": {
        "get": _operation(
            "metrics",
            "Metrics for Prometheus.",
            {
                "200": {
                    "description": "Prometheus' text format.",
                    "content": {"text/plain": {"schema": _TEXT}},
                }
            },
        )
    },
    "/openapi.json": {
        "get": _operation(
            "description",
            "This description.",
            {"200": _json("OpenAPI 3.1.", {"type": "object"})},
            is_open=True,
        )
    },
    "/v1/models": {
        "get": _operation(
            "listModels",
            "The only model: the agent.",
            {"200": _json("In OpenAI's format.", _ref("ModelList"))},
        )
    },
    "/v1/chat/completions": {
        "post": _operation(
            "createChatCompletion",
            "Chat completions as in OpenAI's API; with a session id, the agent remembers.",
            {
                "200": {
                    "description": "The reply.",
                    "headers": {SESSION_HEADER: {"schema": _ID}},
                    "content": {"application/json": {"schema": _ref("ChatCompletion")}}
                    | _stream("With stream: chunks in OpenAI's format, then [DONE]."),
                }
            },
            parameters=(
                _parameter(
                    SESSION_HEADER,
                    "header",
                    _ID,
                    "The conversation. Without it, the request is a new conversation with "
                    "everything that it contains.",
                ),
                _USER,
                _KEY,
            ),
            body=_ref("ChatRequest"),
        )
    },
    "/v1/conversations/{conversation}/messages": {
        "post": _operation(
            "postMessage",
            "Send a message to a conversation.",
            {
                "202": _json("The message is stored.", _ref("Receipt"), names_session=True),
                "200": {
                    "description": "With wait or stream: the result.",
                    "headers": {SESSION_HEADER: {"schema": _ID}},
                    "content": {"application/json": {"schema": _ref("Receipt")}}
                    | _stream(
                        "Events: receipt, then text, reasoning, tool_started, tool_finished, and "
                        "ended or error last."
                    ),
                },
            },
            parameters=(
                _CONVERSATION,
                _parameter("wait", "query", _FLAG, "Respond when the turn has ended."),
                _parameter("stream", "query", _FLAG, "Respond with a stream of events."),
                _USER,
                _KEY,
            ),
            body=_ref("NewMessage"),
        ),
        "get": _operation(
            "listConversationMessages",
            "Read the current session of a conversation.",
            {"200": _json("A page of messages.", _ref("MessageList"))},
            parameters=(_CONVERSATION, _LIMIT, _OFFSET, _USER),
        ),
    },
    "/v1/sessions": {
        "get": _operation(
            "listSessions",
            "List the sessions of this API, latest first.",
            {"200": _json("A page of sessions.", _ref("SessionList"))},
            parameters=(_LIMIT, _OFFSET, _USER),
        )
    },
    "/v1/sessions/{session_id}/messages": {
        "get": _operation(
            "listMessages",
            "Read a session.",
            {"200": _json("A page of messages.", _ref("MessageList"))},
            parameters=(
                _parameter("session_id", "path", _ID, "The session."),
                _LIMIT,
                _OFFSET,
                _USER,
            ),
        )
    },
}
