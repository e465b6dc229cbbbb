"""Long text in parts: everything arrives, everything fits, blocks of code stay blocks."""

from typing import Literal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from hermes_sessions.errors import InvalidInput
from hermes_sessions.gateway.platforms.port import Limits
from hermes_sessions.gateway.platforms.text_splitter import cut, find_fences, measure, split
from hermes_sessions.text.characters import cluster_start

UNITS: tuple[Literal["characters", "utf16", "bytes"], ...] = ("characters", "utf16", "bytes")
FAMILY = "👩‍👩‍👧‍👦"

words = st.text(
    st.sampled_from("abcdefgh.,!? äß漢字。" + "é👍🏽🇩🇪\u0301" + FAMILY), min_size=1, max_size=40
).filter(str.strip)
prose = st.lists(words, min_size=1, max_size=12).map(" ".join)
code_line = st.text(st.sampled_from("abc(){} =:\t漢👍"), max_size=60)
code = st.tuples(
    st.sampled_from(["```", "````", "~~~"]),
    st.sampled_from(["", "python", "c++", "js title=x"]),
    st.lists(code_line, min_size=1, max_size=15),
).map(lambda block: "\n".join((block[0] + block[1], *block[2], block[0])))
documents = st.lists(st.one_of(prose, code), min_size=1, max_size=6).map("\n\n".join)
anything = st.text(
    st.one_of(st.characters(), st.sampled_from("```~~~ \n\n\n.!?\ud83d\ude00" + FAMILY)),
    max_size=600,
)
limits = st.integers(16, 200)
units = st.sampled_from(UNITS)


def fit(parts: list[str], limit: int, unit: Literal["characters", "utf16", "bytes"]) -> bool:
    sizes = {"characters": len, "utf16": utf16, "bytes": lambda text: len(encoded(text))}
    return all(sizes[unit](part) <= limit for part in parts)


