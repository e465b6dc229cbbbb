"""Titles: cleaning, and numbered families."""

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_sessions.errors import InvalidTitle
from hermes_sessions.model.title import (
    MAX_TITLE_LENGTH,
    family_key,
    next_in_family,
    sanitize_title,
    split_number,
)

invisible = "\x00\x07\x1f\x7f\x80\x9b\x9f\u200b\u200f\u2028\u202e\u2060\u2069\ufeff\ufff9\ufffc"
blanks = " \t\n\r\u0085\u00a0\u2003\u3000"
texts = st.text(st.one_of(st.sampled_from(invisible + blanks), st.characters(codec=None)))
names = st.text(st.sampled_from("aAbBéÉ# 1"), min_size=1, max_size=6)
titles = st.builds(
    lambda base, number: base if number is None else f"{base} #{number}",
    names,
    st.one_of(st.none(), st.integers(0, 10**6)),
)


@given(texts)
def test_cleaning_again_changes_nothing(text: str) -> None:
    cleaned = cleaned_or_none(text)
    if cleaned is not None:
        assert sanitize_title(cleaned) == cleaned
        assert 0 < len(cleaned) <= MAX_TITLE_LENGTH


@given(texts)
def test_a_clean_title_is_one_line_of_visible_text(text: str) -> None:
    cleaned = cleaned_or_none(text)
    if cleaned is not None:
        assert not set(cleaned) & set(invisible + blanks) - {" "}
        assert "  " not in cleaned
        assert cleaned == cleaned.strip()
        assert all(unicodedata.category(c) != "Cc" for c in cleaned)


@given(texts)
def test_cleaning_keeps_what_is_visible(text: str) -> None:
    cleaned = cleaned_or_none(text)
    if cleaned is not None:
        gone = r"[\x00-\x20\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffc]|\s"
        assert re.sub(gone, "", cleaned) == re.sub(gone, "", text)


def cleaned_or_none(text: str) -> str | None:
    try:
        return sanitize_title(text)
    except InvalidTitle:
        return None


@pytest.mark.parametrize("surplus", [1, 5, 1_000])
def test_a_title_that_is_too_long(surplus: int) -> None:
    length = MAX_TITLE_LENGTH + surplus
    with pytest.raises(InvalidTitle, match=rf"{length} .*{MAX_TITLE_LENGTH}"):
        sanitize_title("x" * length)


@given(names, st.integers(0, 10**9))
def test_a_number_can_be_split_off(base: str, number: int) -> None:
    assert split_number(f"{base} #{number}") == (base, number)


@pytest.mark.parametrize(
    "title", ["P", "P #", "P #x", "P#2", "P # 2", "P #2 ", "P #-1", "P #٢", ""]
)
def test_what_is_no_number(title: str) -> None:
    assert split_number(title) == (title, None)


@given(titles, st.lists(titles, max_size=8))
def test_the_next_title_is_free(title: str, stored: list[str]) -> None:
    assert next_in_family(title, stored) not in stored


@given(titles, st.lists(titles, max_size=8))
def test_the_next_title_stays_in_the_family(title: str, stored: list[str]) -> None:
    following = next_in_family(title, stored)
    assert following.startswith(split_number(title)[0])
    if any(family_key(other) == family_key(title) for other in stored):
        numbers = [
            split_number(other)[1] or 1
            for other in stored
            if family_key(other) == family_key(title)
        ]
        assert split_number(following)[1] == max(numbers) + 1
    else:
        assert following == split_number(title)[0]


@given(st.lists(names, min_size=1, max_size=10))
def test_a_family_counts_up(bases: list[str]) -> None:
    """Whoever asks, in whatever case, gets the next number."""
    base = split_number(bases[0])[0] or "x"
    stored = [base]
    for _ in bases:
        stored.append(next_in_family(stored[-1], stored))
    assert stored == [base, *(f"{base} #{number}" for number in range(2, len(bases) + 2))]


@given(titles)
def test_only_ascii_letters_are_folded(title: str) -> None:
    assert family_key(title) == family_key(re.sub("[a-z]", lambda m: m[0].upper(), title))
    if "é" in title:
        assert family_key(title) != family_key(title.replace("é", "É"))
