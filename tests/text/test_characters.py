"""The character tables match Python's."""

import re
import unicodedata

from hermes_sessions.text import characters
from hermes_sessions.text.normalisation import fold

WORD = re.compile(f"[{characters.WORD_START}]")
WORD_PART = re.compile(f"[{characters.WORD_PART}]")
CJK = re.compile(f"[{characters.CJK}]")
SYMBOL = re.compile(f"[{characters.SYMBOL}{characters.REGIONAL_INDICATOR}]")
EXTENDER = re.compile(f"[{characters.EXTENDER}]")
IGNORED = re.compile(f"[{characters.IGNORED}]")

#: Numbers in circles without a plain form stand alone, as signs do.
CIRCLED = {*range(0x24EB, 0x2500), *range(0x2776, 0x2794), *range(0x3248, 0x3250)}
#: Letters that are used as apostrophes and primes.
APOSTROPHES = {*range(0x2B9, 0x2C0), 0x2EE}


def known_category(character: str) -> str:
    """The category, as far as the tables can know it: newer characters count as unassigned."""
    is_old = unicodedata.ucd_3_2_0.category(character) != "Cn"
    if is_old or unicodedata.unidata_version == "14.0.0":
        return unicodedata.category(character)
    return "Cn"


def surviving(first: int, last: int) -> list[str]:
    """Known characters that folding leaves as they are: the only ones that tokens consist of."""
    return [
        character
        for character in map(chr, range(first, last + 1))
        if known_category(character) != "Cn" and fold(character) == character
    ]


def kind(character: str) -> str:
    kinds = [
        name
        for name, pattern in (("word", WORD), ("cjk", CJK), ("symbol", SYMBOL))
        if pattern.match(character)
    ]
    assert len(kinds) <= 1, f"U+{ord(character):04X} is {kinds}"
    return kinds[0] if kinds else ""


def expected_kind(character: str) -> str:
    category = known_category(character)
    if ord(character) in CIRCLED:
        return "symbol"
    if ord(character) in APOSTROPHES:
        return ""
    return {"L": "word", "N": "word", "S": "symbol"}.get(category[0], "")


def test_the_first_plane_is_classified_as_unicode_does():
    wrong = [
        f"U+{ord(character):04X}"
        for character in surviving(0x80, 0xFFFF)
        if kind(character) not in (expected_kind(character), "cjk")
    ]
    assert wrong == []


def test_every_cjk_block_is_cjk():
    scripts = ("CJK UNIFIED", "CJK RADICAL", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO")
    wrong = [
        f"U+{ord(character):04X}"
        for character in surviving(0x80, 0x323AF)
        if unicodedata.name(character, "").startswith(scripts)
        and "MARK" not in unicodedata.name(character)
        and kind(character) != "cjk"
    ]
    # Double hyphen and middle dot separate, as punctuation does.
    assert wrong == ["U+30A0", "U+30FB"]


def test_only_letters_numbers_and_radicals_are_cjk():
    categories = {
        known_category(character)
        for character in surviving(0x80, 0xFFFF)
        if kind(character) == "cjk"
    }
    assert categories == {"Lo", "Lm", "Nl", "So"}


def test_beyond_the_first_plane_letters_are_words_and_pictures_are_symbols():
    wrong = []
    for character in surviving(0x10000, 0x1FFFF):
        category = known_category(character)
        if category[0] == "L" and kind(character) not in ("word", "cjk"):
            wrong.append(f"U+{ord(character):04X}")
        if category == "So" and ord(character) >= 0x1F000 and kind(character) != "symbol":
            wrong.append(f"U+{ord(character):04X}")
    assert wrong == []


def test_every_mark_continues_words_and_extends_what_it_stands_on():
    for character in map(chr, range(0x80, 0x1FFFF)):
        if known_category(character)[0] == "M":
            assert EXTENDER.match(character), f"U+{ord(character):04X}"
            if ord(character) < 0x10000:
                assert WORD_PART.match(character), f"U+{ord(character):04X}"
                assert not WORD.match(character), f"U+{ord(character):04X}"


def test_whatever_normalisation_joins_to_the_character_before_it_extends_it():
    befores = [
        (before, unicodedata.normalize("NFKC", before))
        for before in "aか가각가ㄱㅏﾊｶ=αик\u09c7\u0bc6\u0cc6\u0d46\u0dd9\u1025\U00011131\U000114b9"
    ]
    joining = {
        f"U+{ord(character):04X}"
        for character in map(chr, range(0x80, 0x20000))
        if not unicodedata.is_normalized("NFKC", "a" + character)
        or unicodedata.combining(character)
        or known_category(character) in ("Lo", "Mc")
        for before, alone in befores
        if unicodedata.normalize("NFKC", before + character)
        != alone + unicodedata.normalize("NFKC", character)
        and not EXTENDER.match(character)
    }
    assert joining == set()


def test_no_ascii_character_is_ignored_or_extends():
    for character in map(chr, range(0x80)):
        assert not IGNORED.match(character)
        assert not EXTENDER.match(character)
