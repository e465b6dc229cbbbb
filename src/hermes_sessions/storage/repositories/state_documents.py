"""State documents: small JSON values that frameworks keep for a session, a user or an app.

Each has a revision of its own. A change of a session's document is also a change of the session, so
it needs the session's fence and raises its revision.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from hermes_sessions.errors import (
    InvalidInput,
    RevisionConflict,
    StoreUnavailable,
    UnknownSession,
)
from hermes_sessions.model.ids import require_id
from hermes_sessions.storage.codec import decode_value, encode_text
from hermes_sessions.storage.provider import ReadTransaction, WriteTransaction
from hermes_sessions.storage.repositories.leases import lock_session
from hermes_sessions.storage.repositories.new_message import stored_value
from hermes_sessions.storage.repositories.revisions import raise_revision, require_revision_number
from hermes_sessions.storage.repositories.rows import VISIBLE
from hermes_sessions.storage.store_context import StoreContext
from hermes_sessions.storage.tables import STATE_DOCUMENTS

if TYPE_CHECKING:
    from hermes_sessions.storage.records import StateDocument

SESSION: Final = "session"
USER: Final = "user"
SCOPES: Final = (SESSION, USER, "app")
#: Bytes of one document, as JSON.
MAX_DOCUMENT_BYTES: Final = 1024 * 1024
#: Documents of one session, user or app.
MAX_DOCUMENTS: Final = 1000

_COLUMNS: Final = [column.name for column in STATE_DOCUMENTS.columns]
_SELECT: Final = f"SELECT {', '.join(_COLUMNS)} FROM state_documents"
_KEY: Final = "scope = ? AND owner = ? AND name = ?"
#: The owner of a document of a session must exist; takes the scope and the owner.
_HAS_OWNER: Final = (
    f"(scope <> ? OR EXISTS (SELECT 1 FROM sessions s WHERE s.id = ? AND s.{VISIBLE}))"
)
#: Attempts to write a document that others create and delete at the same time.
_MOST_ATTEMPTS: Final = 10


class _Key(NamedTuple):
    scope: str
    owner: str
    name: str

    def __str__(self) -> str:
        return f"State {self.name!r} of {self.scope} {self.owner!r}"


class StateDocuments:
    """The rows of ``state_documents``."""

    def __init__(self, store: StoreContext) -> None:
        self._store = store

    def find(self, scope: str, owner: str, name: str) -> StateDocument | None:
        """See `SessionDB.get_state`."""
        key = _checked(scope, owner, name)
        if not self._has_table():
            return None
        with self._store.provider.read() as tx:
            row = tx.one(f"{_SELECT} WHERE {_KEY} AND {_HAS_OWNER}", (*key, SESSION, owner))
        return _record(row) if row else None

    def list(self, scope: str, owner: str, prefix: str) -> list[StateDocument]:
        """See `SessionDB.list_state`."""
        _require_owner(scope, owner)
        if not isinstance(prefix, str):
            raise InvalidInput(f"A prefix must be text, not {type(prefix).__name__}.")
        if not self._has_table():
            return []
        with self._store.provider.read() as tx:
            rows = tx.all(
                f"{_SELECT} WHERE scope = ? AND owner = ? AND substr(name, 1, ?) = ? "
                f"AND {_HAS_OWNER} ORDER BY name",
                # In the database, an escaped character counts as several.
                (scope, owner, len(encode_text(prefix)), prefix, SESSION, owner),
            )
        return [_record(row) for row in rows]

    def set(
        self,
        scope: str,
        owner: str,
        name: str,
        value: Any,
        *,
        expected_revision: int | None,
        fence: int | None,
    ) -> int:
        """See `SessionDB.set_state`."""
        key = _checked(scope, owner, name)
        require_revision_number(expected_revision)
        text = stored_value("A state document", value)
        size = len(encode_text(text).encode("utf-8"))
        if size > MAX_DOCUMENT_BYTES:
            raise InvalidInput(
                f"{key} is {size:,} bytes, over the limit of {MAX_DOCUMENT_BYTES:,}. Split it into "
                f"several documents, or store large parts with put_blob()."
            )
        now = self._store.clock()

        def work(tx: WriteTransaction) -> int:
            if not self._lock_owner(tx, key, fence):
                raise UnknownSession(owner)
            revision = self._write(tx, key, text, now, expected_revision)
            if scope == SESSION:
                raise_revision(tx, owner)
            return revision

        return self._store.provider.write(work, isolated=False)

    def delete(
        self,
        scope: str,
        owner: str,
        name: str,
        *,
        expected_revision: int | None,
        fence: int | None,
    ) -> bool:
        """See `SessionDB.delete_state`."""
        key = _checked(scope, owner, name)
        require_revision_number(expected_revision)

        def work(tx: WriteTransaction) -> bool:
            has_owner = self._lock_owner(tx, key, fence)
            stored = self._revision(tx, key) if has_owner else 0
            _require_same(key, stored, expected_revision)
            if not stored:
                return False
            tx.run(f"DELETE FROM state_documents WHERE {_KEY}", key)
            if scope == SESSION:
                raise_revision(tx, owner)
            return True

        return self._store.provider.write(work, isolated=False)

    def _has_table(self) -> bool:
        provider = self._store.provider
        return not (provider.read_only and "0009_integrations" in provider.steps().waiting)

    def _lock_owner(self, tx: WriteTransaction, key: _Key, fence: int | None) -> bool:
        """Lock the session of a document; return whether there is one, True for other owners."""
        if key.scope != SESSION:
            if fence is not None:
                raise InvalidInput(f"A fence holds a session; leave it out for a {key.scope}.")
            return True
        lock_session(tx, self._store, key.owner, fence)
        found = f"SELECT 1 FROM sessions WHERE id = ? AND {VISIBLE}"
        return tx.one(found, (key.owner,)) is not None

    def _revision(self, tx: ReadTransaction, key: _Key) -> int:
        """Return the revision of a document, locked until commit; 0 if it does not exist."""
        for_update = self._store.provider.dialect.for_update
        row = tx.one(f"SELECT revision FROM state_documents WHERE {_KEY}{for_update}", key)
        return int(row[0]) if row else 0

    def _write(
        self, tx: WriteTransaction, key: _Key, text: str, now: float, expected: int | None
    ) -> int:
        insert = self._store.provider.dialect.insert_if_absent(
            "state_documents", _COLUMNS, ("scope", "owner", "name")
        )
        for _ in range(_MOST_ATTEMPTS):
            stored = self._revision(tx, key)
            _require_same(key, stored, expected)
            if stored:
                tx.run(
                    f"UPDATE state_documents SET value = ?, revision = ?, updated_at = ? "
                    f"WHERE {_KEY}",
                    (text, stored + 1, now, *key),
                )
                return stored + 1
            _require_room(tx, key)
            # Of rivals for a new document one inserts it; the others wait here and look again.
            if tx.run(insert, (*key, text, 1, now)):
                return 1
        raise StoreUnavailable(f"{key} is created and deleted again and again. Try again later.")


def delete_session_state(tx: WriteTransaction, session_id: str) -> None:
    """Delete the documents of a session that is being deleted."""
    tx.run("DELETE FROM state_documents WHERE scope = ? AND owner = ?", (SESSION, session_id))


def delete_orphaned_state(tx: WriteTransaction) -> None:
    """Delete documents of sessions that other programs deleted."""
    tx.run(
        "DELETE FROM state_documents WHERE scope = ? "
        "AND NOT EXISTS (SELECT 1 FROM sessions s WHERE s.id = state_documents.owner)",
        (SESSION,),
    )


def _require_same(key: _Key, stored: int, expected: int | None) -> None:
    if expected is not None and expected != stored:
        raise RevisionConflict(str(key), expected, stored)


def _require_room(tx: ReadTransaction, key: _Key) -> None:
    row = tx.one(
        "SELECT COUNT(*) FROM state_documents WHERE scope = ? AND owner = ?", (key.scope, key.owner)
    )
    if row is not None and row[0] >= MAX_DOCUMENTS:
        raise InvalidInput(
            f"There are {row[0]} state documents of {key.scope} {key.owner!r}; no more than "
            f"{MAX_DOCUMENTS} are allowed. Delete some with delete_state(), or combine them."
        )


def _checked(scope: str, owner: str, name: str) -> _Key:
    _require_owner(scope, owner)
    return _Key(scope, owner, require_id(name, "name of a state document"))


def _require_owner(scope: str, owner: str) -> None:
    if scope not in SCOPES:
        raise InvalidInput(f"scope is {scope!r:.50}. Use one of: {', '.join(SCOPES)}.")
    require_id(owner, f"{scope} id")


def _record(row: tuple[Any, ...]) -> StateDocument:
    record = dict(zip(_COLUMNS, row, strict=True))
    record["value"] = decode_value(record["value"])
    return cast("StateDocument", record)
