"""Tags and metadata of sessions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from hermes_sessions.errors import UnknownSession
from hermes_sessions.model import labels
from hermes_sessions.model.scope import OWNER, Scope
from hermes_sessions.storage.provider import WriteTransaction
from hermes_sessions.storage.repositories.revisions import (
    require_revision,
    require_revision_number,
)
from hermes_sessions.storage.repositories.rows import (
    VISIBLE,
    decode_metadata,
    decode_tags,
    scope_condition,
)
from hermes_sessions.storage.repositories.stale_sessions import settle_first
from hermes_sessions.storage.store_context import StoreContext

if TYPE_CHECKING:
    from hermes_sessions.storage.records import Metadata


class Labels:
    """Reads and changes the tags and metadata of sessions."""

    def __init__(self, store: StoreContext) -> None:
        self._store = store

    def metadata(self, session_id: str, scope: Scope = OWNER) -> Metadata:
        """See `SessionDB.get_metadata`."""
        seen, params = scope_condition(scope)
        with self._store.provider.read() as tx:
            row = tx.one(
                f"SELECT metadata FROM sessions WHERE id = ? AND {VISIBLE} AND {seen}",
                (session_id, *params),
            )
        return decode_metadata(row[0]) if row else {}

    def set_metadata(
        self, session_id: str, metadata: Mapping[str, Any], *, expected_revision: int | None
    ) -> Metadata:
        """See `SessionDB.set_metadata`."""
        text = labels.metadata_text(metadata)
        return decode_metadata(
            self._change(session_id, "metadata", lambda _: text, expected_revision)
        )

    def update_metadata(
        self, session_id: str, changes: Mapping[str, Any], *, expected_revision: int | None
    ) -> Metadata:
        """See `SessionDB.update_metadata`."""

        def merged(stored: str | None) -> str | None:
            return labels.metadata_text(labels.merged_metadata(decode_metadata(stored), changes))

        return decode_metadata(self._change(session_id, "metadata", merged, expected_revision))

    def set_tags(
        self, session_id: str, tags: Iterable[str], *, expected_revision: int | None
    ) -> list[str]:
        """See `SessionDB.set_tags`."""
        wanted = labels.normalize_tags(tags)
        return self._change_tags(session_id, lambda _: wanted, expected_revision)

    def add_tags(self, session_id: str, tags: Iterable[str]) -> list[str]:
        """See `SessionDB.add_tags`."""
        added = labels.normalize_tags(tags)
        return self._change_tags(session_id, lambda stored: {*stored, *added})

    def remove_tags(self, session_id: str, tags: Iterable[str]) -> list[str]:
        """See `SessionDB.remove_tags`."""
        removed = labels.normalize_tags(tags)
        return self._change_tags(session_id, lambda stored: set(stored).difference(removed))

    def count_tags(self, scope: Scope = OWNER) -> dict[str, int]:
        """See `SessionDB.list_tags`."""
        seen, params = scope_condition(scope)
        counts: Counter[str] = Counter()
        with self._store.provider.read() as tx:
            for tags, sessions in tx.all(
                f"SELECT tags, COUNT(*) FROM sessions "
                f"WHERE tags IS NOT NULL AND {VISIBLE} AND {seen} GROUP BY tags",
                params,
            ):
                for tag in decode_tags(tags):
                    counts[tag] += sessions
        return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))

    def _change_tags(
        self,
        session_id: str,
        changed: Callable[[list[str]], Iterable[str]],
        expected_revision: int | None = None,
    ) -> list[str]:
        def column(stored: str | None) -> str | None:
            return labels.tags_text(labels.normalize_tags(changed(decode_tags(stored))))

        return decode_tags(self._change(session_id, "tags", column, expected_revision))

    def _change(
        self,
        session_id: str,
        column: str,
        changed: Callable[[str | None], str | None],
        expected_revision: int | None = None,
    ) -> str | None:
        """Write what *changed* makes of a column to every session of a compression chain; return
        it.
        """
        require_revision_number(expected_revision)
        settle_first(self._store)
        for_update = self._store.provider.dialect.for_update

        def work(tx: WriteTransaction) -> str | None:
            row = tx.one(
                f"SELECT conversation_id, chain_id, {column} FROM sessions "
                f"WHERE id = ? AND {VISIBLE}{for_update}",
                (session_id,),
            )
            if row is None:
                raise UnknownSession(session_id)
            if expected_revision is not None:
                require_revision(tx, self._store, session_id, expected_revision)
            conversation_id, chain_id, stored = row
            text = changed(stored)
            tx.run(
                f"UPDATE sessions SET {column} = ?, change_count = change_count + 1 "
                f"WHERE conversation_id = ? AND chain_id = ?",
                (text, conversation_id, chain_id),
            )
            return text

        return self._store.provider.write(work)
