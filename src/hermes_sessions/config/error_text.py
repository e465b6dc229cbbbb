"""Quote text of the configuration in messages: short, printable, without secrets."""

from __future__ import annotations

import re

MAX_SHOWN = 60

_SECRET_ENDINGS = ("token", "key", "password", "passwd", "dsn", "secret")

# Credentials in a connection string that was written under another key.
_USER_INFO = r"(?s)(?<=://).*@"
_ASSIGNMENT = r"(?i)((?:password|passwd|pwd|secret|token|key)\s*=\s*)[^&\s]+"


def is_secret(name: str) -> bool:
    """Tell whether the value of a key or environment variable of this name is a secret."""
    return name.lower().endswith(_SECRET_ENDINGS)


def shown(text: str) -> str:
    """Return ``text`` for a message: credentials hidden, on one line, cut when long."""
    masked = re.sub(_ASSIGNMENT, r"\1...", re.sub(_USER_INFO, "...@", text))
    printable = "".join(character if character.isprintable() else "?" for character in masked)
    if len(printable) <= MAX_SHOWN:
        return printable
    return printable[: MAX_SHOWN - 3] + "..."


def closest_match(word: str, candidates: list[str], *, at_least: float) -> str | None:
    """Return the candidate most like ``word``, or None when none is at least that similar.

    Case and the choice between ``-`` and ``_`` do not count as differences.
    """
    from difflib import get_close_matches

    by_spelling = {_spelling(candidate): candidate for candidate in candidates}
    matches = get_close_matches(_spelling(word), list(by_spelling), n=1, cutoff=at_least)
    return by_spelling[matches[0]] if matches else None


def _spelling(word: str) -> str:
    return word.strip().lower().replace("-", "_")
