"""Other forms and spellings of a word: decided on tokens, the same on every database.

English forms are listed by rule (`english_words`). For other languages, and for words that no
message has, an index is asked for the beginning of the word, and `Likeness` decides which of the
words found there are meant: those with the same stem, those that differ in a short ending, or those
that differ by a typing error.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, Literal, NamedTuple

from hermes_sessions.text.languages import ENGLISH

#: Languages with a stemmer, of the package snowballstemmer.
_STEMMED: Final = frozenset(
    "arabic catalan czech danish dutch finnish french german greek hindi hungarian indonesian "
    "italian norwegian persian polish portuguese romanian russian spanish swedish turkish".split()
)
#: How much of a word must stay, how many letters may be cut from it, and how long a different
#: ending may be.
_LEAST: Final = 4
_CUT: Final = 3
_CUT_FROM_LONG: Final = 4
_LONG: Final = 9
_ENDING: Final = 4
_SHORT_ENDING: Final = 2
#: What a word counts that may be meant, but differs in a longer ending or by a typing error.
_UNSURE: Final = 0.5
#: The shortest words in which one typing error, and two, are looked for.
_ONE_ERROR: Final = 5
_TWO_ERRORS: Final = 9
#: Articles and prepositions that are written together with the next word.
_ATTACHED: Final = {
    "arabic": ("ال", "و", "ب", "ل", "بال", "وال", "لل", "ف", "ك"),
    "hebrew": ("ה", "ו", "ב", "ל", "מ", "ש", "כ", "וה", "שה", "מה"),
    "german": ("ge",),
    "dutch": ("ge",),
}


class Likeness(NamedTuple):
    """What makes a token another form, or a misspelling, of a word."""

    word: str
    kind: Literal["form", "misspelling"]
    languages: tuple[str, ...] = ()

    def includes(self, token: str) -> bool:
        """Whether a token is meant."""
        return self.weight(token) > 0

    def weight(self, token: str) -> float:
        """Return how much a token counts as the word: 1 for a form of it, 0 for another word."""
        if self.kind == "misspelling":
            return _UNSURE if is_misspelling(self.word, token) else 0.0
        return form_weight(self.word, token, self.languages)


def has_other_forms(languages: Sequence[str]) -> bool:
    """Whether words of these languages have forms that are looked up by their beginning."""
    return bool(languages) and ENGLISH not in languages


def beginnings(word: str, languages: Sequence[str]) -> list[str]:
    """Return beginnings such that every form of a word has one of them; none for short words."""
    if len(word) < _LEAST - 1 or not word.isalpha():
        return []
    stem = _beginning(word)
    found = [stem]
    for language in languages:
        for attached in _ATTACHED.get(language, ()):
            rest = word.removeprefix(attached)
            if rest != word and len(rest) >= _LEAST - 1:
                found.append(_beginning(rest))
            found.append(attached + stem)
    return list(dict.fromkeys(found))


def _beginning(word: str) -> str:
    cut = _CUT if len(word) < _LONG else _CUT_FROM_LONG
    return word[: max(min(_LEAST, len(word)), len(word) - cut)]


def misspelt_beginnings(word: str) -> list[str]:
    """Return beginnings of words that differ from *word* by a typing error; none for short ones."""
    if len(word) < _ONE_ERROR or not word.isalpha():
        return []
    found = [word[:3], word[1:4], word[0] + word[2:4]]
    found += [word[1] + word[0] + word[2], word[0] + word[2] + word[1]]
    found += [word[0] * 2 + word[1], word[0] + word[1] * 2]
    return list(dict.fromkeys(found))


@lru_cache(maxsize=8192)
def form_weight(word: str, token: str, languages: tuple[str, ...]) -> float:
    """Return 1 if a token is another form of a word in one of these languages, less if it only
    looks like one, else 0.
    """
    if token == word:
        return 1.0
    if any(_stem(word, name) == _stem(token, name) for name in languages if name in _STEMMED):
        return 1.0
    pairs = [(word, token)]
    for language in languages:
        pairs += [
            (word.removeprefix(attached), token.removeprefix(attached))
            for attached in _ATTACHED.get(language, ())
        ]
    if not any(_differ_in_ending(*pair) for pair in pairs):
        return 0.0
    is_close = any(
        max(len(one), len(other)) - _shared_beginning(one, other) <= _SHORT_ENDING
        for one, other in pairs
    )
    return 1.0 if is_close else _UNSURE


def _differ_in_ending(word: str, token: str) -> bool:
    shared = _shared_beginning(word, token)
    if shared < min(_LEAST, len(word), len(token)) or shared < _LEAST - 1:
        return False
    if shared < _LEAST:
        return len(token) - shared <= 2 and len(word) - shared <= 2
    return shared >= len(_beginning(word)) and len(token) - shared <= _ENDING


def _shared_beginning(first: str, second: str) -> int:
    shared = 0
    for one, other in zip(first, second, strict=False):
        if one != other:
            break
        shared += 1
    return shared


@lru_cache(maxsize=8192)
def is_misspelling(word: str, token: str) -> bool:
    """Whether a token differs from a word by a typing error, or by two in a long word."""
    allowed = 2 if len(word) >= _TWO_ERRORS else 1
    return abs(len(word) - len(token)) <= allowed and _distance(word, token, allowed) <= allowed


def _distance(first: str, second: str, most: int) -> int:
    """Return the number of letters to insert, delete, replace or swap, up to *most* + 1."""
    before: list[int] = []
    row = list(range(len(second) + 1))
    for i, letter in enumerate(first, 1):
        last, before, row = before, row, [i]
        for j, other in enumerate(second, 1):
            cost = min(before[j] + 1, row[-1] + 1, before[j - 1] + (letter != other))
            if i > 1 and j > 1 and letter == second[j - 2] and first[i - 2] == other:
                cost = min(cost, last[j - 2] + 1)
            row.append(cost)
        if min(row) > most:
            return most + 1
    return row[-1]


@lru_cache(maxsize=8192)
def _stem(word: str, language: str) -> str:
    # Imported when a query in such a language is relaxed: it takes a few milliseconds.
    import snowballstemmer

    return str(snowballstemmer.stemmer(language).stemWord(word))


# Spellings in another script or without umlauts

_UMLAUTS: Final = {"ä": "ae", "ö": "oe", "ü": "ue", "å": "aa", "ø": "oe", "æ": "ae", "ß": "ss"}
_WITHOUT_UMLAUTS: Final = (("ae", "a"), ("oe", "o"), ("ue", "u"), ("aa", "a"))
_CYRILLIC: Final = dict(
    zip(
        "абвгдеёжзийклмнопрстуфхцчшщъыьэюяіїєґ",
        "a b v g d e e zh z i i k l m n o p r s t u f kh ts ch sh shch  y  e yu ya i i e g".split(
            " "
        ),
        strict=True,
    )
)
_GREEK: Final = dict(
    zip(
        "αβγδεζηθικλμνξοπρσςτυφχψω",
        "a v g d e z i th i k l m n x o p r s s t y f ch ps o".split(),
        strict=True,
    )
)
_TO_CYRILLIC: Final = (
    ("shch", "щ"), ("sch", "щ"), ("yo", "е"), ("zh", "ж"), ("kh", "х"), ("ts", "ц"), ("ch", "ч"),
    ("sh", "ш"), ("yu", "ю"), ("ya", "я"), ("ju", "ю"), ("ja", "я"), ("a", "а"), ("b", "б"),
    ("v", "в"), ("w", "в"), ("g", "г"), ("d", "д"), ("e", "е"), ("z", "з"), ("i", "и"), ("y", "ы"),
    ("j", "и"), ("k", "к"), ("l", "л"), ("m", "м"), ("n", "н"), ("o", "о"), ("p", "п"), ("r", "р"),
    ("s", "с"), ("t", "т"), ("u", "у"), ("f", "ф"), ("h", "х"), ("c", "ц"), ("x", "кс"),
)  # fmt: skip


def without_umlauts(word: str, written: str) -> list[str]:
    """Return spellings of a token with and without umlauts: ``mueller`` and ``muller``.

    *written* is the word before folding, which removes accents.
    """
    lowered = written.lower()
    found = [word.replace(pair, letter) for pair, letter in _WITHOUT_UMLAUTS if pair in word]
    if any(letter in lowered for letter in _UMLAUTS):
        found.append("".join(_UMLAUTS.get(letter, letter) for letter in lowered))
    return [spelling for spelling in dict.fromkeys(found) if spelling != word]


def in_another_script(word: str) -> str | None:
    """Return a Cyrillic or Greek word in Latin letters, and a Latin one in Cyrillic letters."""
    if word[0] in _CYRILLIC:
        return "".join(_CYRILLIC.get(letter, letter) for letter in word)
    if word[0] in _GREEK:
        return "".join(_GREEK.get(letter, letter) for letter in word)
    if word.isascii() and word.isalpha() and len(word) >= _LEAST:
        return _in_cyrillic(word)
    return None


def _in_cyrillic(word: str) -> str:
    letters = []
    place = 0
    while place < len(word):
        for latin, cyrillic in _TO_CYRILLIC:
            if word.startswith(latin, place):
                letters.append(cyrillic)
                place += len(latin)
                break
        else:
            place += 1
    return "".join(letters)
