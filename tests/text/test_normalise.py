"""Folding: which texts become equal, and which must not."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_sessions.text.characters import cluster_pattern
from hermes_sessions.text.normalisation import fold, plain
from tests.text.strategies import any_text


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("Hello", "hELLO"),
        ("café", "CAFE\u0301"),
        ("Straße", "STRASSE"),
        ("ẞ", "ss"),
        ("İstanbul", "istanbul"),
        ("ﬁne", "fine"),
        ("Ångström", "angstrom"),
        ("Ａｐｉ１", "api1"),
        ("ｶﾞｷﾞ", "ガギ"),
        ("ﾊﾟﾝ", "パン"),
        ("か\u3099", "が"),
        ("\u1112\u1161\u11ab", "한"),
        ("Ὀδυσσεύς", "οδυσσευσ"),
        ("Ёлка", "елка"),
        ("Київ", "киів"),
        ("Łódź", "lodz"),
        ("cœur", "coeur"),
        ("Tiếng Việt", "tieng viet"),
        ("q\u0303", "q"),
        ("soft\u00adhyphen", "softhyphen"),
        ("می\u200cخواهم", "میخواهم"),
        ("ســـلام", "سلام"),
        ("❤\ufe0f", "❤"),
        ("葛\U000e0100", "葛"),
        ("１／２", "1/2"),
        ("…", "..."),
        ("µ", "μ"),
    ],
)
def test_spellings_of_the_same_are_equal(left, right):
    assert fold(left) == fold(right)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("が", "か"),
        ("パ", "ハ"),
        ("한", "하"),
        ("हिन्दी", "हनद"),
        ("שׁ", "ש"),
        ("≠", "="),
        ("ー", "-"),
        ("ð", "d"),
    ],
)
def test_different_things_stay_different(left, right):
    assert fold(left) != fold(right)


def test_signs_do_not_stick_to_the_word_beside_them():
    assert fold("Hermes™").split() == ["hermes", "tm"]
    assert fold("2½").split() == ["2", "1/2"]
    assert fold("①Install").split() == ["1", "install"]


def test_plain_keeps_case_only():
    assert plain("ParseＱueryÉ") == "ParseQueryE"


def test_stray_marks_vanish():
    assert fold("´ ¨ ゛").split() == []


def test_every_character_folds_to_something_stable():
    for number in range(0x30000):
        character = chr(number)
        folded = fold(character)
        assert fold(folded) == folded, f"U+{number:04X}"
        assert unicodedata.is_normalized("NFKC", folded), f"U+{number:04X}"


@given(any_text)
def test_folding_twice_changes_nothing_more(text):
    assert fold(fold(text)) == fold(text)


@given(any_text)
def test_the_result_is_composed(text):
    assert unicodedata.is_normalized("NFC", fold(text))


@given(any_text)
def test_composed_and_decomposed_input_give_the_same(text):
    assert fold(unicodedata.normalize("NFC", text)) == fold(text)
    assert fold(unicodedata.normalize("NFD", text)) == fold(text)


@given(any_text)
def test_plain_differs_from_fold_in_case_only(text):
    assert plain(text).casefold() == fold(text)


@given(any_text)
def test_clusters_fold_independently(text):
    clusters = [found[0] for found in cluster_pattern().finditer(text)]
    assert "".join(clusters) == text
    assert "".join(map(fold, clusters)) == fold(text)


@given(st.text(st.characters(max_codepoint=127)))
def test_ascii_folds_as_other_text_does(text):
    assert fold(text) == fold(text + "é")[:-1]
