"""Counts and places of terms in a text, quickly: for ranking and for choosing what to show.

A term is looked for as it is written, in folded text. That counts the beginnings and insides of
words as well, which is good enough to weigh matches; what matches is decided in `matching`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from itertools import islice
from typing import Final
from unicodedata import is_normalized

from hermes_sessions.text.normalisation import fold
from hermes_sessions.text.query.tree import Substring, Term
from hermes_sessions.text.tokenizer import kind_of

_BETWEEN: Final = r"[\W_]+"
#: Letters of Latin, Greek and Cyrillic beyond ASCII, and marks: folding may change them.
_HAS_ACCENTS: Final = re.compile("[\u00c0-\u052f\u1e00-\u1fff\u0300-\u036f]")


def folded(text: str) -> str:
    """Return a text in the form terms are looked for in."""
    if text.isascii():
        return text.lower()
    # Folding costs most where it changes least: text without accents and compatibility forms.
    if is_normalized("NFKC", text) and not _HAS_ACCENTS.search(text):
        return text.casefold()
    return fold(text)


def counter(term: Term | Substring) -> Callable[[str], int]:
    """Return what counts a term in texts that are `folded`, parts of words included."""
    written = _written(term)
    if isinstance(written, str):
        return lambda text: text.count(written)
    return lambda text: len(written.findall(text))


def places(term: Term | Substring, text: str, most: int = 20) -> list[int]:
    """Return where a term begins in a text that is `folded`, the first *most* of them."""
    written = _written(term)
    pattern = re.compile(re.escape(written)) if isinstance(written, str) else written
    return [match.start() for match in islice(pattern.finditer(text), most)]


@lru_cache(maxsize=512)
def _written(term: Term | Substring) -> str | re.Pattern[str]:
    """Return how a term stands in folded text: one piece, or words with something between."""
    if isinstance(term, Substring):
        return fold(term.raw)
    tokens = [part.token for part in term.parts]
    if len(tokens) == 1:
        return tokens[0]
    if all(kind_of(token) == "word" for token in tokens):
        return re.compile(_BETWEEN.join(map(re.escape, tokens)))
    # Runs without blanks and signs stand in a text as they are typed.
    return fold(term.raw).strip()
