"""Where in a text the answer to a question is, so that cutting keeps it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hermes_sessions.recall.message_excerpts import Marker
from hermes_sessions.text.query.matcher import find_marks
from hermes_sessions.text.query.tree import Node
from hermes_sessions.text.snippet import Mark

#: Nothing further in is indexed, and looking costs time.
_LOOKED_AT: Final = 200_000


def marker_of(tree: Node | None) -> Marker:
    """Return what finds the matches of a query tree in a text."""

    def mark(text: str) -> Sequence[Mark]:
        return find_marks(tree, text[:_LOOKED_AT]) if tree is not None else ()

    return mark
