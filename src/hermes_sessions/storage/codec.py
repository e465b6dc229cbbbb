"""How values become column values and come back unchanged, on every database.

Text: NUL (PostgreSQL refuses it, SQLite's functions stop at it) and lone surrogates (no UTF-8 for
them) are written as the noncharacter U+FDD0 followed by four hex digits, and U+FDD0 itself the same
way. All other text, that is nearly all text, is stored as it is and readable by any tool.

Content: an explicit content type says how to read the text, instead of a marker inside it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import chain
from typing import Any, Final

from hermes_sessions.storage.logs import Logger

logger = Logger(__name__)

_ESCAPE: Final = "\ufdd0"
_MUST_ESCAPE: Final = "[\x00\ud800-\udfff\ufdd0]"
_ESCAPED: Final = "\ufdd0([0-9a-f]{4})"

JSON: Final = "json"
BASE64: Final = "base64"


def encode_text(text: str) -> str:
    """Return *text* in a form every database stores; the inverse of `decode_text`."""
    if _is_storable(text):
        return text
    return re.sub(_MUST_ESCAPE, lambda match: f"{_ESCAPE}{ord(match[0]):04x}", text)


def _is_storable(text: str) -> bool:
    # Every text that is written or asked for passes here; a search by pattern takes far longer.
    if "\x00" in text:
        return False
    if text.isascii():
        return True
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return _ESCAPE not in text


def decode_text(text: str) -> str:
    """Return what `encode_text` was given. Text written by other tools comes back as it is."""
    if _ESCAPE not in text:
        return text
    return re.sub(_ESCAPED, lambda match: chr(int(match[1], 16)), text)


def encode_params(params: Sequence[Any]) -> tuple[Any, ...]:
    """Return parameters with every text encoded, including members of string enumerations."""
    return tuple([encode_text(value) if isinstance(value, str) else value for value in params])


def decode_row(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a row with every text decoded."""
    if not _is_any_escaped(row):
        return row
    return tuple([decode_text(value) if type(value) is str else value for value in row])


def decode_rows(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return rows with every text decoded."""
    return [decode_row(row) for row in rows] if _is_any_escaped(chain.from_iterable(rows)) else rows


def _is_any_escaped(values: Iterable[Any]) -> bool:
    # Nearly all that is read passes here and has nothing to decode: it must cost next to nothing.
    for value in filter(None, values):
        if type(value) is str and not value.isascii() and _ESCAPE in value:
            return True
    return False


def encode_content(content: Any) -> tuple[str | None, str | None]:
    """Return (column text, content type) for any message content.

    Text, numbers and booleans become text; lists, tuples and dicts JSON; bytes base64; anything
    JSON cannot hold becomes its ``str()``.
    """
    if content is None or isinstance(content, str):
        return content, None
    if isinstance(content, (list, tuple, dict)):
        try:
            return to_json(content), JSON
        except (TypeError, ValueError):
            return str(content), None
    if isinstance(content, (bytes, bytearray, memoryview)):
        import base64  # Hardly any content is bytes.

        return base64.b64encode(bytes(content)).decode("ascii"), BASE64
    if isinstance(content, bool):
        return str(int(content)), None
    return str(content), None


def decode_content(column: Any, content_type: str | None) -> Any:
    """Return the content that `encode_content` was given."""
    if content_type is None or column is None:
        return column
    try:
        if content_type == JSON:
            import json

            return json.loads(column)
        if content_type == BASE64:
            import base64

            return base64.b64decode(column, validate=True)
    except ValueError:
        logger.warning(
            "content that claims to be %s cannot be read; returned as text", content_type
        )
    return column


def decode_searchable(column: Any, content_type: str | None) -> Any:
    """Return content as `decode_content` does, but None for bytes, which no search finds."""
    return None if content_type == BASE64 else decode_content(column, content_type)


def to_json(value: Any) -> str:
    """Return JSON with non-ASCII text unescaped, so that it can be searched and stays small."""
    import json  # Loaded late, so that commands that only list sessions start fast.

    return json.dumps(value, ensure_ascii=False)


def encode_value(value: Any) -> str:
    """Return the JSON text of a value that reads back deep-equal.

    Raises:
        ValueError: JSON cannot hold it, or it would read back as something else.
    """
    import json

    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        is_kept = json.loads(text) == value
    except (TypeError, RecursionError) as error:
        raise ValueError(str(error)) from error
    if not is_kept:
        raise ValueError("tuples and keys that are not text would read back differently")
    return text


def decode_value(column: str | None) -> Any:
    """Return the value that `encode_value` was given; text of other tools that is not JSON comes
    back as it is.
    """
    return decode_content(column, JSON)


def from_json(column: str | None, default: Any) -> Any:
    """Return the decoded column, or *default* when it cannot be read (written by other tools)."""
    if not column:
        return default
    try:
        value, end = _json_reader()(column)
        if end == len(column):
            return value
    except (TypeError, ValueError):
        pass  # Perhaps there are only blanks around it; the slower way tells.
    import json

    try:
        return json.loads(column)
    except ValueError:
        logger.warning("a JSON column cannot be read; %r is used", default)
        return default


@cache
def _json_reader() -> Callable[[str], tuple[Any, int]]:
    """Return the part of `json.loads` that does the work: transcripts hold thousands of values."""
    import json

    return json.JSONDecoder().raw_decode
