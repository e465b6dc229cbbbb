"""Ranking: what makes a match score higher, decided on the texts alone."""

from __future__ import annotations

import pytest

from hermes_sessions.text.query.parser import parse
from hermes_sessions.text.query.relaxation import steps
from hermes_sessions.text.query.tree import Forms, words_of
from hermes_sessions.text.relevance import Match, question_in, scores


def match(text: str, *, session: str = "s", ordinal: int = 1, title: str = "") -> Match:
    return Match(
        [text],
        title=title,
        source="cli",
        role="user",
        timestamp=0.0,
        session_id=session,
        ordinal=ordinal,
    )


def wanted(query: str) -> list[Forms]:
    """The words of the query's loosest step of whole words; the last step looks inside words."""
    node = parse(query).node
    assert node is not None
    return words_of(list(steps(node))[-2][1])


def best(query: str, *texts: str) -> str:
    """The text that ranks first; each is the only message of its session."""
    matches = [match(text, session=text) for text in texts]
    points = scores(matches, wanted(query), question_in(query))
    return texts[points.index(max(points))]


def test_all_forms_of_a_word_count_as_one() -> None:
    # "decision" and "decided" are forms of one word, so the first text has one of two words.
    one = "a decision was decided, deciding decisions"
    assert best("decide report", one, "we decide on the report", "x", "y") != one


def test_forms_are_not_rare_words_of_their_own() -> None:
    texts = ["deployed", "deploying", "deploys", "deployment", "a zebra"]
    assert best("deploy zebra", *texts) == "a zebra"


def test_words_count_whole() -> None:
    assert best("art zebra", "start the party, smart", "some art here") == "some art here"


def test_parts_of_compound_words_count() -> None:
    assert best("query zebra", "see parseQuery", "nothing of it") == "see parseQuery"


def test_a_match_lifts_the_messages_around_it() -> None:
    asked = match("Which kettle did the zeppelin need?", ordinal=4)
    answer = match("a kettle of brass", ordinal=5)
    elsewhere = match("a kettle of steel", session="other", ordinal=5)
    far = match("a kettle of brass", ordinal=40)
    points = scores([asked, answer, elsewhere, far], wanted("kettle zeppelin"))
    assert points[1] > points[3] > points[2]


def test_a_session_that_repeats_a_word_does_not_lift_itself() -> None:
    noise = [match("kettle", session="noise", ordinal=n) for n in range(3)]
    points = scores([*noise, match("kettle", session="quiet", ordinal=7)], wanted("kettle"))
    assert len(set(points)) == 1


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("when did the kettle break", "the kettle broke last week"),
        ("kettle break", "the kettle broke, it was a kettle"),
    ],
)
def test_questions_for_a_time_prefer_texts_with_one(query: str, first: str) -> None:
    others = {"the kettle broke last week", "the kettle broke, it was a kettle"}
    assert best(query, *sorted(others)) == first


def test_an_answer_ranks_before_the_same_question() -> None:
    question, answer = "where is the kettle?", "where the kettle is: upstairs"
    assert best("where is the kettle?", question, answer) == answer
    assert best("kettle where", question, answer) == question


@pytest.mark.parametrize(
    ("text", "is_one", "is_plain"),
    [
        ("what broke the build", True, True),
        ("the build broke again yesterday", False, True),
        ("build broke", False, False),
        ("the build broke?", True, True),
        ("docker run -it alpine sh", False, False),
        ("what is in /etc/hosts", False, False),
        ("one two OR three four", False, False),
        ("", False, False),
    ],
)
def test_plain_language_is_recognised(text: str, is_one: bool, is_plain: bool) -> None:
    found = question_in(text)
    assert (found.is_one, found.is_plain) == (is_one, is_plain)
