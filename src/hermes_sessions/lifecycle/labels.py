"""Names, topics and ids in a prompt: data that somebody else wrote, and shown as such.

A chat can be called anything, "ignore all instructions" included. So a label stands in quotes, on
one line, without characters that are not seen, and is not longer than `MAX_LABEL`.
"""

from __future__ import annotations

import json
import unicodedata
from typing import Final

MAX_LABEL: Final = 240

#: Control characters, and separators of lines and paragraphs.
_BREAKS: Final = frozenset({"Cc", "Zl", "Zp"})
#: What turns the direction of text around or is not seen, lone surrogates, private use.
_UNSEEN: Final = frozenset({"Cf", "Cs", "Co", "Cn"})
#: Parts of emoji and of some scripts' words, although they are not seen.
_JOINERS: Final = "\u200c\u200d"


def cleaned(text: str) -> str:
    """Return a text on one line, without what is not seen, at most `MAX_LABEL` characters long."""
    # Far more than can be shown is not even looked at.
    line = " ".join("".join(map(_visible, text[: MAX_LABEL * 16])).split())
    return line if len(line) <= MAX_LABEL else line[: MAX_LABEL - 1].rstrip() + "…"


def _visible(character: str) -> str:
    category = unicodedata.category(character)
    if category in _BREAKS:
        return " "
    # The last are variants of characters that exist only in theory, and carry hidden text.
    is_unseen = category in _UNSEEN or "\U000e0100" <= character <= "\U000e01ef"
    return "" if is_unseen and character not in _JOINERS else character


def quoted(text: str) -> str:
    """Return a text as a label: cleaned, and in quotes that it cannot end."""
    return json.dumps(cleaned(text), ensure_ascii=False)


def bracketed(name: str) -> str:
    """Return a name as it stands before a message in a chat that several people share."""
    plain = cleaned(name).replace("[", "(").replace("]", ")")
    return f"[{plain}]"
