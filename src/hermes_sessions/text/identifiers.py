"""Finds the words inside identifiers: ``parseQuery`` has ``parse`` and ``query``.

Works on text whose case is not folded yet (`normalise.plain`), for Latin, Greek and Cyrillic.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Final

# Longer runs are data, not names; and short pieces in a row are random strings such as base64.
_LONGEST: Final = 64
_RANDOM_PIECES: Final = 4
_RANDOM_LENGTH: Final = 3

_UPPER: Final = "A-Z\u0391-\u03a9\u0400-\u042f"
_LOWER: Final = "a-z\u00df\u03b1-\u03c9\u0430-\u045f"

# Of UTF-8: upper case is U, lower case and digits are l, what starts a Greek, Cyrillic or sharp S
# letter is ?, everything else is a blank.
_SHAPES: Final = bytes(
    ord(
        "U" if byte in range(0x41, 0x5B)
        else "l" if byte in range(0x30, 0x3A) or byte in range(0x61, 0x7B)
        else "?" if byte in {0xC3, 0xCE, 0xCF, 0xD0, 0xD1}
        else " "
    )
    for byte in range(256)
)  # fmt: skip


def compound_words(text: str) -> Iterator[list[tuple[int, int]]]:
    """Yield, for each word of *text* that is made of words, the places of its parts.

    A part starts at a capital after a small letter or digit, and at the last capital of several
    before a small letter: ``getHTTP2Response`` is get, HTTP2, Response.
    """
    shape = text.encode("utf-8", "surrogatepass").translate(_SHAPES)
    if b"lU" not in shape and b"UUl" not in shape and b"?" not in shape:
        return
    for word in _compound().finditer(text):
        start, end = word.span()
        # Without small letters it is a constant or a hexadecimal number: A1B2C3.
        if end - start > _LONGEST or word[0].isupper():
            continue
        parts = [part.span() for part in _part().finditer(text, start, end)]
        if len(parts) < 2:
            continue
        if len(parts) > _RANDOM_PIECES and end - start < _RANDOM_LENGTH * len(parts):
            continue
        yield parts


@cache
def _compound() -> re.Pattern[str]:
    letters = f"{_UPPER}{_LOWER}0-9"
    capital_inside = f"[{_UPPER}]*+[{_LOWER}0-9]++[{_UPPER}]"
    capitals_first = f"[{_UPPER}]{{2,}}+[{_LOWER}]"
    return re.compile(f"(?<![{letters}])(?:{capital_inside}|{capitals_first})[{letters}]*+")


@cache
def _part() -> re.Pattern[str]:
    plural = f"[{_UPPER}]{{2,}}+s(?![{_LOWER}0-9])"  # URLs is one part, not UR and Ls
    return re.compile(
        f"{plural}|[{_UPPER}]+(?=[{_UPPER}][{_LOWER}])|[{_UPPER}]*+[{_LOWER}0-9]++|[{_UPPER}]++"
    )
