"""Tags and metadata as they are stored, and what their columns are compared with."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_sessions.errors import InvalidInput
from hermes_sessions.model import labels

texts = st.text(max_size=8) | st.sampled_from(['"', "\\", "a, b", '"k": "v"', "\n", "{\n", "1"])
scalars = texts | st.integers() | st.booleans() | st.none()
values = st.recursive(scalars, lambda part: st.lists(part) | st.dictionaries(texts, part))
keys = texts.filter(bool)


@given(st.text(max_size=70))
def test_a_tag_is_stored_as_it_is_compared(text: str) -> None:
    try:
        tag = labels.normalize_tag(text)
    except InvalidInput:
        return
    assert labels.normalize_tag(tag) == tag
    assert labels.normalize_tag(f"  {text} ") == tag
    assert f'"{tag}"' in str(labels.tags_text(sorted({tag, "other"})))


@pytest.mark.parametrize(
    ("text", "tag"),
    [
        ("Needs\t Review", "needs review"),
        ("CAFE\u0301", "caf\u00e9"),
        ("STRASSE", "strasse"),
        ("\u5099\u4efd", "\u5099\u4efd"),
        ("\U0001f469\u200d\U0001f4bb", "\U0001f469\u200d\U0001f4bb"),
        ("x" * 64, "x" * 64),
    ],
)
def test_a_tag(text: str, tag: str) -> None:
    assert labels.normalize_tag(text) == tag


@given(st.dictionaries(keys, values, max_size=5))
def test_metadata_reads_back(metadata: dict[str, Any]) -> None:
    text = labels.metadata_text(metadata)
    assert (json.loads(text) if text is not None else {}) == metadata


@given(st.dictionaries(keys, values, max_size=4), keys, texts)
def test_an_entry_is_found_exactly_where_it_is(
    metadata: dict[str, Any], key: str, value: str
) -> None:
    """Not in other keys, nested objects or texts that look like it."""
    text = labels.metadata_text(metadata) or ""
    for name in {key, *metadata}:
        for wanted in {value, *map(_written, metadata.values())}:
            is_found = any(entry in text for entry in labels.metadata_entries(name, wanted))
            assert is_found == _is_written(metadata, name, wanted)


def _written(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _is_written(metadata: dict[str, Any], key: str, wanted: str) -> bool:
    if key not in metadata:
        return False
    value = metadata[key]
    if isinstance(value, (list, dict)):
        return False
    literal = wanted.lower() if wanted.lower() in ("true", "false", "null") else wanted
    return _written(value) == (wanted if isinstance(value, str) else literal)
