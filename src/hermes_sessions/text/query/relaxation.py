"""The steps tried, in order, when a query finds nothing as typed.

Each step has a name, so that the search report can say which one matched. Operators and quotes
bind: terms joined by ``AND``, required by ``+``, quoted or excluded hold in every step as written.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hermes_sessions.text.english_words import STOP_WORDS, stem_variants
from hermes_sessions.text.query.tree import (
    And,
    Node,
    Not,
    Or,
    Substring,
    Term,
    all_of,
    any_of,
    is_bound,
)
from hermes_sessions.text.tokenizer import QueryToken

AS_ASKED: Final = "as asked"
WITHOUT_COMMON_WORDS: Final = "without common words"
OTHER_FORMS: Final = "other forms of the words"
ANY_WORD: Final = "any of the words"
INSIDE_WORDS: Final = "inside words"


def steps(node: Node) -> Iterator[tuple[str, Node]]:
    """Yield (name, tree) of every step that differs from the steps before it."""
    seen: list[Node] = []
    lean = _without_common_words(node) or node
    for name, tree in (
        (AS_ASKED, node),
        (WITHOUT_COMMON_WORDS, lean),
        (OTHER_FORMS, _with_forms(lean)),
        (ANY_WORD, _any_word(lean)),
        (INSIDE_WORDS, _inside_words(lean)),
    ):
        if tree is not None and tree not in seen:
            seen.append(tree)
            yield name, tree


def alternatives(node: Node) -> list[Node]:
    """Return trees such that every match of the step `ANY_WORD` matches at least one of them.

    Each tree includes the conditions that hold in every step.
    """
    if is_bound(node):
        return [node]
    nodes = node.nodes if isinstance(node, And) else (node,)
    kept = [child for child in nodes if is_bound(child)]
    rest = [child for child in nodes if not is_bound(child)]
    if len(rest) != 1 or not isinstance(rest[0], Or):
        return [node]
    return [all_of(list(dict.fromkeys([part, *kept]))) or part for part in rest[0].nodes]


def _without_common_words(node: Node) -> Node | None:
    if is_bound(node):
        return node
    if isinstance(node, Term):
        is_word = len(node.parts) == 1 and not node.prefix
        return None if is_word and node.parts[0].token in STOP_WORDS else node
    if isinstance(node, And):
        kept = [child for child in map(_without_common_words, node.nodes) if child is not None]
        # Only excluded words are left, so the common words were the point.
        if all(isinstance(child, Not) for child in kept):
            return None
        return all_of(kept)
    if isinstance(node, Or):
        return any_of([c for c in map(_without_common_words, node.nodes) if c is not None])
    return node


def _with_forms(node: Node) -> Node:
    if is_bound(node):
        return node
    if isinstance(node, Term):
        if len(node.parts) != 1 or node.prefix or node.parts[0].prefix:
            return node
        forms = stem_variants(node.parts[0].token)
        others: list[Node] = [
            Term((QueryToken(form, False),), form)
            for form in sorted(forms)
            if form != node.parts[0].token
        ]
        return Or((node, *others), forms=True) if others else node
    if isinstance(node, And):
        return all_of([_with_forms(child) for child in node.nodes]) or node
    if isinstance(node, Or):
        return any_of([_with_forms(child) for child in node.nodes]) or node
    return node


def _any_word(node: Node) -> Node:
    if is_bound(node):
        return node
    if isinstance(node, Or):
        return _either([_any_word(child) for child in node.nodes])
    if isinstance(node, And):
        kept = [child for child in node.nodes if is_bound(child)]
        loose = [_any_word(child) for child in node.nodes if not is_bound(child)]
        wanted = [child for child in kept if not isinstance(child, Not)]
        if loose:
            # A required term is enough by itself; the other terms only improve the rank.
            kept = [_either([*wanted[:1], *loose]), *kept]
        return all_of(kept) or node
    if isinstance(node, Term) and len(node.parts) > 1:
        parts = [Term((part,), part.token, part.prefix) for part in node.parts]
        return _either([_with_forms(part) for part in parts])
    return _with_forms(node)


def _either(nodes: list[Node]) -> Node:
    flat = any_of(nodes)
    flat = any_of(list(dict.fromkeys(flat.nodes))) if isinstance(flat, Or) else flat
    return flat or nodes[0]


def _inside_words(node: Node) -> Node:
    if is_bound(node):
        return node
    if isinstance(node, Term):
        return Substring(node.raw)
    if isinstance(node, And):
        return all_of([_inside_words(child) for child in node.nodes]) or node
    if isinstance(node, Or):
        return any_of([_inside_words(child) for child in node.nodes]) or node
    return node
