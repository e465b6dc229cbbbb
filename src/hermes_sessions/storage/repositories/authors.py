"""Who wrote a message, in rooms that several people share: otherwise nobody could be taken out."""

from __future__ import annotations

import hashlib
from typing import Final, NamedTuple

from hermes_sessions.model.ids import MAX_ID_LENGTH, stored_length
from hermes_sessions.storage.provider import WriteTransaction
from hermes_sessions.storage.store import Store

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
