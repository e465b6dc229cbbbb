"""Key-value pairs: markers and settings of the store and the programs that use it."""

from __future__ import annotations

from typing import Any

from hermes_sessions.model.ids import require_bounded
from hermes_sessions.storage.provider import WriteTransaction
from hermes_sessions.storage.store_context import StoreContext


class Meta:
    """The rows of ``state_meta``."""

    def __init__(self, store: StoreContext) -> None:
        self._store = store

    def find(self, key: str) -> str | None:
        """See `SessionDB.get_meta`."""
        with self._store.provider.read() as tx:
            row = tx.one('SELECT value FROM state_meta WHERE "key" = ?', (key,))
        return row[0] if row else None

    def set(self, key: str, value: Any) -> None:
        """See `SessionDB.set_meta`."""
        self._store.provider.write(lambda tx: self.put(tx, key, value))

    def put(self, tx: WriteTransaction, key: str, value: Any) -> None:
        """Set a value inside an open transaction."""
        require_bounded(key, "key")
        text = value if value is None or isinstance(value, str) else str(value)
        tx.run(
            self._store.provider.dialect.upsert(
                "state_meta", ("key", "value"), ("key",), ("value",)
            ),
            (key, text),
        )