def utf16(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


@given(anything, limits, units)
@example("`" * 600, 16, "characters")
@example("```" + "a" * 600, 40, "utf16")
@example("```\n" * 100, 30, "characters")
@example("~~~\n" + "\n" * 300 + "a", 30, "bytes")
@example("\u0301" * 300, 16, "bytes")
@example("\ud83d\ude00" * 100, 17, "utf16")
def test_every_part_fits_and_nothing_is_lost(
    text: str, limit: int, unit: Literal["characters", "utf16", "bytes"]
) -> None:
    fences = find_fences(text)
    parts = list(cut(text, limit, unit))
    assert fit([part.text for part in parts], limit, unit)
    at = 0
    for part in parts:
        dropped = text[at : part.start]
        if dropped.strip():  # only the end of a block, which the part before brought itself
            assert any(at <= fence.closing < fence.end <= part.start for fence in fences)
            assert set(dropped.strip()) <= {"`", "~"}
        assert text[part.start : part.end] in part.text
        assert part.text.strip()
        at = part.end
    assert set(text[at:].strip()) <= {"`", "~"}


@given(documents, st.integers(60, 200), units)
def test_blocks_of_code_are_closed_and_opened_again(
    text: str, limit: int, unit: Literal["characters", "utf16", "bytes"]
) -> None:
    """Judged by a Markdown parser that knows nothing of ours."""
    parts = [part.text for part in cut(text, limit, unit)]
    assert fit(parts, limit, unit)
    for part in parts:
        assert all(fence.closing < fence.end for fence in find_fences(part))
    assert "".join(code_in(text).split()) == "".join("".join(map(code_in, parts)).split())
    for part in parts:
        for language in languages_in(part):
            assert language in {"", "python", "c++", "js", "js title=x"}


def code_in(text: str) -> str:
    return "".join(token.content for token in MarkdownIt().parse(text) if token.type == "fence")


def languages_in(text: str) -> list[str]:
    return [token.info for token in MarkdownIt().parse(text) if token.type == "fence"]


@given(documents, limits, units)
def test_the_same_text_is_always_cut_in_the_same_places(
    text: str, limit: int, unit: Literal["characters", "utf16", "bytes"]
) -> None:
    assert list(cut(text, limit, unit)) == list(cut(text, limit, unit))


@given(prose, st.integers(30, 60), units)
def test_visible_characters_stay_whole(
    text: str, limit: int, unit: Literal["characters", "utf16", "bytes"]
) -> None:
    for part in cut(text, limit, unit):
        start = cluster_start(text, part.end)
        # Unless one alone is longer than all that fits.
        assert start == part.end or start <= part.start


@given(st.text(max_size=100), units)
def test_measures_agree_with_the_encoders(
    text: str, unit: Literal["characters", "utf16", "bytes"]
) -> None:
    expected = {"characters": len(text), "utf16": utf16(text), "bytes": len(encoded(text))}
    assert measure(text, unit) == expected[unit]


def test_what_fits_is_left_as_it_is() -> None:
    text = "  ```\nnever closed  \n"
    assert split(text, Limits(text=len(text))) == [text]


def test_what_shows_nothing_is_not_sent() -> None:
    assert split("", Limits(text=100)) == []
    assert split(" \n\t ", Limits(text=100)) == []
    assert split("a" + "\n" * 300 + "b", Limits(text=100)) == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("First one.\n\nSecond one.\nThird.", ["First one.", "Second one.\nThird."]),
        ("A first line\nand the second", ["A first line", "and the second"]),
        ("A sentence. Another one here.", ["A sentence.", "Another one here."]),
        ("words without any end at all", ["words without any", "end at all"]),
        (
            "これは文です。これも文です。そしてこれも文です。",
            ["これは文です。これも文です。", "そしてこれも文です。"],
        ),
        ("a" * 30, ["a" * 20, "a" * 10]),
        ("- one two three\n  - inner point", ["- one two three", "  - inner point"]),
        ("so " + "x" * 19 + " it", ["so", "x" * 19, "it"]),
    ],
)
def test_cuts_are_made_where_a_reader_pauses(text: str, parts: list[str]) -> None:
    assert split(text, Limits(text=20)) == parts


def test_a_block_that_is_cut_goes_on_in_its_language() -> None:
    text = "See:\n```python title=a\none = 1\ntwo = 2\nthree = 3\n```\nDone."
    assert split(text, Limits(text=45)) == [
        "See:\n```python title=a\none = 1\ntwo = 2\n```",
        "```python\nthree = 3\n```\nDone.",
    ]


def test_a_block_that_fits_into_the_next_part_stays_whole() -> None:
    text = "Some words to begin with.\n\n```\nfirst\nsecond\n```"
    assert split(text, Limits(text=36)) == [
        "Some words to begin with.",
        "```\nfirst\nsecond\n```",
    ]


def test_fences_in_lists_keep_their_indentation() -> None:
    text = "1. Run\n   ```sh\n   echo 1\n   echo 2\n   echo 3\n   ```"
    first, second = split(text, Limits(text=44))
    assert first.endswith("\n   ```")
    assert second.startswith("   ```sh\n   echo")


def test_a_longer_fence_holds_shorter_ones() -> None:
    text = "````md\n```\nx\n```\n````\nafter"
    (fence,) = find_fences(text)
    assert text[fence.inside : fence.closing] == "```\nx\n```\n"


def test_a_surrogate_pair_counts_as_two_and_is_not_cut() -> None:
    parts = split("😀" * 20, Limits(text=17, length_unit="utf16"))
    assert parts == ["😀" * 8, "😀" * 8, "😀" * 4]


def test_halves_of_a_character_stay_together() -> None:
    pairs = "\ud83d\ude00" * 20
    assert split(pairs, Limits(text=17)) == [pairs[:16], pairs[16:32], pairs[32:]]


def test_a_limit_for_nothing_is_refused() -> None:
    with pytest.raises(InvalidInput, match="at least 16"):
        split("text", Limits(text=15))
