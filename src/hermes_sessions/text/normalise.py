"""Folds text so that spellings of the same thing become equal; shared by index and query.

`fold` is what tokens are made of, `plain` the same with upper and lower case still apart. Both
treat a text piece by piece: folding the pieces between `clusters` boundaries and joining them
gives the same as folding the whole, which is what lets matches be shown in the original text.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final
from unicodedata import normalize

from hermes_sessions.text import characters

# Signs that compatibility folding would glue to the word beside them: ``Hermes™``, ``2½``,
# ``①Install``. The fraction slash joins them so that ½ equals 1/2.
_STANDING_ALONE: Final = (
    "\u00bc-\u00be\u2044\u2120\u2122\u2150-\u215f\u2189\u2460-\u24ea"
    "\U0001f100-\U0001f10a\U0001f12b\U0001f12c\U0001f130-\U0001f149\U0001f16a-\U0001f16c"
)

# Where an accent may be: marks, letters that contain one, and the letters of _UNACCENTED.
_MAYBE_ACCENTED: Final = (
    "\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u0233\u0344\u0385-\u0390\u03aa-\u03b0\u03ca-\u03ce"
    "\u03d3\u03d4\u0400-\u0403\u0407\u040c-\u040e\u0419\u0439\u0450-\u0453\u0457\u045c-\u045e"
    "\u0476\u0477\u04c1\u04c2\u04d0-\u04f9\u1e00-\u1fff\u3099\u309a"
) + characters.ACCENT

# Letters that people type without their stroke, and ligatures that they type as two letters.
_UNACCENTED: Final = {
    "Æ": "AE",
    "Ø": "O",
    "æ": "ae",
    "ø": "o",
    "Đ": "D",
    "đ": "d",
    "Ħ": "H",
    "ħ": "h",
    "ı": "i",
    "Ł": "L",
    "ł": "l",
    "Œ": "OE",
    "œ": "oe",
    "Ŧ": "T",
    "ŧ": "t",
}


def fold(text: str) -> str:
    """Return the text with case, width, accents and compatibility forms folded away.

    Accents go on Latin, Greek and Cyrillic letters only: ``が`` stays different from ``か``.
    Composed and decomposed input give the same, and folding twice changes nothing more.
    """
    if text.isascii():
        return text.lower()
    return plain(text).casefold()


def plain(text: str) -> str:
    """Return the folded text before its case is folded, for words whose capitals mean something."""
    if text.isascii():
        return text
    text = normalize("NFKC", _special().sub(_replace_special, text))
    if _maybe_accented().search(text) is None:
        return text
    text = _unaccented().sub(lambda letter: _UNACCENTED[letter[0]], text)
    text = normalize("NFC", _accents().sub("", normalize("NFD", text)))
    if "\u3099" in text or "\u309a" in text:
        # Voiced marks that no kana took: then one CJK character is always one code point.
        text = normalize("NFC", text.replace("\u3099", "").replace("\u309a", ""))
    return text


def _replace_special(found: re.Match[str]) -> str:
    sign = found[1]
    if sign is None:
        return ""
    return f" {normalize('NFKC', sign)} ".replace("\u2044", "/")


# The tables make patterns of some milliseconds' work each: only texts beyond ASCII pay for them.


@cache
def _special() -> re.Pattern[str]:
    return re.compile(f"[{characters.IGNORED}]+|([{_STANDING_ALONE}])")


@cache
def _maybe_accented() -> re.Pattern[str]:
    return re.compile(f"[{_MAYBE_ACCENTED}]")


@cache
def _unaccented() -> re.Pattern[str]:
    return re.compile(f"[{''.join(_UNACCENTED)}]")


@cache
def _accents() -> re.Pattern[str]:
    # A stroke through a sign is part of the sign (≠ is not =); through a letter it is an accent.
    strokeless = characters.ACCENT.replace("\u0300-\u036f", "\u0300-\u0337\u0339-\u036f")
    return re.compile(rf"(?<=\w)[{characters.ACCENT}]+|[{strokeless}]+")
