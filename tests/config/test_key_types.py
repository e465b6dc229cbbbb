from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_sessions.config.derived_keys import KEYS, Key
from hermes_sessions.config.key_types import (
    Choice,
    FilePath,
    NotAllowed,
    ParseContext,
    Seconds,
    Size,
    WholeNumber,
)

HERE = ParseContext(Path("/home/ada/.hermes"), {"HOME": "/home/ada"})
SIZE = Size(at_least=1024, at_most=1024**3)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("8388608", 8388608),
        ("8_388_608", 8388608),
        ("8MB", 8388608),
        ("8 MiB", 8388608),
        ("8m", 8388608),
        ("8192 kb", 8388608),
        (" 2048B ", 2048),
        ("1GB", 1024**3),
        ("1024", 1024),
    ],
)
def test_sizes(text: str, expected: int) -> None:
    assert SIZE.parse(text, HERE) == expected


@pytest.mark.parametrize(
    "text",
    ["", "MB", "8TB", "8 M B", "-8MB", "1.5MB", "1023", "1025MB", "0x10", "8__0", "९MB", "9" * 40],
)
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(NotAllowed):
        SIZE.parse(text, HERE)


@given(st.integers(1024, 1024**3))
def test_a_shown_size_is_read_back(size: int) -> None:
    assert SIZE.parse(SIZE.show(size), HERE) == size
    assert SIZE.parse(str(size), HERE) == size
    assert SIZE.parse(f"{size:_}", HERE) == size


@given(st.integers(1, 1024), st.sampled_from(["KB", "MB", "kib", "K", " m"]))
def test_units_multiply(count: int, unit: str) -> None:
    factor = 1024 if "k" in unit.lower() else 1024**2
    assert SIZE.parse(f"{count}{unit}", HERE) == count * factor


@pytest.mark.parametrize("text", ["full", "FULL", " Full\n"])
def test_choices_are_read_in_any_case(text: str) -> None:
    assert Choice(("full", "normal")).parse(text, HERE) == "full"


@pytest.mark.parametrize("text", ["", "ful", "full normal", "full,normal"])
def test_other_words_are_refused(text: str) -> None:
    with pytest.raises(NotAllowed):
        Choice(("full", "normal")).parse(text, HERE)


@pytest.mark.parametrize(("text", "expected"), [("0", 0), ("+7", 7), ("1_000", 1000), (" 3 ", 3)])
def test_whole_numbers(text: str, expected: int) -> None:
    assert WholeNumber(at_least=0, at_most=1000).parse(text, HERE) == expected


@pytest.mark.parametrize("text", ["", "-1", "1001", "1.0", "1e2", "true", "٣", "9" * 5000])
def test_what_is_no_whole_number_is_refused(text: str) -> None:
    with pytest.raises(NotAllowed):
        WholeNumber(at_least=0, at_most=1000).parse(text, HERE)


@pytest.mark.parametrize(
    ("text", "expected"), [("16", 16.0), ("0.5", 0.5), ("2.", 2.0), ("1e-3", 0.001), ("60", 60.0)]
)
def test_seconds(text: str, expected: float) -> None:
    assert Seconds(at_most=60).parse(text, HERE) == expected


@pytest.mark.parametrize(
    "text", ["", "0", "-1", "61", "inf", "nan", "1e999", "1e-999", "16s", "1:30", "0x10", "1_0"]
)
def test_what_is_no_time_span_is_refused(text: str) -> None:
    with pytest.raises(NotAllowed):
        Seconds(at_most=60).parse(text, HERE)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/var/lib/store.db", "/var/lib/store.db"),
        ("~/store.db", "/home/ada/store.db"),
        ("store.db", "/home/ada/.hermes/store.db"),
        ("data/ä b.db", "/home/ada/.hermes/data/ä b.db"),
    ],
)
def test_paths(text: str, expected: str) -> None:
    assert FilePath().parse(text, HERE) == Path(expected)


@pytest.mark.parametrize("text", ["", "  ", "a\0b", "a\ud800b", "sqlite:///a.db"])
def test_what_is_no_path_is_refused(text: str) -> None:
    with pytest.raises(NotAllowed):
        FilePath().parse(text, HERE)


@given(st.text(), st.sampled_from(KEYS))
def test_any_text_is_a_value_or_not_allowed(text: str, key: Key) -> None:
    if text.strip().startswith("~"):
        text = "x" + text
    try:
        value = key.kind.parse(text, HERE)
    except NotAllowed:
        return
    assert key.kind.parse(key.kind.show(value), HERE) == value
