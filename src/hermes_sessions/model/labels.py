"""Labels of a session: its tags, and its metadata, a JSON object of the caller.

Both are stored as JSON text. Metadata has one line per key, so that a database can tell the keys of
the object from those inside its values without a JSON function.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from hermes_sessions.errors import InvalidInput

MAX_TAG_LENGTH: Final = 64
MAX_TAGS: Final = 100
#: Lists read the metadata of every session that they show.
MAX_METADATA_BYTES: Final = 64 * 1024
#: Control characters, parts of characters, and what changes the direction of the text after it.
_CONTROLS: Final = "[\x00-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]"
_LITERALS: Final = ("true", "false", "null")


def normalize_tag(tag: str) -> str:
    """Return a tag as it is stored and compared: trimmed, in one Unicode form, case-folded.

    Raises:
        InvalidInput: it is empty, too long, has characters that a tag cannot have, or begins
            with + or -.
    """
    if not isinstance(tag, str):
        raise InvalidInput(f"A tag must be text, not {type(tag).__name__}.")
    # Imported here, like json: most processes set no tag and read no metadata.
    import re
    import unicodedata

    text = " ".join(unicodedata.normalize("NFC", tag.casefold()).split())
    if not text:
        raise InvalidInput("A tag must not be empty.")
    if len(text) > MAX_TAG_LENGTH:
        raise InvalidInput(
            f"The tag {text[:20]!r}… is too long: {len(text)} characters (max {MAX_TAG_LENGTH})."
        )
    if re.search(_CONTROLS, text):
        raise InvalidInput(f"The tag {text!r} has control characters. Remove them.")
    if text[0] in "+-" or '"' in text or "\\" in text:
        raise InvalidInput(
            f"The tag {text!r} must not begin with + or -, or contain quotes or backslashes."
        )
    return text


def normalize_tags(tags: Iterable[str]) -> list[str]:
    """Return tags as they are stored: each once, sorted.

    Raises:
        InvalidInput: a tag is not valid, or there are too many.
    """
    if isinstance(tags, (str, bytes, Mapping)) or not isinstance(tags, Iterable):
        raise InvalidInput(f"Tags must be a list of strings, not {type(tags).__name__}.")
    found = sorted(set(map(normalize_tag, tags)))
    if len(found) > MAX_TAGS:
        raise InvalidInput(f"{len(found)} tags are too many for one session (max {MAX_TAGS}).")
    return found


def tags_text(tags: Sequence[str]) -> str | None:
    """Return the column of normalized tags; None for none."""
    return json_text(tags) if tags else None


def metadata_text(metadata: Mapping[str, Any]) -> str | None:
    """Return the column of metadata; None for an empty object.

    Raises:
        InvalidInput: it is not an object with text keys, is not JSON, or is too large.
    """
    if not isinstance(metadata, Mapping):
        raise InvalidInput(f"metadata must be an object, not {type(metadata).__name__}.")
    if not all(isinstance(key, str) and key for key in metadata):
        raise InvalidInput("Keys of metadata must be text and not empty.")
    if not metadata:
        return None
    try:
        entries = [f"{json_text(key)}: {json_text(value)}" for key, value in metadata.items()]
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"metadata cannot be stored as JSON: {error}.") from error
    text = "{\n" + ",\n".join(entries) + "\n}"
    if (size := len(text.encode("utf-8", "surrogatepass"))) > MAX_METADATA_BYTES:
        raise InvalidInput(
            f"metadata is too large: {size:,} bytes (max {MAX_METADATA_BYTES:,}). "
            f"Store large values as messages or files."
        )
    return text


def metadata_entries(key: str, value: str) -> list[str]:
    """Return the lines by which `metadata_text` stores *key* with a value that is written so: as
    text, and as a number, ``true``, ``false`` or ``null`` if it reads as one.
    """
    spellings = [json_text(value)]
    if value.lower() in _LITERALS:
        spellings.append(value.lower())
    elif _is_number(value):
        spellings.append(value)
    # The last entry has no comma after it.
    return [
        f"\n{json_text(key)}: {spelling}{end}" for spelling in spellings for end in (",\n", "\n}")
    ]


def merged_metadata(metadata: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return metadata with keys overwritten by *changes*; None removes a key."""
    if not isinstance(changes, Mapping):
        raise InvalidInput(f"metadata must be an object, not {type(changes).__name__}.")
    merged = {**metadata, **changes}
    removed = {key for key, value in changes.items() if value is None}
    return {key: value for key, value in merged.items() if key not in removed}


def json_text(value: Any) -> str:
    """Return JSON as both columns are written."""
    import json

    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _is_number(text: str) -> bool:
    import json

    try:
        return not isinstance(json.loads(text), (str, list, dict, bool, type(None)))
    except (ValueError, RecursionError):
        return False
