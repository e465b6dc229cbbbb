"""The base of the search indexes on servers: one table of documents, maintained by the server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from hermes_sessions.storage.provider import ReadTransaction, WriteTransaction, placeholders
from hermes_sessions.storage.search.compiled_index import CompiledIndex
from hermes_sessions.storage.search.sql_conditions import SQLCondition

Q = TypeVar("Q")


class ServerIndex(CompiledIndex[Q]):
    """A `SearchIndex` in the table ``search_documents``."""

    def remove(self, tx: WriteTransaction, numbers: Sequence[int]) -> None:
        """See `SearchIndex.remove`."""
        if not numbers:
            return
        with self._translate_damage(tx):
            tx.run(
                f"DELETE FROM search_documents WHERE number IN ({placeholders(len(numbers))})",
                numbers,
            )

    def tidy(self, tx: WriteTransaction) -> bool:  # noqa: ARG002
        """Do nothing: the server merges by itself."""
        return False

    def compact(self, tx: WriteTransaction, *, first: bool) -> bool:  # noqa: ARG002
        """Do nothing: deleted rows leave the server's files when it reclaims the space."""
        return False

    def damage(self, tx: ReadTransaction) -> str | None:
        """See `SearchIndex.damage`."""
        return None if self.is_sound(tx) else "its table or its index is missing or was emptied"


def numbers_of_titles(beyond: int | None) -> SQLCondition:
    """Return the condition for numbers of title documents, above *beyond* if it is given."""
    where = SQLCondition("number < 0")
    return where if beyond is None else where & SQLCondition("number > ?", (beyond,))
