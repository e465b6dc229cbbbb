"""Snippets: selection, markers, and safe cuts."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_sessions.text.characters import cluster_end, cluster_pattern, cluster_start
from hermes_sessions.text.snippet import cut_snippet, highlight, make_snippet
from hermes_sessions.text.tokenizer import spans
from tests.text.strategies import any_text

LONG = "The quick brown fox jumps over the lazy dog. " * 40


def find(text, *pieces):
    """The places of the first occurrences of pieces."""
    return [(text.index(piece), text.index(piece) + len(piece)) for piece in pieces]


def test_a_short_text_is_shown_whole():
    text = "how do I deploy with docker"
    assert make_snippet(text, find(text, "docker")) == "how do I deploy with >>>docker<<<"


def test_without_matches_the_start_is_shown():
    assert make_snippet(LONG, []) == LONG[:160] + "..."
    assert make_snippet("", []) == ""


def test_white_space_is_folded():
    text = "  one\n\n\ttwo \u3000 three  "
    assert make_snippet(text, find(text, "two")) == "one >>>two<<< three"


def test_folded_white_space_does_not_count():
    text = "start" + " " * 300 + "middle" + " " * 300 + "end"
    assert make_snippet(text, find(text, "middle")) == "start >>>middle<<< end"


def test_what_is_left_out_is_shown_by_dots():
    text = LONG + "needle " + LONG
    snippet = make_snippet(text, find(text, "needle"))
    assert re.fullmatch(r"\.\.\.\w.* >>>needle<<< .*[\w.]\.\.\.", snippet)
    assert 140 <= len(snippet) <= 160 + 12


def test_words_at_the_ends_are_whole():
    text = LONG + "needle " + LONG
    shown = make_snippet(text, find(text, "needle")).removeprefix("...").removesuffix("...")
    assert set(re.findall(r"\w+", shown)) <= set(re.findall(r"\w+", text))


def test_a_phrase_has_one_pair_of_markers_and_separate_words_have_their_own():
    text = "the lazy dog runs"
    assert make_snippet(text, find(text, "lazy dog")) == "the >>>lazy dog<<< runs"
    assert make_snippet(text, find(text, "lazy", "dog")) == "the >>>lazy<<< >>>dog<<< runs"


def test_touching_and_overlapping_matches_share_markers():
    text = "连接数据库失败"
    marks = [(2, 4), (3, 5), (5, 6)]
    assert make_snippet(text, marks) == "连接>>>数据库失<<<败"


def test_order_and_repetition_of_matches_do_not_matter():
    text = "a b c"
    assert make_snippet(text, [(4, 5), (0, 1), (4, 5)]) == ">>>a<<< b >>>c<<<"


def test_the_place_with_most_different_matches_is_shown():
    text = f"docker docker docker {LONG} docker with compose {LONG}"
    marks = [match.span() for match in re.finditer("docker|compose", text)]
    assert ">>>docker<<< with >>>compose<<<" in make_snippet(text, marks)


def test_the_first_of_equal_places_is_shown():
    text = f"docker one {LONG} docker two"
    marks = [match.span() for match in re.finditer("docker", text)]
    assert make_snippet(text, marks).startswith(">>>docker<<< one")


def test_a_match_longer_than_the_snippet_is_cut():
    text = LONG
    snippet = make_snippet(text, [(45, len(text) - 45)])
    assert snippet.startswith("...>>>The quick")
    assert snippet.endswith("<<<...")
    assert len(snippet) < 180


def test_matches_around_the_best_place_are_marked_too():
    text = "fox " + "x " * 30 + "fox fox " + "y " * 30 + "fox"
    marks = [match.span() for match in re.finditer("fox", text)]
    assert make_snippet(text, marks, width=160).count(">>>fox<<<") == 4


def test_width_is_a_choice():
    assert len(make_snippet(LONG, [], width=40)) <= 43


@pytest.mark.parametrize("mark", [(-1, 2), (3, 2), (2, 2), (0, 999)])
def test_places_outside_the_text_are_no_matches(mark):
    assert make_snippet("text", [mark]) == "text"


def test_text_without_blanks_is_cut_between_characters():
    text = "数据库连接失败，请检查配置。" * 40
    snippet = make_snippet(text, [(200, 203)])
    assert ">>>" + text[200:203] + "<<<" in snippet
    assert len(snippet) == 160 + 12


@pytest.mark.parametrize("unit", ["e\u0301", "👩\u200d💻", "👍🏽", "🇩🇪", "ｶﾞ", "\u1100\u1161"])
def test_nothing_is_cut_inside_a_character(unit):
    for extra in range(3):
        text = "x" * extra + unit * 300
        snippet = make_snippet(text, [(301, 302)], width=101)
        rest = snippet.replace(">>>", "").replace("<<<", "").strip(".").replace("x", "")
        assert rest == unit * (len(rest) // len(unit))
        assert f">>>{unit}<<<" in snippet


def test_a_huge_text_is_shown_in_part_only():
    text = ("word " * 1000 + "needle\n") * 200
    marks = [match.span() for match in re.finditer("needle", text)]
    assert make_snippet(text, marks).count(">>>needle<<<") == 1


def test_highlighting_keeps_the_text_as_it_is():
    text = "a  cafe\u0301\n(docker)"
    assert highlight(text, [(3, 7), (10, 16)]) == "a  >>>cafe\u0301<<<\n(>>>docker<<<)"
    assert highlight(text, []) == text


@given(any_text, st.data())
def test_a_snippet_is_a_piece_of_the_text(text, data):
    places = [(span.start, span.end) for span in spans(text)]
    marks = data.draw(st.lists(st.sampled_from(places))) if places else []
    width = data.draw(st.integers(5, 40))
    snippet = make_snippet(text, marks, width=width)
    bare = snippet.replace(">>>", "").replace("<<<", "")
    folded = re.sub(r"\s+", " ", text)
    assert any(
        candidate.strip() in folded
        for candidate in (bare, bare.removeprefix("..."), bare.removesuffix("..."), bare[3:-3])
    )
    if marks:
        assert ">>>" in snippet
    assert snippet.count(">>>") == snippet.count("<<<")


@given(any_text, st.data())
def test_spans_are_where_the_markers_are(text, data):
    offsets = st.integers(0, len(text))
    marks = data.draw(st.lists(st.tuples(offsets, offsets)))
    width = data.draw(st.integers(5, 40))
    snippet = cut_snippet(text, marks, width=width)
    marked = make_snippet(text, marks, width=width)
    for start, end in reversed(snippet.spans):
        inside = f">>>{snippet.text[start:end]}<<<"
        place = start + 6 * sum(other < start for other, _ in snippet.spans)
        assert marked[place : place + len(inside)] == inside
    assert len(marked) == len(snippet.text) + 6 * len(snippet.spans)


@given(any_text, st.data())
def test_highlighting_only_adds_markers(text, data):
    offsets = st.integers(0, len(text))
    marks = data.draw(st.lists(st.tuples(offsets, offsets)))
    highlighted = highlight(text, marks)
    assert highlighted.replace(">>>", "").replace("<<<", "") == text
    clusters = {0, *(found.end() for found in cluster_pattern().finditer(text))}
    place = 0
    for piece in re.split("(>>>|<<<)", highlighted):
        if piece in (">>>", "<<<"):
            assert place in clusters
        else:
            place += len(piece)


@given(any_text)
def test_clusters_are_found_from_any_place(text):
    for found in cluster_pattern().finditer(text):
        start, end = found.span()
        assert cluster_start(text, start) == cluster_end(text, start) == start
        for inside in range(start + 1, end):
            assert (cluster_start(text, inside), cluster_end(text, inside)) == (start, end)
