"""Records with the keys of Hermes 0.19, in its order, and messages as it passes them."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from hermes_sessions.model.ids import MAX_ID_LENGTH, stored_length

Record = dict[str, Any]

#: Columns of ``sessions`` in schema 22.
SESSION_KEYS: Final = (
    "id",
    "source",
    "user_id",
    "session_key",
    "chat_id",
    "chat_type",
    "thread_id",
    "display_name",
    "origin_json",
    "expiry_finalized",
    "model",
    "model_config",
    "system_prompt",
    "parent_session_id",
    "started_at",
    "ended_at",
    "end_reason",
    "message_count",
    "tool_call_count",
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
    "cwd",
    "git_branch",
    "git_repo_root",
    "billing_provider",
    "billing_base_url",
    "billing_mode",
    "estimated_cost_usd",
    "actual_cost_usd",
    "cost_status",
    "cost_source",
    "pricing_version",
    "title",
    "api_call_count",
    "handoff_state",
    "handoff_platform",
    "handoff_error",
    "compression_failure_cooldown_until",
    "compression_failure_error",
    "compression_fallback_streak",
    "profile_name",
    "rewind_count",
    "archived",
)
#: What lists add to them.
LISTED_KEYS: Final = (*SESSION_KEYS, "last_active", "preview", "_lineage_root_id")
#: Columns of ``messages`` in schema 22.
MESSAGE_KEYS: Final = (
    "id",
    "session_id",
    "role",
    "content",
    "tool_call_id",
    "tool_calls",
    "tool_name",
    "effect_disposition",
    "timestamp",
    "token_count",
    "finish_reason",
    "reasoning",
    "reasoning_content",
    "reasoning_details",
    "codex_reasoning_items",
    "codex_message_items",
    "platform_message_id",
    "observed",
    "active",
    "compacted",
    "api_content",
)
#: What a list of sessions to prune shows.
PRUNED_KEYS: Final = (
    "id",
    "source",
    "title",
    "model",
    "started_at",
    "ended_at",
    "message_count",
    "archived",
)
#: Keys of a message that agents pass under another name in some places.
_ALIASES: Final = {"message_id": "platform_message_id"}
#: Columns that Hermes declares without NULL or with 0, and that older rows may lack.
_ZEROS: Final = ("expiry_finalized", "compression_fallback_streak", "observed")


def reshaped(verb: Callable[..., Any], shape: Callable[[Any], Any]) -> Callable[..., Any]:
    """Return a method that does what *verb* does, with the signature of *verb*, and returns its
    result in another shape.
    """

    @functools.wraps(verb)
    def call(*args: Any, **options: Any) -> Any:
        return shape(verb(*args, **options))

    return call


def session_dict(record: Mapping[str, Any]) -> Record:
    """Return a session with the keys of schema 22, and those that lists add, if it has them."""
    return _with_keys(record, LISTED_KEYS)


def session_or_none(record: Mapping[str, Any] | None) -> Record | None:
    """Return `session_dict`, or None."""
    return None if record is None else session_dict(record)


def session_dicts(records: Iterable[Mapping[str, Any]]) -> list[Record]:
    """Return `session_dict` of each."""
    return [session_dict(record) for record in records]


def message_dict(record: Mapping[str, Any]) -> Record:
    """Return a message with the keys of schema 22, where compacted messages are not active."""
    message = _with_keys(record, MESSAGE_KEYS)
    message["active"] = int(bool(record["active"] and not record["compacted"]))
    return message


def message_dicts(records: Iterable[Mapping[str, Any]]) -> list[Record]:
    """Return `message_dict` of each."""
    return [message_dict(record) for record in records]


def window_dict(window: Mapping[str, Any], anchor_id: int) -> Record:
    """Return a window of messages around one of them, with `message_dict` of each. Hermes counts
    the messages of the window before and after the anchor, not those beyond it.
    """
    shaped: Record = {
        name: message_dicts(value) if isinstance(value, list) else value
        for name, value in window.items()
    }
    ids = [message["id"] for message in shaped["window"]]
    if anchor_id in ids:
        shaped["messages_before"] = ids.index(anchor_id)
        shaped["messages_after"] = len(ids) - 1 - shaped["messages_before"]
    return shaped


def in_force(records: Iterable[Mapping[str, Any]]) -> list[Record]:
    """Return `message_dict` of the messages that are neither rewound nor compacted."""
    return [message for message in message_dicts(records) if message["active"]]


def _with_keys(record: Mapping[str, Any], keys: Iterable[str]) -> Record:
    shaped = {key: record[key] for key in keys if key in record}
    for key in _ZEROS:
        if key in shaped and shaped[key] is None:
            shaped[key] = 0
    return shaped


def given_message(message: Mapping[str, Any]) -> Record:
    """Return a message as the store takes it.

    Times in a form that nothing can be made of become the present, as in Hermes; its ISO texts are
    read. Ids of messengers become text, and only text is kept as ``api_content``.
    """
    # Hermes raises AttributeError for what is no mapping.
    given = {name: message.get(name) for name in message.keys() | _ALIASES.keys()}
    for alias, name in _ALIASES.items():
        value = given.pop(alias)
        if given.get(name) is None:
            given[name] = value
    given["platform_message_id"] = platform_id(given["platform_message_id"])
    given["timestamp"] = time_of(given.get("timestamp"))
    if not isinstance(given.get("api_content"), str):
        given["api_content"] = None
    return given


def platform_id(value: object) -> str | None:
    """Return a messenger's id of a message as text; one that is too long for an index, such as that
    of some mails, by its digest.
    """
    if value is None:
        return None
    text = str(value)
    if stored_length(text) <= MAX_ID_LENGTH:
        return text
    import hashlib  # It loads a large library, and hardly any id is that long.

    return f"sha256:{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"


def time_of(value: Any) -> float | None:
    """Return a time as seconds since the epoch: a number, its text, an ISO text, or an object with
    ``timestamp()``; None for all else.
    """
    if callable(moment := getattr(value, "timestamp", None)):
        value = moment()
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            try:
                value = datetime.fromisoformat(value).timestamp()
            except (ValueError, OverflowError, OSError):
                return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return float(value)
