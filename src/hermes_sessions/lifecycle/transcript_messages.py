"""Reading and writing of transcripts in the documented form: messages are mappings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from hermes_sessions.errors import InvalidInput
from hermes_sessions.storage.repositories.rewinds import Rewinds
from hermes_sessions.storage.repositories.rows import ASSISTANT_FIELDS, MESSAGE_FIELDS
from hermes_sessions.storage.sessiondb import SessionDB

if TYPE_CHECKING:
    from hermes_sessions.storage.records import ConversationMessage

Record = dict[str, Any]

_OWN_RULES: Final = {"role", "timestamp", "external_id"}
_FIELDS: Final = [name for name in MESSAGE_FIELDS if name not in {*_OWN_RULES, *ASSISTANT_FIELDS}]
#: Keys of a platform's own message id.
_EXTERNAL_IDS: Final = ("external_id", "platform_message_id", "message_id")


def stored_form(message: Mapping[str, Any]) -> Record:
    """Return a message with the keys under which it is stored.

    The default role is ``unknown``; only assistant messages keep reasoning; a platform's own id
    makes the append idempotent; unknown keys are ignored.

    Raises:
        InvalidInput: not a mapping, or its time cannot be read.
    """
    if not isinstance(message, Mapping):
        raise InvalidInput(f"A message must be a mapping, not {type(message).__name__}.")
    role = message.get("role") or "unknown"
    wanted = (*_FIELDS, *ASSISTANT_FIELDS) if role == "assistant" else _FIELDS
    form: Record = {"role": role}
    form |= {name: message[name] for name in wanted if message.get(name) is not None}
    if "tool_name" not in form and role == "tool" and message.get("name"):
        form["tool_name"] = message["name"]
    external = next((message[name] for name in _EXTERNAL_IDS if message.get(name)), None)
    if external is not None:
        form["external_id"] = str(external)
    if message.get("timestamp") is not None:
        form["timestamp"] = moment_of(message["timestamp"])
    return form


def moment_of(value: object) -> float:
    """Return a number, ISO 8601 text or `datetime` as seconds since the epoch.

    A time without a zone is local.

    Raises:
        InvalidInput: any other value.
    """
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else value
        if isinstance(moment, datetime):
            return moment.timestamp()
    except (ValueError, OverflowError, OSError) as error:
        raise InvalidInput(f"{value!r} is not a time: {error}.") from error
    raise InvalidInput(f"{value!r} is not a time; use seconds since the epoch or ISO 8601.")


class Transcripts:
    """The methods of `SessionStore` for messages."""

    def __init__(self, db: SessionDB) -> None:
        self._db = db

    def append(self, session_id: str, message: Mapping[str, Any], fence: int | None) -> int:
        """See `SessionStore.append_to_transcript`."""
        [stored] = self._db.append_messages(session_id, [stored_form(message)], fence=fence)
        return stored

    def rewrite(
        self, session_id: str, messages: Iterable[Mapping[str, Any]], fence: int | None
    ) -> None:
        """See `SessionStore.rewrite_transcript`."""
        forms = [stored_form(message) for message in messages]
        self._db.replace_messages(session_id, forms, fence=fence)

    def load(self, session_id: str) -> list[ConversationMessage]:
        """See `SessionStore.load_transcript`."""
        return self._db.get_messages_as_conversation(session_id)

    def rewind(self, session_id: str, turns: int, fence: int | None) -> Record | None:
        """See `SessionStore.rewind_session`."""
        taken = Rewinds(self._db.store).rewind_turns(session_id, max(1, turns), fence=fence)
        if taken is None:
            return None
        done, recent = taken
        return {
            "rewound_count": done["rewound_count"],
            "turns_undone": len(recent),
            "target_text": _typed(recent[-1]["content"]) or done["target_text"],
        }


def _typed(content: object) -> str | None:
    """Return the typed text, one line for each part of a structured message."""
    if not isinstance(content, list):
        return None
    texts = [part.get("text") for part in content if isinstance(part, dict)]
    return "\n".join(text for text in texts if isinstance(text, str))
