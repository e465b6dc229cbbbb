"""Conversations of the API in the store: read within a caller's scope, and created for clients.

Every method blocks; the routes call them in threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hermes_sessions.errors import MessageTooLarge
from hermes_sessions.gateway.platforms.api.mapping import scope_of, source_of
from hermes_sessions.lifecycle.session_store import SessionStore

if TYPE_CHECKING:
    from hermes_sessions.storage.records import MessageRecord, SessionListing, SessionRecord


class StoreAccess:
    """The API's access to the store. As thread-safe as the store."""

    def __init__(self, store: SessionStore) -> None:
        self._store = store
        self._db = store.db

    def list_sessions(self, user: str | None, *, limit: int, offset: int) -> list[SessionListing]:
        """Return the sessions that a caller may see, newest activity first.

        Raises:
            StoreError: the store is unavailable.
        """
        return self._db.list_sessions_rich(
            limit=limit, offset=offset, compact_rows=True, scope=scope_of(user)
        )

    def find_session(self, session_id: str, user: str | None) -> SessionRecord | None:
        """Return a session; None if it does not exist or belongs to another user."""
        return self._db.get_session(session_id, scope=scope_of(user))

    def list_messages(
        self, session_id: str, user: str | None, *, limit: int, offset: int
    ) -> list[MessageRecord]:
        """Return messages of a session in order; empty if it belongs to another user."""
        return self._db.get_messages(session_id, limit=limit, offset=offset, scope=scope_of(user))

    def current_session_id(self, conversation: str, user: str | None) -> str | None:
        """Return the current session of a conversation; None before its first message."""
        entry = self._store.peek(source_of(conversation, user))
        return None if entry is None else entry.session_id

    def require_size(self, text: str) -> None:
        """Check that the store accepts a message of this size.

        Raises:
            MessageTooLarge: it does not.
        """
        size, limit = len(text.encode("utf-8", "surrogatepass")), self._db.store.max_message_bytes
        if size > limit:
            raise MessageTooLarge(size, limit)

    def begin(
        self,
        conversation: str,
        user: str | None,
        *,
        system: str | None,
        earlier: Sequence[dict[str, Any]] = (),
    ) -> None:
        """Store the client's system prompt in a conversation's session, and, for a conversation
        without an id, its *earlier* messages.

        Raises:
            StoreError, MessageTooLarge: they cannot be stored.
        """
        if system is None and not earlier:
            return
        session_id = self._store.get_or_create_session(source_of(conversation, user)).session_id
        if system is not None:
            session = self._db.get_session(session_id)
            if session is None or session["system_prompt"] != system:
                self._db.update_system_prompt(session_id, system)
        if earlier:
            self._db.append_messages(session_id, earlier)
