"""Fold text so that spellings of the same word become equal; shared by index and query.

`fold` is the input of the tokenizer; `plain` does the same but keeps upper and lower case. Both
work cluster by cluster: folding the pieces between cluster boundaries and joining them equals
folding the whole. This makes it possible to show matches in the original text.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import Final
from unicodedata import normalize

from hermes_sessions.text import characters

# Symbols that compatibility folding would glue to the adjacent word: ``Hermes™``, ``2½``,
# ``①Install``. The fraction slash is here so that ½ equals 1/2.
_STANDING_ALONE: Final = (
    "\u00bc-\u00be\u2044\u2120\u2122\u2150-\u215f\u2189\u2460-\u24ea"
    "\U0001f100-\U0001f10a\U0001f12b\U0001f12c\U0001f130-\U0001f149\U0001f16a-\U0001f16c"
)

# The Arabic stretching letter; compatibility forms of vowels also contain it.
_STRETCH: Final = "\u0640"

# The input of `_unaccented`: accents, voiced marks without a kana, letters that contain an accent,
# and the letters of _LETTERS. Symbols with a stroke (≠) are not included.
_ACCENTED: Final = (
    "\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u0233\u0344\u0385-\u0390\u03aa-\u03b0\u03ca-\u03ce"
    "\u03d3\u03d4\u0400-\u0403\u0407\u040c-\u040e\u0419\u0439\u0450-\u0453\u0457\u045c-\u045e"
    "\u0476\u0477\u04c1\u04c2\u04d0-\u04f9\u1e00-\u1fff\u3099\u309a"
) + characters.ACCENT

# Letters that users type without their stroke, and ligatures that they type as two letters.
_LETTERS: Final = str.maketrans(
    {
        "Æ": "Ae",
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
        "Œ": "Oe",
        "œ": "oe",
        "Ŧ": "T",
        "ŧ": "t",
    }
)


def fold(text: str) -> str:
    """Return the text with case, width, accents and compatibility forms folded away.

    Only Latin, Greek and Cyrillic letters lose accents: ``が`` stays different from ``か``.
    Composed and decomposed input give the same result, and folding is idempotent.
    """
    if text.isascii():
        return text.lower()
    return plain(text).casefold()


def plain(text: str) -> str:
    """Return the text folded except for case, for words whose capitals carry meaning."""
    if text.isascii():
        return text
    if _unusual().search(text):
        text = _special().sub(_replace_special, text)
    text = normalize("NFKC", text)
    if _STRETCH in text:
        text = normalize("NFC", text.replace(_STRETCH, ""))
    unaccented = _accented().sub(_unaccented, text)
    # A removed mark may have prevented its neighbours from composing.
    return text if unaccented == text else normalize("NFC", unaccented)


def _replace_special(found: re.Match[str]) -> str:
    sign = found[1]
    if sign is None:
        return ""
    return f" {normalize('NFKC', sign)} ".replace("\u2044", "/")


def _unaccented(found: re.Match[str]) -> str:
    return _without_accents(found[0])


@lru_cache(maxsize=1024)
def _without_accents(letters: str) -> str:
    return _marks().sub("", normalize("NFD", letters)).translate(_LETTERS)


# Compiling these tables takes some milliseconds each; only texts beyond ASCII need them.


@cache
def _unusual() -> re.Pattern[str]:
    return re.compile(f"[{characters.IGNORED}{_STANDING_ALONE}]")


@cache
def _special() -> re.Pattern[str]:
    return re.compile(f"[{characters.IGNORED}]+|([{_STANDING_ALONE}])")


@cache
def _accented() -> re.Pattern[str]:
    return re.compile(f"[{_ACCENTED}][{_ACCENTED}]*+")  # a leading class is matched fastest


@cache
def _marks() -> re.Pattern[str]:
    return re.compile(f"[{characters.ACCENT}\u3099\u309a]+")
