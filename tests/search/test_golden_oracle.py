"""The golden set itself: whole, various, and read by the parser as it was meant."""

import ast
import math
import unicodedata
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from hermes_sessions.text.query.parser import parse
from tests.search.golden import oracle
from tests.search.golden.corpus import FILES, NOW, Message, Session, findable, sessions
from tests.search.golden.ndcg import ndcg
from tests.search.golden.normal_form import comparable, filters_of, meaning_of
from tests.search.golden.queries import (
    GoldenQuery,
    compute_expectations,
    queries,
    questions,
    stored_expectations,
)

DAY = 86400.0
KINDS = sorted({item.kind for item in queries()})
MESSAGES = {message.id: message for session in sessions() for message in session.messages}
FINDABLE = {message.id for _, message in findable()}
# The classes that the set must have; more are welcome.
WANTED_KINDS = set(
    """
    words all-words phrases or and not dash prefix groups infix punctuated paths e-mail urls
    versions hashes identifiers apostrophes percent emoji options tools structured cjk-1 cjk-2
    cjk-3 cjk-4 cjk-5 cjk-logic cjk-phrases cjk-star mixed-script width kana korean accents
    german-turkish cyrillic greek other-scripts source role tool dates in model session user has
    parameters sorted broken engine injection titles
    """.split()
)


def queries_of(kind: str) -> list[GoldenQuery]:
    return [item for item in queries() if item.kind == kind]


# ── corpus ────────────────────────────────────────────────────────────────────────────────────


def test_the_corpus_is_large_enough_and_small_enough() -> None:
    assert len(sessions()) >= 60
    assert 400 <= len(MESSAGES) <= 700
    assert sum(path.stat().st_size for path in FILES) < 400_000


def test_ids_are_unique_and_parents_come_first() -> None:
    seen: set[str] = set()
    for session in sessions():
        assert session.id not in seen
        assert session.parent is None or session.parent in seen
        seen.add(session.id)
    assert len(MESSAGES) == sum(len(session.messages) for session in sessions())


def test_times_follow_each_other_and_span_two_years() -> None:
    for session in sessions():
        times = [session.started, *(message.at for message in session.messages)]
        assert times == sorted(set(times)), session.id
    starts = [session.started for session in sessions()]
    assert max(message.at for message in MESSAGES.values()) < NOW
    assert max(starts) - min(starts) > 700 * DAY


def test_the_corpus_has_everything_that_can_go_wrong() -> None:
    everything = sessions()
    assert len({session.source for session in everything}) >= 7
    assert len({session.model for session in everything}) >= 5
    assert len({session.user for session in everything if session.user}) >= 5
    assert any(session.user is None for session in everything)
    assert {session.edge for session in everything} >= {"compression", "branch", "subagent", None}
    assert {session.title is None for session in everything} == {True, False}
    assert sum(session.archived for session in everything) >= 2
    assert sum(session.trashed for session in everything) >= 2
    assert sum(session.source == "cron" for session in everything) >= 4
    assert {message.role for message in MESSAGES.values()} == {"user", "assistant", "tool"}
    assert sum(message.rewound for message in MESSAGES.values()) >= 4
    assert any(isinstance(message.content, list) for message in MESSAGES.values())
    assert any(message.content is None and message.tool_calls for message in MESSAGES.values())


@pytest.mark.parametrize(
    "script",
    [
        "ARABIC",
        "CJK",
        "CYRILLIC",
        "DEVANAGARI",
        "FULLWIDTH",
        "GREEK",
        "HALFWIDTH",
        "HANGUL",
        "HEBREW",
        "HIRAGANA",
        "KATAKANA",
        "LATIN",
        "REGIONAL",
        "THAI",
    ],
)
def test_the_corpus_has_script(script: str) -> None:
    having = [m.id for m in MESSAGES.values() if any(_is(script, c) for c in str(m.content))]
    assert having


def _is(script: str, char: str) -> bool:
    return unicodedata.name(char, "").startswith(script)


def test_some_text_is_composed_and_some_is_not() -> None:
    everything = [str(message.content) for message in MESSAGES.values()]
    assert any("café" in text for text in everything)
    assert any("cafe\u0301" in text for text in everything)


