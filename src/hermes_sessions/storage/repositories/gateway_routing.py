"""Routing maps of Hermes gateways: which session each messenger chat points at.

A map is written as a whole after every change, so that only the entries that differ are stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hermes_sessions.errors import InvalidInput
from hermes_sessions.model.ids import require_bounded
from hermes_sessions.storage.provider import ReadTransaction, WriteTransaction
from hermes_sessions.storage.store_context import StoreContext

_COLUMNS = ("scope", "session_key", "entry_json", "updated_at")
_KEY = ("scope", "session_key")


class GatewayRouting:
    """The rows of ``gateway_routing``."""

    def __init__(self, store: StoreContext) -> None:
        self._store = store

    def load(self, scope: str) -> dict[str, str]:
        """See `SessionDB.load_gateway_routing_entries`."""
        with self._store.provider.read() as tx:
            return _entries(tx, scope)

    def replace(self, entries: Mapping[str, str] | None, scope: str) -> None:
        """See `SessionDB.replace_gateway_routing_entries`."""
        wanted = _checked(entries or {}, scope)

        def work(tx: WriteTransaction) -> None:
            stored = _entries(tx, scope)
            _delete(tx, scope, stored.keys() - wanted.keys())
            self._store_entries(
                tx, scope, {key: entry for key, entry in wanted.items() if stored.get(key) != entry}
            )

        self._store.provider.write(work)

    def save(self, session_key: str, entry_json: str, scope: str) -> None:
        """See `SessionDB.save_gateway_routing_entry`."""
        entries = _checked({session_key: entry_json}, scope)
        if entries:
            self._store.provider.write(lambda tx: self._store_entries(tx, scope, entries))

    def delete(self, session_keys: Iterable[str], scope: str) -> None:
        """See `SessionDB.delete_gateway_routing_entries`."""
        keys = [key for key in session_keys or () if key]
        if keys:
            self._store.provider.write(lambda tx: _delete(tx, scope, keys))

    def _store_entries(self, tx: WriteTransaction, scope: str, entries: Mapping[str, str]) -> None:
        now = self._store.clock()
        tx.run_many(
            self._store.provider.dialect.upsert(
                "gateway_routing", _COLUMNS, _KEY, ("entry_json", "updated_at")
            ),
            [(scope, key, entry, now) for key, entry in entries.items()],
        )


def _entries(tx: ReadTransaction, scope: str) -> dict[str, str]:
    rows = tx.all(
        "SELECT session_key, entry_json FROM gateway_routing WHERE scope = ? ORDER BY session_key",
        (scope,),
    )
    return dict(rows)


def _delete(tx: WriteTransaction, scope: str, keys: Iterable[str]) -> None:
    tx.run_many(
        "DELETE FROM gateway_routing WHERE scope = ? AND session_key = ?",
        [(scope, key) for key in keys],
    )


def _checked(entries: Mapping[str, str], scope: str) -> dict[str, str]:
    """Return the entries that have a key and a value.

    Raises:
        InvalidInput: a key or a value is not text, or a key or the scope is too long.
    """
    require_bounded(scope, "scope")
    kept = {key: entry for key, entry in entries.items() if key and entry}
    for key, entry in kept.items():
        if not isinstance(key, str) or not isinstance(entry, str):
            raise InvalidInput(f"Keys and entries must be text, not {key!r:.50}: {entry!r:.50}.")
        require_bounded(key, "session_key")
    return kept
