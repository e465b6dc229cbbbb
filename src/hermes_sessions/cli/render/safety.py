"""Stored text made harmless for a terminal.

Titles and messages come from models, web pages and strangers. Control characters would move the
cursor, change colours or the window's title; bidirectional overrides would make a line read as
something else. The stored text is not changed; ``--json`` shows it exactly.
"""

from __future__ import annotations

import re

_REPLACEMENT = "\ufffd"
# Controls (C0, DEL, C1) and halves of surrogate pairs, which no encoding can carry.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
# As above, without the newlines and tabs that lay out a text of several lines.
_CONTROL_IN_LINES = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
# Directional overrides and isolates, separators that break lines, marks nobody sees. The joiners
# U+200C and U+200D stay: emoji and several scripts are written with them.
_INVISIBLE = re.compile("[\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]")
_WHITESPACE = re.compile(r"\s+")
_NEWLINE = re.compile("\r\n?|[\u0085\u2028\u2029]")


def one_line(text: str) -> str:
    """Return *text* as one harmless line; runs of white space become one blank."""
    if text.isascii() and text.isprintable() and "  " not in text:
        return text.strip()
    folded = _WHITESPACE.sub(" ", text).strip()
    return _INVISIBLE.sub("", _CONTROL.sub(_REPLACEMENT, folded))


def lines(text: str) -> list[str]:
    """Return the lines of *text*, harmless, tabs as blanks, without blank lines at the ends."""
    cleaned = _INVISIBLE.sub("", _CONTROL_IN_LINES.sub(_REPLACEMENT, _NEWLINE.sub("\n", text)))
    return [line.rstrip() for line in cleaned.expandtabs(4).strip("\n").split("\n")]