# ── queries ───────────────────────────────────────────────────────────────────────────────────


def test_there_are_enough_queries_of_every_class() -> None:
    assert len(queries()) + len(questions()) >= 320
    counted = Counter(item.kind for item in queries())
    assert set(counted) >= WANTED_KINDS
    assert min(counted.values()) >= 5
    assert len({item.id for item in queries()}) == len(queries())


def test_stored_expectations_are_what_the_oracle_computes() -> None:
    """After a change of corpus or queries: ``python -m tests.search.golden.queries``."""
    assert stored_expectations() == compute_expectations()


def test_the_oracle_knows_nothing_of_the_analysis_it_checks() -> None:
    tree = ast.parse(Path(oracle.__file__).read_text(encoding="utf-8"))
    imported = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    imported += [
        a.name for node in ast.walk(tree) if isinstance(node, ast.Import) for a in node.names
    ]
    assert not [name for name in imported if name and name.startswith("hermes_sessions")]


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_person_would_expect_is_expected(kind: str) -> None:
    """Chosen by hand, so that a mistake of the oracle does not go unnoticed."""
    wrong = {}
    for item in queries_of(kind):
        found = set(stored_expectations()[item.id])
        assert set(item.hits) <= FINDABLE, item.id
        wrong[item.id] = (sorted(set(item.hits) - found), sorted(set(item.near) & found))
        assert set(item.titles) <= set(oracle.expected_by_title(item.means, item.where)), item.id
    assert {name: both for name, both in wrong.items() if any(both)} == {}


def test_most_classes_have_true_hits_and_near_misses() -> None:
    hits = {item.kind for item in queries() if item.hits or item.titles}
    near = {item.kind for item in queries() if item.near}
    assert hits == set(KINDS)
    assert len(near) >= 0.8 * len(KINDS)


@pytest.mark.parametrize("item", [i for i in queries() if i.near], ids=lambda item: item.id)
def test_near_misses_are_near(item: GoldenQuery) -> None:
    for name in item.near:
        message = MESSAGES[name]
        whole = oracle.folded(" ".join(oracle.texts(message)))
        pieces = [piece for term in _terms(item.means) for piece in _pieces(term)]
        assert not pieces or any(piece in whole for piece in pieces), name


def _terms(means: oracle.Means) -> list[str]:
    if means is None or isinstance(means, str):
        return [] if means is None else [means]
    ((_, value),) = means.items()
    return [
        term for child in (value if isinstance(value, list) else [value]) for term in _terms(child)
    ]


def _pieces(term: str) -> set[str]:
    """Return what a near miss of a term has at least one of: three letters in a row, or a
    character of a script that needs no more.
    """
    found = set()
    for unit in oracle.units(term):
        size = 1 if unit.kind == "run" else min(3, len(unit.text))
        found |= {unit.text[i : i + size] for i in range(len(unit.text) - size + 1)}
    return found


@pytest.mark.parametrize("item", [i for i in queries() if i.where], ids=lambda item: item.id)
def test_dates_mean_the_same_in_every_time_zone(item: GoldenQuery) -> None:
    for condition in item.where:
        name, value = condition.removeprefix("-").split(":", 1)
        if name in ("before", "after") and not value.endswith(("h", "d", "w")):
            moment = oracle.moment(value)
            assert min(abs(message.at - moment) for message in MESSAGES.values()) > DAY


# ── what the parser reads ─────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", KINDS)
def test_the_parser_reads_what_is_meant(kind: str) -> None:
    read, meant = {}, {}
    for item in queries_of(kind):
        query = parse(item.query)
        read[item.id] = (comparable(meaning_of(query.node)), sorted(filters_of(query)))
        meant[item.id] = (comparable(item.means), sorted(_typed_filters(item)))
    assert read == meant


def _typed_filters(item: GoldenQuery) -> list[str]:
    """Return the conditions that are in the text, not in parameters."""
    given: list[str] = []
    for name, sign, parameter in (
        ("source", "", "source_filter"),
        ("source", "-", "exclude_sources"),
        ("role", "", "role_filter"),
    ):
        given += [f"{sign}{name}:{value}" for value in item.params.get(parameter, [])]
    return list((Counter(item.where) - Counter(given)).elements())


