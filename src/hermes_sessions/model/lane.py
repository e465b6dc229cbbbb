"""A lane: a conversation key, the session it points at now, and the state it is in."""

from __future__ import annotations

import json
from typing import Any, Final, Literal, NamedTuple, get_args

from hermes_sessions.errors import InvalidInput
from hermes_sessions.model.key import LaneKey
from hermes_sessions.model.source import SessionSource

#: Nothing special; goes on after an interruption; starts anew with the next message.
Status = Literal["active", "resume_pending", "suspended"]
#: An automatic reset; one that the user asked for; a first conversation; another session was
#: chosen; the session was gone.
NoticeKind = Literal["auto_reset", "fresh_reset", "new", "switched", "lost"]

STATUSES: Final[tuple[Status, ...]] = get_args(Status)
NOTICE_KINDS: Final[tuple[NoticeKind, ...]] = get_args(NoticeKind)


class Notice(NamedTuple):
    """What is said once about a change of a lane, to the user and to the agent."""

    kind: NoticeKind
    #: ``idle``, ``daily``, ``suspended``, …
    reason: str | None = None
    #: Whether the session before had messages: otherwise nobody misses anything.
    had_activity: bool = False
    previous_session_id: str | None = None
    #: When it happened, in seconds since the epoch.
    at: float | None = None
    #: Why it had been suspended: ``stopped``, or ``stuck_loop``: then its last input was dropped.
    suspended_for: str | None = None

    def to_json(self) -> str:
        """Return the text that `from_json` reads."""
        return json.dumps(self._asdict())

    @classmethod
    def from_json(cls, text: str) -> Notice:
        """Return the notice that `to_json` wrote; fields of later versions are left out.

        Raises:
            InvalidInput: the text is no notice.
        """
        try:
            values: Any = json.loads(text)
        except ValueError as error:
            raise InvalidInput(f"A notice cannot be read: {error}.") from error
        if not isinstance(values, dict) or values.get("kind") not in NOTICE_KINDS:
            raise InvalidInput(
                f"A notice must be an object whose kind is one of: {', '.join(NOTICE_KINDS)}."
            )
        return cls(**{name: values[name] for name in cls._fields if name in values})


class Lane(NamedTuple):
    """One row of ``lanes``. Times are seconds since the epoch."""

    id: int
    #: The bot it belongs to.
    namespace: str
    key: LaneKey
    session_key: str
    session_id: str
    created_at: float
    updated_at: float
    status: Status = "active"
    status_reason: str | None = None
    status_at: float | None = None
    #: The source that its session came from; where answers go.
    origin: SessionSource | None = None
    display_name: str | None = None
    #: Not handed out yet.
    notice: Notice | None = None
    last_prompt_tokens: int = 0
    #: Starts of a gateway that found it with an unfinished turn, without a good one since.
    unfinished_starts: int = 0
    finalized_at: float | None = None
    finalize_attempts: int = 0
    finalize_error: str | None = None
