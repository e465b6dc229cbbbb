"""The codec is lossless, and every database can store what it writes."""

import json
from enum import StrEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_sessions.storage import codec

# All code points, also those that are no characters; the difficult ones often.
difficult = st.sampled_from("\x00\ud800\udbff\udc00\udfff\ufdd0\ufdd1\uffff0123abcdfF \U0001f389")
texts = st.text(st.one_of(difficult, st.characters(codec=None)))
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
structures = st.lists(values, max_size=4) | st.dictionaries(texts, values, max_size=4)


@given(texts)
def test_text_comes_back(text: str) -> None:
    assert codec.decode_text(codec.encode_text(text)) == text


@given(texts)
def test_encoded_text_can_be_stored_anywhere(text: str) -> None:
    stored = codec.encode_text(text)
    assert "\x00" not in stored
    stored.encode("utf-8")


@given(st.text(st.characters(codec="utf-8", exclude_characters="\x00\ufdd0")))
def test_ordinary_text_is_stored_as_it_is(text: str) -> None:
    assert codec.encode_text(text) == text
    assert codec.decode_text(text) == text


@given(texts, texts)
def test_different_texts_stay_different(one: str, other: str) -> None:
    assert (codec.encode_text(one) == codec.encode_text(other)) == (one == other)


@given(texts, texts)
def test_a_prefix_stays_a_prefix(start: str, rest: str) -> None:
    assert codec.encode_text(start + rest).startswith(codec.encode_text(start))


class Name(StrEnum):
    """Text of another type, as programs have it for sources and roles."""

    PLAIN = "plain"
    ODD = "nul \x00, half \udc80, mark \ufdd0"


@pytest.mark.parametrize("name", Name)
def test_text_of_other_types_is_encoded_as_text(name: Name) -> None:
    encoded = codec.encode_params([name])
    assert encoded == codec.encode_params([name.value])
    assert codec.decode_row(encoded) == (name.value,)


@given(st.lists(st.one_of(texts, st.none(), st.integers(), st.floats(allow_nan=False))))
def test_rows_come_back(row: list[Any]) -> None:
    assert list(codec.decode_row(codec.encode_params(row))) == row


@given(st.lists(st.lists(st.none() | st.integers() | texts, min_size=1, max_size=3), max_size=3))
def test_many_rows_come_back(rows: list[list[Any]]) -> None:
    stored = [codec.encode_params(row) for row in rows]
    assert [list(row) for row in codec.decode_rows(stored)] == rows


@given(st.one_of(st.none(), texts, st.binary(), structures))
def test_content_comes_back(content: Any) -> None:
    column, content_type = codec.encode_content(content)
    assert column is None or isinstance(column, str)
    read = codec.decode_content(column, content_type)
    assert read == content
    assert type(read) is type(content)


@given(structures)
def test_json_is_not_escaped(structure: Any) -> None:
    text = codec.to_json(structure)
    assert json.loads(text) == structure
    assert "\\u" not in text.replace("\\\\", "") or any(ord(c) < 32 for c in _characters(structure))


def _characters(value: Any) -> str:
    if isinstance(value, dict):
        return "".join(map(_characters, [*value, *value.values()]))
    return "".join(map(_characters, value)) if isinstance(value, list) else str(value)


@pytest.mark.parametrize(
    ("content", "read"),
    [(5, "5"), (2.5, "2.5"), (True, "1"), (False, "0"), ((1, "a"), [1, "a"]), ({1}, "{1}")],
)
def test_other_content_becomes_text_or_a_list(content: Any, read: Any) -> None:
    assert codec.decode_content(*codec.encode_content(content)) == read


@pytest.mark.parametrize(("column", "kind"), [("[1, ", codec.JSON), ("?", codec.BASE64)])
def test_content_that_is_not_what_it_claims_comes_back_as_text(column: str, kind: str) -> None:
    assert codec.decode_content(column, kind) == column


@pytest.mark.parametrize("column", [None, "", "{broken", "[1"])
def test_unreadable_json_is_the_default(column: str | None) -> None:
    assert codec.from_json(column, "default") == "default"


@pytest.mark.parametrize("column", ["[1]", " [1]", "[1]\n", "\t[ 1 ] "])
def test_blanks_around_json_do_not_matter(column: str) -> None:
    assert codec.from_json(column, None) == [1]


@pytest.mark.parametrize("column", ["[1] [2]", "[1],", "nonsense", "\ufeff[1]"])
def test_more_than_one_value_is_not_json(column: str) -> None:
    assert codec.from_json(column, "default") == "default"


@pytest.mark.parametrize("text", ["\ufdd0", "\ufdd0zz", "a\ufdd012", "\ufdd0ABCD"])
def test_text_of_other_tools_is_left_alone(text: str) -> None:
    """Marks that this codec did not write are not mistaken for its own."""
    assert codec.decode_text(text) == text
