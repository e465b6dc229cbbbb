"""Which of a person's ids stands for them: decided once for every alias, and kept for ever.

A key that changed when another alias became known would put the person into a new conversation.
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
from hermes_sessions.storage.store import Store

# Who wrote a message, in rooms that several people share: otherwise nobody could be taken out.


_KEY: Final = ("session_id", "external_id")


class Author(NamedTuple):
    """The author of the message with this external id."""

    session_id: str
    external_id: str
    platform: str
    author: str


def note_author(
    tx: WriteTransaction, store: Store, author: Author, *, fence: int | None = None
) -> None:
    """Remember who wrote a message; the first who is named stays. With *fence*, the token of the
    writer, nothing is noted where that holds the session no more: its message is refused, too.
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
    """Return an id as it is stored here, however long it is."""
    if stored_length(author) <= MAX_ID_LENGTH:
        return author
    return "sha256-" + hashlib.sha256(author.encode("utf-8", "surrogatepass")).hexdigest()


_COLUMNS: Final = ("platform", "alias", "canonical", "decided_at")
_MAX_REMEMBERED: Final = 4096
_AT_ONCE: Final = 200


class Identities:
    """The rows of ``identities``. Thread-safe.

    *also_known* gives further aliases of one that is not known yet, from somewhere else.
    """

    def __init__(
        self, store: Store, also_known: Callable[[str], Iterable[str]] | None = None
    ) -> None:
        self._store = store
        self._also_known = also_known
        # What is decided does not change, so it can be remembered without asking again.
        self._remembered: dict[tuple[str, tuple[str, ...]], str] = {}

    def canonical(self, platform: str, aliases: Sequence[str]) -> str:
        """Return the id that stands for whoever has these *aliases*.

        The first decision about an alias is final. Aliases that are new join a known one; among
        none but new ones the shortest stands for all, of equally short ones the first in order.
        Where earlier decisions about two aliases differ, the earlier one is returned and both stay.

        Raises:
            InvalidInput: there is no alias.
        """
        asked = (platform, tuple(aliases))
        if asked not in self._remembered:
            names = _names(platform, aliases)
            if not names:
                raise InvalidInput("To know who somebody is, at least one id is needed.")
            chosen = self._known(platform, names) or self._decided(platform, names)
            if len(self._remembered) >= _MAX_REMEMBERED:
                self._remembered.clear()
            self._remembered[asked] = chosen
        return self._remembered[asked]

    def join(self, platform: str, groups: Iterable[Iterable[str]]) -> int:
        """Decide for many people at once, each given by their aliases; returns how many aliases
        were new. The first decision stays, as with `canonical`.
        """
        people = [names for group in groups if (names := _names(platform, group))]
        parts = [people[start : start + _AT_ONCE] for start in range(0, len(people), _AT_ONCE)]
        return sum(map(partial(self._join_part, platform), parts))

    def _join_part(self, platform: str, people: list[list[str]]) -> int:
        return self._store.provider.write(
            lambda tx: sum(self._decide(tx, platform, names)[1] for names in people)
        )

    def _known(self, platform: str, names: list[str]) -> str | None:
        """Return the decision if there is one about every name."""
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
    """Return when it was decided that which alias belongs to whom."""
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
