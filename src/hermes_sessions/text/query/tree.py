"""The query tree: terms and operators, and filters beside it.

Databases compile the tree and the shared matcher evaluates it; no other part of the user's text
goes further. Printing a query gives text that parses to the same query.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from hermes_sessions.text.tokenizer import QueryToken
from hermes_sessions.text.word_forms import Likeness


@dataclass(frozen=True, slots=True)
class Term:
    """Consecutive tokens: a word, a punctuated term, a quoted phrase, a run of CJK characters."""

    parts: tuple[QueryToken, ...]
    #: As typed, without quotes and star.
    raw: str
    prefix: bool = False
    #: Whether it was quoted: then it is taken literally and never relaxed.
    quoted: bool = field(default=False, compare=False)
    #: With a single part that is a prefix: which of the words with this beginning are meant.
    likeness: Likeness | None = None


@dataclass(frozen=True, slots=True)
class Substring:
    """Text that may occur anywhere, also inside words: ``*infix*``."""

    raw: str


@dataclass(frozen=True, slots=True)
class And:
    """All of these."""

    nodes: tuple[Node, ...]
    #: Whether an operator joined them: then all must match in every step.
    explicit: bool = False


@dataclass(frozen=True, slots=True)
class Or:
    """At least one of these."""

    nodes: tuple[Node, ...]
    #: Whether they are forms of one word, the one that was asked for first.
    forms: bool = False


@dataclass(frozen=True, slots=True)
class Not:
    """Not this."""

    node: Node


Node = Term | Substring | And | Or | Not
#: One word of a query: the term that was asked for, then its other forms.
Forms = tuple[Term | Substring, ...]


@dataclass(frozen=True, slots=True)
class Filter:
    """A condition on the message or its session: ``source:telegram``."""

    name: str
    value: str
    excluded: bool = False


@dataclass(frozen=True, slots=True)
class Query:
    """A parsed query, and the repairs that were needed to parse it."""

    node: Node | None
    filters: tuple[Filter, ...] = ()
    repairs: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to search for and nothing to filter by."""
        return self.node is None and not self.filters


def terms_of(node: Node | None, *, wanted: bool = True) -> list[Term | Substring]:
    """Return the terms that a match contains, in order, without excluded terms."""
    if node is None or isinstance(node, Not):
        return []
    if isinstance(node, (And, Or)):
        terms = (term for child in node.nodes for term in terms_of(child, wanted=wanted))
        return list(dict.fromkeys(terms))
    return [node]


def words_of(node: Node | None) -> list[Forms]:
    """Return the words that a match contains, in order, each with its forms, without excluded ones.

    A term that occurs again, also as a form of another word, is not repeated.
    """
    words: list[Forms] = []
    known: set[Term | Substring] = set()
    for forms in _forms_in(node):
        new = tuple(term for term in forms if term not in known)
        if forms[0] in new:
            words.append(new)
        known.update(forms)
    return words


def _forms_in(node: Node | None) -> Iterator[Forms]:
    if isinstance(node, Or) and node.forms:
        yield tuple(terms_of(node))
    elif isinstance(node, (And, Or)):
        for child in node.nodes:
            yield from _forms_in(child)
    elif isinstance(node, (Term, Substring)):
        yield (node,)


def is_bound(node: Node) -> bool:
    """Whether a node holds as written in every step: operators and quotes bind."""
    if isinstance(node, And):
        return node.explicit
    return isinstance(node, Not) or (isinstance(node, Term) and node.quoted)


def sides_of(node: Node) -> list[Node]:
    """Return the nodes that must all match because an operator or quotes say so; else nothing."""
    nodes = node.nodes if isinstance(node, And) else (node,)
    if not any(map(is_bound, nodes)) and not is_bound(node):
        return []
    sides: list[Node] = []
    for child in nodes:
        sides += child.nodes if isinstance(child, And) else (child,)
    return sides


def all_of(nodes: list[Node]) -> Node | None:
    """Return the conjunction of nodes, flattened; None for an empty list."""
    return _joined(nodes, And)


def bound(nodes: list[Node]) -> Node | None:
    """Return the conjunction of nodes joined by an operator, flattened; None for an empty list."""
    flat: list[Node] = []
    for node in nodes:
        flat.extend(node.nodes if isinstance(node, And) else (node,))
    if len(flat) == 1 and isinstance(flat[0], Not):
        return flat[0]
    return And(tuple(flat), explicit=True) if flat else None


def any_of(nodes: list[Node]) -> Node | None:
    """Return the disjunction of nodes, flattened; None for an empty list."""
    return _joined(nodes, Or)


def _joined(nodes: list[Node], kind: type[And] | type[Or]) -> Node | None:
    flat: list[Node] = []
    for node in nodes:
        is_part = isinstance(node, kind) and not _is_whole(node)
        flat.extend(node.nodes if is_part and isinstance(node, (And, Or)) else (node,))
    if not flat:
        return None
    return flat[0] if len(flat) == 1 else kind(tuple(flat))


def _is_whole(node: Node) -> bool:
    """Whether a node stays one part: joined by an operator, or the forms of one word."""
    return (isinstance(node, And) and node.explicit) or (isinstance(node, Or) and node.forms)


# Printing


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
    if isinstance(node, And) and node.explicit and len(node.nodes) == 1:
        return f"+{_print(node.nodes[0])}"
    joint = " OR " if isinstance(node, Or) else " AND " if node.explicit else " "
    text = joint.join(_print(child) for child in node.nodes)
    return text if top and isinstance(node, And) else f"({text})"


def spelled(node: Node) -> str:
    """Return a part of a query for display, with the quotes that were typed."""
    if isinstance(node, Term):
        text = f'"{node.raw}"' if node.quoted else node.raw
        return text + ("*" if node.prefix else "")
    if isinstance(node, Substring):
        return f"*{node.raw}*"
    if isinstance(node, Not):
        return f"NOT {spelled(node.node)}"
    joint = " OR " if isinstance(node, Or) else " AND "
    return f"({joint.join(map(spelled, node.nodes))})"


def _print_filter(item: Filter) -> str:
    sign = "-" if item.excluded else ""
    return f'{sign}{item.name}:"{item.value}"'
