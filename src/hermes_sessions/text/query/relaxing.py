"""What is tried, in order, when a question finds nothing as it was asked.

Each step is named, so that an answer can say which one found it. What must be absent stays absent
in every step, and what is quoted stays together.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hermes_sessions.text.query.tree import (
    And,
    Node,
    Not,
    Or,
    Substring,
    Term,
    absent_of,
    all_of,
    any_of,
    terms_of,
)
from hermes_sessions.text.segment import Part
from hermes_sessions.text.words import STOP_WORDS, stem_variants

AS_ASKED: Final = "as asked"
WITHOUT_COMMON_WORDS: Final = "without common words"
OTHER_FORMS: Final = "other forms of the words"
ANY_WORD: Final = "any of the words"
INSIDE_WORDS: Final = "inside words"


def steps(node: Node) -> Iterator[tuple[str, Node]]:
    """Yield (name, tree) of every step that differs from those before it."""
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
    """Return trees of which a match matches at least one: those of the step `ANY_WORD`, each
    without what must be absent.
    """
    absent = absent_of(node)
    nodes = node.nodes if isinstance(node, And) else (node,)
    rest = [child for child in nodes if child not in absent]
    if len(rest) != 1 or not isinstance(rest[0], Or):
        return [node]
    return [all_of([part, *absent]) or part for part in rest[0].nodes]


def _without_common_words(node: Node) -> Node | None:
    if isinstance(node, Term):
        is_word = len(node.parts) == 1 and not node.prefix and not node.quoted
        return None if is_word and node.parts[0].token in STOP_WORDS else node
    if isinstance(node, And):
        kept = [child for child in map(_without_common_words, node.nodes) if child is not None]
        # Only words that must be absent are left: then the common ones were the point.
        if all(isinstance(child, Not) for child in kept):
            return None
        return all_of(kept)
    if isinstance(node, Or):
        return any_of([c for c in map(_without_common_words, node.nodes) if c is not None])
    return node


def _with_forms(node: Node) -> Node:
    if isinstance(node, Term):
        if len(node.parts) != 1 or node.prefix or node.parts[0].prefix or node.quoted:
            return node
        forms = stem_variants(node.parts[0].token)
        others: list[Node] = [
            Term((Part(form, False),), form)
            for form in sorted(forms)
            if form != node.parts[0].token
        ]
        return any_of([node, *others]) or node
    if isinstance(node, And):
        return all_of([_with_forms(child) for child in node.nodes]) or node
    if isinstance(node, Or):
        return any_of([_with_forms(child) for child in node.nodes]) or node
    return node


def _any_word(node: Node) -> Node | None:
    words: list[Node] = []
    for term in terms_of(node):
        if isinstance(term, Term) and len(term.parts) > 1 and not term.quoted:
            words += [Term((part,), part.token, part.prefix) for part in term.parts]
        else:
            words.append(term)
    either = any_of([_with_forms(word) for word in dict.fromkeys(words)])
    return _without(node, either)


def _inside_words(node: Node) -> Node | None:
    pieces: list[Node] = [
        term if isinstance(term, Substring) else Substring(term.raw) for term in terms_of(node)
    ]
    return _without(node, all_of(pieces))


def _without(node: Node, wanted: Node | None) -> Node | None:
    """Return *wanted*, less what the original tree wants absent."""
    if wanted is None:
        return None
    return all_of([wanted, *absent_of(node)])
