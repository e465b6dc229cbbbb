"""The steps tried, in order, when a query finds nothing as typed.

Each step has a name, so that the search report can say which one matched. Operators and quotes
bind: terms joined by ``AND``, required by ``+``, quoted or excluded hold in every step as written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from hermes_sessions.text.english_words import stem_variants
from hermes_sessions.text.languages import common_words_of, languages_of
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
    terms_of,
)
from hermes_sessions.text.synonyms import SYNONYMS, Synonyms
from hermes_sessions.text.tokenizer import QueryToken, extras, is_cjk, query_parts
from hermes_sessions.text.word_forms import (
    Likeness,
    beginnings,
    has_other_forms,
    in_another_script,
    misspelt_beginnings,
    without_umlauts,
)

AS_ASKED: Final = "as asked"
WITHOUT_COMMON_WORDS: Final = "without common words"
OTHER_FORMS: Final = "other forms of the words"
ANY_WORD: Final = "any of the words"
INSIDE_WORDS: Final = "inside words"


def steps(
    node: Node,
    *,
    synonyms: Synonyms = SYNONYMS,
    is_known: Callable[[Node], bool] = lambda _: True,
) -> Iterator[tuple[str, Node]]:
    """Yield (name, tree) of every step that differs from the steps before it.

    *is_known* says whether any message matches a tree. Where none has a word in any form, the
    step `ANY_WORD` also looks for words that begin alike and for misspellings of it.
    """
    reader = _Reader(node, synonyms, is_known)
    seen: list[Node] = []
    readings: tuple[tuple[str, Callable[[Node], Node]], ...] = (
        (AS_ASKED, lambda _: node),
        (WITHOUT_COMMON_WORDS, lambda lean: lean),
        (OTHER_FORMS, reader.with_forms),
        (ANY_WORD, reader.any_word),
        (INSIDE_WORDS, _inside_words),
    )
    for name, read in readings:
        tree = read(reader.lean)
        if tree not in seen:
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


class _Reader:
    """Reads the words of one query less strictly."""

    def __init__(self, node: Node, synonyms: Synonyms, is_known: Callable[[Node], bool]) -> None:
        self._synonyms = synonyms
        self._is_known = is_known
        words = [term.parts[0].token for term in terms_of(node) if isinstance(term, Term)]
        self._languages = languages_of(words)
        self._common = common_words_of(self._languages)
        #: The query without common words, or as it is if nothing else is left.
        self.lean = self._without_common_words(node) or node

    def _without_common_words(self, node: Node) -> Node | None:
        if is_bound(node):
            return node
        if isinstance(node, Term):
            is_word = len(node.parts) == 1 and not node.prefix
            return None if is_word and node.parts[0].token in self._common else node
        if isinstance(node, And):
            kept = [c for c in map(self._without_common_words, node.nodes) if c is not None]
            # Only excluded words are left, so the common words were the point.
            if all(isinstance(child, Not) for child in kept):
                return None
            return all_of(kept)
        if isinstance(node, Or):
            return any_of([c for c in map(self._without_common_words, node.nodes) if c is not None])
        return node

    def with_forms(self, node: Node) -> Node:
        """Return a tree in which each word may have another form."""
        if is_bound(node):
            return node
        if isinstance(node, Term):
            others = [term for term in self._forms(node) if term != node]
            return Or((node, *dict.fromkeys(others)), forms=True) if others else node
        if isinstance(node, And):
            return all_of([self.with_forms(child) for child in node.nodes]) or node
        if isinstance(node, Or):
            return any_of([self.with_forms(child) for child in node.nodes]) or node
        return node

    def any_word(self, node: Node) -> Node:
        """Return a tree in which one word is enough."""
        if is_bound(node):
            return node
        if isinstance(node, Or):
            return _either([self.any_word(child) for child in node.nodes])
        if isinstance(node, And):
            kept = [child for child in node.nodes if is_bound(child)]
            loose = [self.any_word(child) for child in node.nodes if not is_bound(child)]
            wanted = [child for child in kept if not isinstance(child, Not)]
            if loose:
                # A required term is enough by itself; the other terms only improve the rank.
                kept = [_either([*wanted[:1], *loose]), *kept]
            return all_of(kept) or node
        if isinstance(node, Term) and len(node.parts) > 1:
            whole = self.with_forms(node)
            parts = [Term((part,), part.token, part.prefix) for part in node.parts]
            return _either([*([whole] if whole != node else []), *map(self._guess, parts)])
        return self._guess(node)

    def _guess(self, node: Node) -> Node:
        """Return a word with its forms; one that is unknown, also with words that look like it."""
        forms = self.with_forms(node)
        if not isinstance(node, Term) or len(node.parts) != 1 or node.prefix:
            return forms
        word = node.parts[0].token
        if is_cjk(word) or self._is_known(forms):
            return forms
        guesses = [*self._alike(word), *_misspellings(word)]
        if (other := in_another_script(word)) is not None:
            guesses.append(_word(other))
        known = forms.nodes if isinstance(forms, Or) else (forms,)
        return Or(tuple(dict.fromkeys([*known, *guesses])), forms=True) if guesses else forms

    def _forms(self, term: Term) -> Iterator[Term]:
        if term.prefix or term.parts[-1].prefix:
            return
        if len(term.parts) == 1:
            word = term.parts[0].token
            if is_cjk(word):
                return
            if has_other_forms(self._languages):
                yield from self._alike(word)
            else:
                yield from map(_word, sorted(stem_variants(word)))
            yield from map(_word, without_umlauts(word, term.raw))
            # ``parseQuery`` is also written ``parse_query``.
            if parts := extras(term.raw):
                yield Term(tuple(QueryToken(part) for part in parts), " ".join(parts))
        elif all(part.token.isalnum() and not is_cjk(part.token) for part in term.parts):
            # ``parse_query`` is also written ``parseQuery``.
            yield _word("".join(part.token for part in term.parts))
        key = " ".join(part.token for part in term.parts)
        for other in self._synonyms.get(key, ()):
            if tokens := query_parts(other):
                yield Term(tuple(tokens), other)

    def _alike(self, word: str) -> list[Term]:
        likeness = Likeness(word, "form", self._languages)
        return [_beginning(begin, likeness) for begin in beginnings(word, self._languages)]


def _word(token: str) -> Term:
    return Term((QueryToken(token, False),), token)


def _beginning(token: str, likeness: Likeness) -> Term:
    return Term((QueryToken(token, True),), token, True, likeness=likeness)


def _misspellings(word: str) -> list[Term]:
    likeness = Likeness(word, "misspelling")
    return [_beginning(begin, likeness) for begin in misspelt_beginnings(word)]


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
