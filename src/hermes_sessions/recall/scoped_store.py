"""The store as one asker sees it.

Recall reads through this class alone, so that no shape can forget who is asking: outside the scope
nothing exists.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hermes_sessions.model.scope import Scope
from hermes_sessions.storage.search.answer import Answer
from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions.text.query.filters import Conditions

Record = dict[str, Any]

_LARGEST_ID = 2**63 - 1


class ScopedStore:
    """Reads of a `SessionDB`, each within one scope."""

    def __init__(self, db: SessionDB, scope: Scope) -> None:
        self._db = db
        self._scope = scope

    def find_session(self, session_id: str) -> Record | None:
        """Return a session, or None."""
        return self._db.get_session(session_id, scope=self._scope)

    def list_conversation(self, session_id: str) -> list[Record]:
        """Return the sessions of a conversation, oldest first."""
        return self._db.list_conversation(session_id, scope=self._scope)

    def list_recent(
        self, *, source: str | None, exclude_sources: Sequence[str], limit: int, offset: int
    ) -> list[Record]:
        """Return sessions that have messages, each by itself, newest activity first."""
        return self._db.list_sessions_rich(
            source=source,
            exclude_sources=exclude_sources,
            limit=limit,
            offset=offset,
            # Not threads: one that somebody else continued would be gone with its end.
            include_children=True,
            min_message_count=1,
            compact_rows=True,
            scope=self._scope,
        )

    def list_messages(self, session_id: str, *, limit: int, offset: int = 0) -> list[Record]:
        """Return messages of a session, in order."""
        return self._db.get_messages(session_id, limit=limit, offset=offset, scope=self._scope)

    def messages_around(self, session_id: str, message_id: int, window: int) -> Record:
        """See `SessionDB.get_messages_around`; no id is too large to ask for."""
        if not 0 < message_id <= _LARGEST_ID:
            return {"window": [], "messages_before": 0, "messages_after": 0}
        return self._db.get_messages_around(session_id, message_id, window, scope=self._scope)

    def anchored_view(self, session_id: str, message_id: int) -> Record:
        """See `SessionDB.get_anchored_view`."""
        return self._db.get_anchored_view(session_id, message_id, scope=self._scope)

    def search(
        self,
        query: str,
        conditions: Conditions,
        *,
        limit: int,
        sort: str,
        relax: bool = False,
        count: bool = False,
    ) -> Answer:
        """See `SessionDB.search`."""
        return self._db.search(
            query,
            conditions=conditions,
            limit=limit,
            sort=sort,
            relax=relax,
            count=count,
            scope=self._scope,
        )