@pytest.mark.parametrize("kind", KINDS)
def test_the_parser_says_what_it_mended(kind: str) -> None:
    mended = {item.id: bool(parse(item.query).repairs) for item in queries_of(kind)}
    assert mended == {item.id: item.repaired for item in queries_of(kind)}


def test_only_empty_queries_are_empty() -> None:
    assert {item.id for item in queries() if parse(item.query).is_empty} == {
        item.id for item in queries() if item.empty
    }


# ── questions ─────────────────────────────────────────────────────────────────────────────────


def test_there_are_enough_questions_and_every_judgement_can_be_met() -> None:
    assert len(questions()) >= 40
    assert len({question.id for question in questions()}) == len(questions())
    for question in questions():
        assert set(question.relevant) <= FINDABLE, question.id
        assert set(question.relevant.values()) <= {1, 2, 3}
        assert 3 in question.relevant.values()


def test_the_parser_reads_a_question_as_its_words() -> None:
    for question in questions():
        query = parse(question.query)
        words: Any = {"and": question.query.split()}
        meant = words if len(words["and"]) > 1 else question.query
        assert comparable(meaning_of(query.node)) == comparable(meant), question.id
        assert not query.repairs, question.id


def test_most_questions_need_more_than_a_strict_match() -> None:
    """Otherwise they would say nothing about relaxed matching."""
    strict = [q for q in questions() if oracle.expected({"and": q.query.split()}, [])]
    assert len(strict) < len(questions()) / 4


def test_ndcg() -> None:
    relevant = {"a": 3, "b": 2, "c": 1}
    assert ndcg(["a", "b", "c"], relevant) == pytest.approx(1)
    assert ndcg(["a", "a", "b", "c", "x"], relevant) == pytest.approx(1)
    assert ndcg(["x", "y"], relevant) == 0
    assert ndcg([], relevant) == 0
    assert ndcg(["b", "a", "c"], relevant) < 1
    assert ndcg(["x"] * 10 + ["a"], {"a": 3}) == pytest.approx(1 / math.log2(3))
    assert ndcg([*"abcdefghij", "z"], {"z": 3}) == 0


# ── the oracle ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("means", "text", "found"),
    [
        ("base events", "base_events.py", True),
        ("base", "database", False),
        ("query", "parseQuery", True),
        ("parse query", "parseQuery", False),
        ("据库", "数据库设计", True),
        ("数据 设计", "数据库设计", False),
        ("使用kubernetes", "我们使用Kubernetes部署", True),
        ("か", "が", False),
        ("strasse", "Straße", True),
        ("cafe", "cafe\u0301", True),
        ("👍", "👍🏽", True),
        ("👍🏽", "👍", False),
        ({"prefix": "deploy"}, "redeployed", False),
        ({"inside": "deploy"}, "redeployed", True),
        ({"and": ["a", {"not": "b"}]}, "a c", True),
        ({"and": ["a", {"not": "b"}]}, "a b", False),
        ({"or": ["x", "b"]}, "a b", True),
    ],
)
def test_the_oracle_by_example(means: oracle.Means, text: str, found: bool) -> None:
    assert oracle.matches(means, [text]) is found


def test_hidden_messages_are_expected_nowhere() -> None:
    found = {name for names in stored_expectations().values() for name in names}
    assert found <= FINDABLE
    hidden = [m for s in sessions() for m in s.messages if m.id not in FINDABLE]
    assert any(oracle.matches("docker", oracle.texts(message)) for message in hidden)
    assert any(oracle.matches("flamingo", oracle.texts(message)) for message in hidden)


def test_a_phrase_does_not_reach_from_one_text_of_a_message_into_the_next() -> None:
    call = {"function": {"name": "terminal", "arguments": "{}"}}
    message = Message("x", "assistant", 0.0, "ends here", tool_calls=[call])
    assert not oracle.matches("here terminal", oracle.texts(message))
    assert oracle.allowed(["tool:terminal"], Session("s", "cli", "m", 0.0), message)
