"""Sanitize stored text for a terminal.

Titles and messages come from models, web pages and unknown users. Control characters would move the
cursor, change colours or the window's title; bidirectional overrides would make a line read as
something else. The stored text is not changed; ``--json`` shows it exactly.
"""

from __future__ import annotations

import re

# Strings, compiled at first use: most text needs none of these patterns.
_REPLACEMENT = "\ufffd"
# Control characters (C0, DEL, C1) and lone surrogates, which cannot be encoded.
_CONTROL = "[\x00-\x1f\x7f-\x9f\ud800-\udfff]"
# The same, except newlines and tabs, which lay out a text of several lines.
_CONTROL_IN_LINES = "[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]"
# Directional overrides and isolates, line separators, invisible marks. The joiners U+200C and
# U+200D stay: emoji and several scripts need them.
_INVISIBLE = "[\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]"
_WHITESPACE = r"\s+"
_NEWLINE = "\r\n?|[\u0085\u2028\u2029]"


def one_line(text: str) -> str:
    """Return *text* as one sanitized line; runs of white space become one blank."""
    if text.isprintable() and "  " not in text:
        return text.strip()
    folded = re.sub(_WHITESPACE, " ", text).strip()
    return re.sub(_INVISIBLE, "", re.sub(_CONTROL, _REPLACEMENT, folded))


def piece(text: str) -> str:
    """Sanitize a piece of streamed text; keep its line breaks."""
    if text.isprintable():
        return text
    cleaned = re.sub(_CONTROL_IN_LINES, _REPLACEMENT, text.replace("\r\n", "\n"))
    return re.sub(_INVISIBLE, "", cleaned)


def lines(text: str) -> list[str]:
    """Return the sanitized lines of *text*, tabs expanded, without blank lines at both ends."""
    cleaned = re.sub(_CONTROL_IN_LINES, _REPLACEMENT, re.sub(_NEWLINE, "\n", text))
    cleaned = re.sub(_INVISIBLE, "", cleaned)
    return [line.rstrip() for line in cleaned.expandtabs(4).strip("\n").split("\n")]
