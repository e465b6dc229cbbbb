"""What stands for a session that has no title: the beginning of what its user said first."""

from __future__ import annotations

from hermes_sessions.model.message import preview_of
from hermes_sessions.storage.sessiondb import SessionDB

_PAGE = 20
#: Whoever has said nothing among so many messages is not in a dialogue.
_LOOKED_AT = 200


def preview_of_session(db: SessionDB, session_id: str) -> str:
    """Return the preview of a session, "" when its user said nothing."""
    for start in range(0, _LOOKED_AT, _PAGE):
        page = db.get_messages(session_id, limit=_PAGE, offset=start)
        for message in page:
            if message["role"] == "user" and message["content"] is not None:
                return preview_of(message["content"])
        if len(page) < _PAGE:
            break
    return preview_of(None)
