"""Maps the ids that one user has on a platform to a canonical id, decided once per alias.

Decisions are permanent: if the id changed when another alias became known, the user would end up in
a new conversation. Also records the authors of messages in shared rooms.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple

from hermes_sessions.errors import InvalidInput
from hermes_sessions.model.ids import MAX_ID_LENGTH, stored_length
from hermes_sessions.model.lane import normalise_identifier
from hermes_sessions.storage.provider import ReadTransaction, WriteTransaction, placeholders
from hermes_sessions.storage.store_context import StoreContext

# Erasure needs the author of each message in rooms that several users share.


_KEY: Final = ("session_id", "external_id")


class Author(NamedTuple):
    """The author of the message with this external id."""

    session_id: str
    external_id: str
    platform: str
    author: str


def note_author(
    tx: WriteTransaction, store: StoreContext, author: Author, *, fence: int | None = None
) -> None:
    """Record the author of a message, unless one is recorded. With *fence*, do nothing if that
    token no longer holds the session, because its message is refused, too.
    """
    if fence is not None and not tx.one(
        "SELECT 1 FROM sessions WHERE id = ? AND fence = ?", (author.session_id, fence)
    ):
        return
    tx.run(
        store.provider.dialect.insert_if_absent("authors", Author._fields, _KEY),
        author._replace(author=stored_author(author.author)),
    )


def stored_author(author: str) -> str:
    """Return an author's id as stored: long ones are shortened by a digest."""
    if stored_length(author) <= MAX_ID_LENGTH:
        return author
    return "sha256-" + hashlib.sha256(author.encode("utf-8", "surrogatepass")).hexdigest()


_COLUMNS: Final = ("platform", "alias", "canonical", "decided_at")
_MAX_REMEMBERED: Final = 4096
_AT_ONCE: Final = 200


class Identities:
    """The rows of ``identities``. Thread-safe.

    *also_known* returns further aliases of an unknown alias, from another source.
    """

    def __init__(
        self, store: StoreContext, also_known: Callable[[str], Iterable[str]] | None = None
    ) -> None:
        self._store = store
        self._also_known = also_known
        # Decisions never change, so they can be cached.
        self._remembered: dict[tuple[str, tuple[str, ...]], str] = {}

    def canonical(self, platform: str, aliases: Sequence[str]) -> str:
        """Return the canonical id of the user who has these *aliases*.

        The first decision about an alias is final. New aliases join a known one; if all are new,
        the shortest becomes canonical, the first in order among equally short ones. If earlier
        decisions about two aliases differ, the earlier one is returned and both stay.

        Raises:
            InvalidInput: there is no alias.
        """
        asked = (platform, tuple(aliases))
        if asked not in self._remembered:
            names = _names(platform, aliases)
            if not names:
                raise InvalidInput("At least one id of the user is required.")
            chosen = self._known(platform, names) or self._decided(platform, names)
            if len(self._remembered) >= _MAX_REMEMBERED:
                self._remembered.clear()
            self._remembered[asked] = chosen
        return self._remembered[asked]

    def join(self, platform: str, groups: Iterable[Iterable[str]]) -> int:
        """Decide for many users, each given by their aliases; earlier decisions stay, as in
        `canonical`. Returns the number of new aliases.
        """
        people = [names for group in groups if (names := _names(platform, group))]
        parts = [people[start : start + _AT_ONCE] for start in range(0, len(people), _AT_ONCE)]
        return sum(map(partial(self._join_part, platform), parts))

    def _join_part(self, platform: str, people: list[list[str]]) -> int:
        return self._store.provider.write(
            lambda tx: sum(self._decide(tx, platform, names)[1] for names in people)
        )

    def _known(self, platform: str, names: list[str]) -> str | None:
        """Return the cached decision, or None unless every name has one."""
        with self._store.provider.read() as tx:
            rows = _rows(tx, platform, names)
        return min(rows)[2] if len(rows) == len(names) else None

    def _decided(self, platform: str, names: list[str]) -> str:
        further = [] if self._also_known is None else map(self._also_known, names)
        everything = _names(platform, [*names, *(alias for found in further for alias in found)])
        return self._store.provider.write(lambda tx: self._decide(tx, platform, everything)[0])

    def _decide(self, tx: WriteTransaction, platform: str, names: list[str]) -> tuple[str, int]:
        rows = _rows(tx, platform, names)
        chosen = min(rows)[2] if rows else min(names, key=lambda name: (len(name), name))
        known = {alias for _, alias, _ in rows}
        new = [name for name in names if name not in known]
        now = self._store.clock()
        insert = self._store.provider.dialect.insert_if_absent(
            "identities", _COLUMNS, ("platform", "alias")
        )
        tx.run_many(insert, [(platform, name, chosen, now) for name in new])
        return chosen, len(new)


def _rows(tx: ReadTransaction, platform: str, names: list[str]) -> list[tuple[float, str, str]]:
    """Return (time of the decision, canonical id, alias) of the known names."""
    found = tx.all(
        "SELECT decided_at, alias, canonical FROM identities "
        f"WHERE platform = ? AND alias IN ({placeholders(len(names))})",
        (platform, *names),
    )
    return [(decided_at, alias, canonical) for decided_at, alias, canonical in found]


def _names(platform: str, aliases: Iterable[str]) -> list[str]:
    """Return the ids as they are stored, each once, in the order given."""
    normalised = (normalise_identifier(platform, alias) for alias in aliases)
    return list(dict.fromkeys(_bounded(name) for name in normalised if name))


def _bounded(name: str) -> str:
    if stored_length(name) <= MAX_ID_LENGTH:
        return name
    return "sha256-" + hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
