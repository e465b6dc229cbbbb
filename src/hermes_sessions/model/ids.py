"""Session ids: how new ones are made, and what every id must satisfy."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from hermes_sessions.errors import InvalidInput

#: Server databases index ids in bounded columns, so the limit holds on every database. It counts
#: stored characters, see `stored_length`.
MAX_ID_LENGTH = 191


def _random_hex(length: int) -> str:
    return os.urandom(length).hex()


def new_session_id(now: float | None = None, random_hex: Callable[[int], str] = _random_hex) -> str:
    """Return an id for a new session: ``YYYYMMDD_HHMMSS_<8 hex>``, local time.

    *now* is seconds since the epoch (default: the present); *random_hex* returns n random bytes
    in hex.
    """
    return f"{time.strftime('%Y%m%d_%H%M%S', time.localtime(now))}_{random_hex(4)}"


def require_id(value: object, what: str = "session id") -> str:
    """Return *value* when it can be stored as an id.

    Raises:
        InvalidInput: not text, empty, or longer than `MAX_ID_LENGTH` characters.
    """
    if not isinstance(value, str):
        raise InvalidInput(f"A {what} must be text, not {type(value).__name__}.")
    if not value:
        raise InvalidInput(f"A {what} must not be empty.")
    return require_bounded(value, what)


def require_bounded(value: str, what: str) -> str:
    """Return *value* when it is short enough to be indexed.

    Raises:
        InvalidInput: longer than `MAX_ID_LENGTH` characters.
    """
    # Stored text is never shorter than the original and at most five times as long.
    if (len(value) * 5 > MAX_ID_LENGTH) and (length := stored_length(value)) > MAX_ID_LENGTH:
        raise InvalidInput(
            f"The {what} is {length} characters long; at most {MAX_ID_LENGTH} are allowed."
        )
    return value


def shortened_id(text: str) -> str:
    """Return *text*, with a digest instead of its end if it is too long for a key."""
    if stored_length(text) <= MAX_ID_LENGTH:
        return text
    import hashlib  # Hardly any is too long.

    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    kept = text[: MAX_ID_LENGTH - 17]
    while stored_length(kept) > MAX_ID_LENGTH - 17:
        kept = kept[:-1]
    return f"{kept}~{digest[:16]}"


def stored_length(text: str) -> int:
    """Return the length of a text in the database.

    NUL, lone surrogates and U+FDD0 are stored as five characters each.
    """
    if text.isascii() and "\x00" not in text:
        return len(text)
    return len(text) + 4 * sum(c in "\x00\ufdd0" or "\ud800" <= c <= "\udfff" for c in text)


def require_new_id(value: object) -> str:
    """Return *value* when it may be the id of a new session.

    Raises:
        InvalidInput: it cannot be stored, or it is only white space, which users cannot type.
    """
    session_id = require_id(value)
    if not session_id.strip():
        raise InvalidInput("A session id must not be blank; use at least one visible character.")
    return session_id


_ASCII_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}


def ascii_lower(text: str) -> str:
    """Fold the case of ASCII letters only, as id prefixes and title families compare."""
    return text.translate(_ASCII_LOWER)
