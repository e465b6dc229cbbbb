"""What a query means: a tree of terms, and filters beside it.

The tree is what databases compile and what the shared matcher decides; nothing else of the user's
text goes further. Printing a query gives text that parses to the same query.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hermes_sessions.text.segment import Part


@dataclass(frozen=True, slots=True)
class Term:
    """Consecutive tokens: a word, a punctuated term, a quoted phrase, a run of characters."""

    parts: tuple[Part, ...]
    #: As typed, without quotes and star.
    raw: str
    prefix: bool = False
    #: Whether it stood between quotes: then it is meant as it is, and no relaxing changes it.
    quoted: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Substring:
    """A piece of text anywhere, inside words too: ``*infix*``."""

    raw: str


@dataclass(frozen=True, slots=True)
class And:
    """All of these."""

    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """At least one of these."""

    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """Not this."""

    node: Node


Node = Term | Substring | And | Or | Not


@dataclass(frozen=True, slots=True)
class Filter:
    """A condition on the message or its session: ``source:telegram``."""

    name: str
    value: str
    excluded: bool = False


@dataclass(frozen=True, slots=True)
class Query:
    """A whole query, and what had to be mended to read it."""

    node: Node | None
    filters: tuple[Filter, ...] = ()
    repairs: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to search for and nothing to filter by."""
        return self.node is None and not self.filters


def terms_of(node: Node | None, *, wanted: bool = True) -> list[Term | Substring]:
    """Return the terms that make a match, in order; not those that must be absent."""
    if node is None or isinstance(node, Not):
        return []
    if isinstance(node, (And, Or)):
        return [term for child in node.nodes for term in terms_of(child, wanted=wanted)]
    return [node]


def absent_of(node: Node | None) -> list[Not]:
    """Return what a tree wants absent, whatever else matches."""
    if isinstance(node, Not):
        return [node]
    if isinstance(node, And):
        return [found for child in node.nodes for found in absent_of(child)]
    return []


def all_of(nodes: list[Node]) -> Node | None:
    """Return the conjunction of nodes, flattened; None without any."""
    return _joined(nodes, And)


def any_of(nodes: list[Node]) -> Node | None:
    """Return the disjunction of nodes, flattened; None without any."""
    return _joined(nodes, Or)


def _joined(nodes: list[Node], kind: type[And] | type[Or]) -> Node | None:
    flat: list[Node] = []
    for node in nodes:
        flat.extend(node.nodes if isinstance(node, kind) else (node,))
    if not flat:
        return None
    return flat[0] if len(flat) == 1 else kind(tuple(flat))


# ── printing ──────────────────────────────────────────────────────────────────────────────────


def print_query(query: Query) -> str:
    """Return text that parses to the same query, repairs aside."""
    pieces = [] if query.node is None else [_print(query.node, top=True)]
    pieces += [_print_filter(item) for item in query.filters]
    return " ".join(pieces)


def _print(node: Node, *, top: bool = False) -> str:
    if isinstance(node, Term):
        return f'"{node.raw}"' + ("*" if node.prefix else "")
    if isinstance(node, Substring):
        return f'*"{node.raw}"*'
    if isinstance(node, Not):
        return f"NOT {_print(node.node)}"
    joint = " OR " if isinstance(node, Or) else " "
    text = joint.join(_print(child) for child in node.nodes)
    return text if top and isinstance(node, And) else f"({text})"


def _print_filter(item: Filter) -> str:
    sign = "-" if item.excluded else ""
    return f'{sign}{item.name}:"{item.value}"'
