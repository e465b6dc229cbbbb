"""Meanings in one form, so that what the parser read can be compared with what was meant."""

from __future__ import annotations

from typing import Any

from hermes_sessions.text.query.tree import And, Filter, Node, Not, Or, Query, Substring
from tests.search.golden.oracle import Means, folded, units


def meaning_of(node: Node | None) -> Means:
    """Return a parser's tree as the meanings of the golden set are written."""
    if node is None:
        return None
    if isinstance(node, And):
        return {"and": [meaning_of(child) for child in node.nodes]}
    if isinstance(node, Or):
        return {"or": [meaning_of(child) for child in node.nodes]}
    if isinstance(node, Not):
        return {"not": meaning_of(node.node)}
    if isinstance(node, Substring):
        return {"inside": node.raw}
    return {"prefix": node.raw} if node.prefix else node.raw


def filters_of(query: Query) -> list[str]:
    """Return the filters of a query as the golden set writes them."""
    return [_written(item) for item in query.filters]


def _written(item: Filter) -> str:
    return f"{'-' if item.excluded else ''}{item.name}:{item.value}"


def comparable(means: Means) -> Any:
    """Return something that is equal for equal meanings, however their words were typed."""
    if means is None:
        return None
    if isinstance(means, str):
        return ("term", _words(means))
    ((operator, value),) = means.items()
    if operator == "prefix":
        return ("prefix", _words(value))
    if operator == "inside":
        return ("inside", folded(value))
    if operator == "not":
        return ("not", comparable(value))
    parts = [comparable(item) for item in value]
    return (operator, parts) if len(parts) > 1 else parts[0]


def _words(text: str) -> list[str]:
    return [unit.text for unit in units(text)]
