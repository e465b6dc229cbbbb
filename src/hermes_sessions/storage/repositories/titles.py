"""Titles: unique names of sessions, and the numbered families they form."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes_sessions.errors import TitleTaken
from hermes_sessions.model import title as rules
from hermes_sessions.model.ids import ascii_lower
from hermes_sessions.storage.codec import encode_text
from hermes_sessions.storage.provider import ReadTransaction, WriteTransaction
from hermes_sessions.storage.repositories.lineage import ancestors_of
from hermes_sessions.storage.repositories.revisions import (
    require_revision,
    require_revision_number,
)
from hermes_sessions.storage.repositories.rows import (
    SELECT_SESSION,
    VISIBLE,
    session_record,
)
from hermes_sessions.storage.repositories.stale_sessions import settled_read
from hermes_sessions.storage.store_context import StoreContext

if TYPE_CHECKING:
    from hermes_sessions.storage.records import SessionRecord


class Titles:
    """The ``title`` column and its rules."""

    def __init__(self, store: StoreContext) -> None:
        self._store = store

    def set(self, session_id: str, title: str | None, *, expected_revision: int | None) -> bool:
        """See `SessionDB.set_session_title`."""
        wanted = rules.sanitize_title(title)
        require_revision_number(expected_revision)

        def work(tx: WriteTransaction) -> bool:
            if expected_revision is not None:
                require_revision(tx, self._store, session_id, expected_revision)
            if wanted is not None:
                _free_title(tx, session_id, wanted)
            return bool(
                tx.run(
                    f"UPDATE sessions SET title = ?, change_count = change_count + 1 "
                    f"WHERE id = ? AND {VISIBLE}",
                    (wanted, session_id),
                )
            )

        return self._store.provider.write(work)

    def set_if_empty(self, session_id: str, title: str, *, numbered: bool) -> bool:
        """See `SessionDB.set_auto_title_if_empty`."""
        wanted = rules.sanitize_title(title)
        if wanted is None:
            return False

        def work(tx: WriteTransaction) -> bool:
            untitled = f"id = ? AND title IS NULL AND {VISIBLE}"
            if tx.one(f"SELECT 1 FROM sessions WHERE {untitled}", (session_id,)) is None:
                return False
            if not numbered:
                _free_title(tx, session_id, wanted)
            return bool(
                tx.run(
                    f"UPDATE sessions SET title = ?, change_count = change_count + 1 "
                    f"WHERE {untitled}",
                    (free_variant(tx, wanted), session_id),
                )
            )

        return self._store.provider.write(work)

    def find(self, session_id: str) -> str | None:
        """See `SessionDB.get_session_title`."""
        with self._store.provider.read() as tx:
            row = tx.one(f"SELECT title FROM sessions WHERE id = ? AND {VISIBLE}", (session_id,))
        return row[0] if row else None

    def find_session(self, title: str) -> SessionRecord | None:
        """See `SessionDB.get_session_by_title`."""
        with self._store.provider.read() as tx:
            row = tx.one(f"{SELECT_SESSION} WHERE title = ? AND {VISIBLE}", (title,))
        return session_record(row) if row else None

    def with_prefix(self, prefix: str, limit: int) -> list[tuple[str, str]]:
        """See `SessionDB.find_session_titles`."""
        beginning = self._store.provider.dialect.ascii_lower("substr(title, 1, ?)")
        with settled_read(self._store) as tx:
            rows = tx.all(
                f"SELECT title, id FROM sessions WHERE title IS NOT NULL AND {beginning} = ? "
                f"AND {VISIBLE} ORDER BY last_active DESC, id DESC LIMIT ?",
                # In the database, an escaped character counts as several.
                (len(encode_text(prefix)), ascii_lower(prefix), limit),
            )
        return [(title, session_id) for title, session_id in rows]

    def resolve(self, title: str) -> str | None:
        """See `SessionDB.resolve_session_by_title`."""
        if not title:
            return None
        with settled_read(self._store) as tx:
            exact = tx.all(
                f"SELECT title, id, last_active FROM sessions WHERE title = ? AND {VISIBLE}",
                (title,),
            )
            family = tx.all(
                f"SELECT title, id, last_active FROM sessions WHERE title_key = ? AND {VISIBLE}",
                (ascii_lower(title),),
            )
        variants = {}
        for name, session_id, last_active in (*exact, *family):
            number = rules.split_number(name)[1]
            if number is not None or name == title:
                variants[session_id] = (last_active, number or 1, session_id)
        return str(max(variants.values())[-1]) if variants else None

    def next_in_family(self, base_title: str) -> str:
        """See `SessionDB.get_next_title_in_lineage`."""
        with self._store.provider.read() as tx:
            return rules.next_in_family(base_title, family_titles(tx, base_title))


def family_titles(tx: ReadTransaction, title: str) -> list[str]:
    """Return the stored titles of the numbered family *title* belongs to."""
    rows = tx.all("SELECT title FROM sessions WHERE title_key = ?", (rules.family_key(title),))
    return [row[0] for row in rows]


def free_variant(tx: ReadTransaction, title: str) -> str:
    """Return *title* if it is free, else the next numbered variant; the name is shortened if the
    variant would be too long.
    """
    while tx.one("SELECT 1 FROM sessions WHERE title = ?", (title,)) is not None:
        numbered = rules.next_in_family(title, family_titles(tx, title))
        excess = len(numbered) - rules.MAX_TITLE_LENGTH
        if excess <= 0:
            return numbered
        title = rules.split_number(title)[0][:-excess].rstrip()
    return title


def _free_title(tx: WriteTransaction, session_id: str, title: str) -> None:
    """Make *title* free for *session_id*, taking it from earlier parts of the same chain."""
    holder = tx.one(
        "SELECT id, chain_id FROM sessions WHERE title = ? AND id <> ?", (title, session_id)
    )
    if holder is None:
        return
    own = tx.one("SELECT chain_id FROM sessions WHERE id = ?", (session_id,))
    if own is None or own[0] != holder[1] or holder[0] not in ancestors_of(tx, session_id):
        raise TitleTaken(title, holder[0])
    tx.run(
        "UPDATE sessions SET title = NULL, change_count = change_count + 1 WHERE id = ?",
        (holder[0],),
    )
