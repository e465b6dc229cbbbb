"""Revisions: the number by which writers notice that a session changed since they read it.

``sessions.revision`` is the sum of ``next_ordinal``, ``rewind_count`` and ``change_count``. Appends
and rewinds raise the first two; every other change of messages or state calls `raise_revision`.
"""

from __future__ import annotations

from hermes_sessions.errors import InvalidInput, RevisionConflict, UnknownSession
from hermes_sessions.storage.provider import WriteTransaction
from hermes_sessions.storage.repositories.leases import lock_session
from hermes_sessions.storage.repositories.rows import VISIBLE
from hermes_sessions.storage.store_context import StoreContext


def lock_revision(
    tx: WriteTransaction,
    store: StoreContext,
    session_id: str,
    fence: int | None,
    expected_revision: int | None,
) -> None:
    """Lock a session's row until commit, for a writer with this token that saw this revision.

    Does nothing if the session does not exist and no revision is expected.

    Raises:
        InvalidInput: the expected revision is not a whole number.
        StaleFence, ConversationHeld: see `lock_session`.
        UnknownSession: a revision is expected of a session that does not exist.
        RevisionConflict: the session has another revision.
    """
    require_revision_number(expected_revision)
    lock_session(tx, store, session_id, fence)
    if expected_revision is not None:
        require_revision(tx, store, session_id, expected_revision)


def require_revision(
    tx: WriteTransaction, store: StoreContext, session_id: str, expected_revision: int
) -> None:
    """Make sure, until commit, that a session has this revision.

    Raises:
        UnknownSession: there is no such session.
        RevisionConflict: it has another revision.
    """
    row = tx.one(
        f"SELECT revision FROM sessions WHERE id = ? AND {VISIBLE}"
        f"{store.provider.dialect.for_update}",
        (session_id,),
    )
    if row is None:
        raise UnknownSession(session_id)
    if row[0] != expected_revision:
        raise RevisionConflict(f"Session {session_id!r}", expected_revision, int(row[0]))


def raise_revision(tx: WriteTransaction, session_id: str) -> None:
    """Count a change of messages or state that is neither an append nor a rewind."""
    tx.run(
        f"UPDATE sessions SET change_count = change_count + 1 WHERE id = ? AND {VISIBLE}",
        (session_id,),
    )


def require_revision_number(expected_revision: object) -> None:
    """Raise `InvalidInput` unless a revision is a whole number or None."""
    if expected_revision is None:
        return
    if isinstance(expected_revision, bool) or not isinstance(expected_revision, int):
        raise InvalidInput(
            f"expected_revision must be a whole number, not {expected_revision!r:.50}. Pass the "
            f"'revision' of get_session()."
        )
