"""Any text, stored and asked: search never fails, finds what is there, and agrees with an oracle.

Written for every database; see `tests.search.stores`. A store serves all examples: each has a
session of its own.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from random import Random
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from hermes_sessions import SearchConditions, SessionDB
from hermes_sessions.text.query.matcher import TokenizedDocument, matches
from hermes_sessions.text.query.parser import MAX_LENGTH, parse
from hermes_sessions.text.query.tree import Query, Term, print_query, terms_of
from tests.search.golden import oracle
from tests.search.query_texts import any_query, tricky_queries
from tests.servers.stores import OpenStore
from tests.text.strategies import any_text

EVERYTHING = 1000
NOW = 1_800_000_000.0
_numbers = count()


@pytest.fixture(scope="module")
def db(open_store: OpenStore) -> Iterator[SessionDB]:
    with open_store(clock=lambda: NOW) as handle:
        yield handle


@contextmanager
def said(db: SessionDB, *texts: str) -> Iterator[tuple[SearchConditions, list[int]]]:
    """Store texts in a session of their own; give the filter that finds it alone, and their ids."""
    name = f"example-{next(_numbers)}"
    db.create_session(name, "cli")
    try:
        ids = db.append_messages(name, [{"role": "user", "content": text} for text in texts])
        yield SearchConditions(sessions=(name,)), ids
    finally:
        db.delete_session(name)


def found(db: SessionDB, query: str, conditions: SearchConditions, **options: Any) -> list[int]:
    answer = db.search(
        query, conditions=conditions, limit=EVERYTHING, **({"relax": False} | options)
    )
    assert answer.report.complete
    return [hit.id for hit in answer.hits]


# ── any text ──────────────────────────────────────────────────────────────────────────────────


@given(text=any_text, query=st.one_of(any_text, any_query))
def test_any_text_is_stored_and_any_text_is_a_query(db: SessionDB, text: str, query: str) -> None:
    """What is found is what the matcher says of the text itself."""
    with said(db, text, "something else") as (conditions, (stored, other)):
        read = parse(query)
        hits = found(db, query, conditions)
        db.search_messages(query)
        assert db.get_messages(conditions.sessions[0])[0]["content"] == text
        if read.node is not None and not read.filters:
            texts = {stored: text, other: "something else"}
            expected = {
                n for n, said in texts.items() if matches(read.node, TokenizedDocument([said]))
            }
            assert set(hits) == expected


@given(text=any_text)
def test_what_was_stored_is_found_by_its_own_words_and_as_a_whole(db: SessionDB, text: str) -> None:
    with said(db, text) as (conditions, ids):
        for word in text.split():
            read = parse(f'"{word}"')
            # Not what the quotes end, and not what has no letter, digit or sign in it.
            if isinstance(read.node, Term):
                assert found(db, f'"{word}"', conditions) == ids, word
                assert found(db, print_query(read), conditions, sort="newest") == ids, word
        if isinstance(parse(f'"{text}"').node, Term):
            (hit,) = db.search(f'"{text}"', conditions=conditions, relax=False).hits
            assert [hit.id] == ids
            assert hit.snippet.count(">>>") == text.count(">>>") + 1


@pytest.fixture(scope="module")
def foxes(db: SessionDB) -> SearchConditions:
    """The filter that finds three messages about foxes alone."""
    db.create_session("foxes", "cli")
    texts = ("the quick brown fox", "a Fox of 2024", "快速的狐狸 fox")
    db.append_messages("foxes", [{"role": "user", "content": text} for text in texts])
    return SearchConditions(sessions=("foxes",))


@given(query=any_query)
def test_relaxing_never_loses_what_is_found_as_asked(
    db: SessionDB, foxes: SearchConditions, query: str
) -> None:
    strict = found(db, query, foxes)
    relaxed = found(db, query, foxes, relax=True)
    if strict:
        assert relaxed == strict


@given(query=tricky_queries)
def test_orders_find_the_same(db: SessionDB, foxes: SearchConditions, query: str) -> None:
    by_time = found(db, query, foxes, sort="newest")
    assert found(db, query, foxes, sort="oldest") == by_time[::-1]
    assert sorted(found(db, query, foxes)) == sorted(by_time)


# ── questions with an oracle ──────────────────────────────────────────────────────────────────

WORDS = (
    "ant bee cat dog Ant BEE café cafe naïve base_events v1.2.3 a/b.py parseQuery query parse "
    "数据库 数据 据库设计 使用Docker部署 docker データ 데이터 🚀 👍🏽 don't 50% antbee и Привет"
).split()
#: What is asked beside the words themselves.
PIECES = ("an", "be", "数", "库", "部署", "docker部", "base", "1.2", "quer", "пр", "da", "👍")


def _sentences() -> list[str]:
    chosen = Random(57)
    return [
        chosen.choice(["", ", ", " "]) + " ".join(chosen.choices(WORDS, k=chosen.randint(1, 6)))
        for _ in range(150)
    ]


SENTENCES = _sentences()
Means = oracle.Means


def _term(words: list[str], kind: str) -> tuple[str, Means]:
    text = " ".join(words)
    if kind == "prefix":
        return f'"{text}"*', {"prefix": text}
    if kind == "inside":
        return f'*"{text}"*', {"inside": text}
    return f'"{text}"', text


terms = st.builds(
    _term,
    st.lists(st.sampled_from([*WORDS, *PIECES]), min_size=1, max_size=2),
    st.sampled_from(["phrase", "phrase", "prefix", "inside"]),
)


def _joined(parts: list[tuple[str, Means]], operator: str) -> tuple[str, Means]:
    joint = {"and": " ", "or": " OR "}[operator]
    return f"({joint.join(text for text, _ in parts)})", {operator: [means for _, means in parts]}


def _negated(part: tuple[str, Means]) -> tuple[str, Means]:
    text, means = part
    return f"NOT {text}", {"not": means}


questions = st.recursive(
    terms,
    lambda inner: st.one_of(
        st.builds(_joined, st.lists(inner, min_size=2, max_size=4), st.sampled_from(["and", "or"])),
        inner.map(_negated),
    ),
    max_leaves=8,
)


@pytest.fixture(scope="module")
def sentences(db: SessionDB) -> dict[int, str]:
    db.create_session("sentences", "cli")
    ids = db.append_messages("sentences", [{"role": "user", "content": s} for s in SENTENCES])
    return dict(zip(ids, SENTENCES, strict=True))


@given(question=questions)
def test_boolean_queries_find_what_the_oracle_finds(
    db: SessionDB, sentences: dict[int, str], question: tuple[str, Means]
) -> None:
    """And mark it, unless a message is found for what it lacks."""
    query, means = question
    conditions = SearchConditions(sessions=("sentences",))
    expected = {n for n, text in sentences.items() if oracle.matches(means, [text])}
    assert set(found(db, query, conditions)) == expected
    answer = db.search(query, conditions=conditions, limit=20, relax=False)
    assert answer.report.total == len(expected)
    wanted = terms_of(parse(query).node)
    for hit in answer.hits:
        has_wanted = any(matches(term, TokenizedDocument([sentences[hit.id]])) for term in wanted)
        assert (">>>" in hit.snippet) is has_wanted


# ── operators and filters in every reading ────────────────────────────────────────────────────


def _operated(parts: list[tuple[str, Means]], operator: str) -> tuple[str, Means]:
    texts, meanings = [text for text, _ in parts], [means for _, means in parts]
    text = {
        "AND": " AND ".join(texts),
        "plus": " ".join(f"+({text})" for text in texts),
        "OR": " OR ".join(texts),
    }[operator]
    return f"({text})", {"or" if operator == "OR" else "and": meanings}


#: Words as people type them, without quotes: these are what a relaxed reading loosens.
plain_words = st.sampled_from([*WORDS, *PIECES]).map(lambda word: (word, word))
#: Each part is bound by an operator or by quotes, so no reading may loosen any.
bound_questions = st.recursive(
    st.one_of(
        plain_words.map(lambda part: (f"+{part[0]}", part[1])),
        st.builds(_term, st.lists(st.sampled_from(WORDS), min_size=1, max_size=2), st.just("")),
    ),
    lambda inner: st.one_of(
        st.builds(
            _operated,
            st.lists(st.one_of(inner, plain_words), min_size=2, max_size=3),
            st.sampled_from(["AND", "plus"]),
        ),
        st.builds(_operated, st.lists(inner, min_size=2, max_size=3), st.just("OR")),
        inner.map(_negated),
    ),
    max_leaves=6,
)
SOURCES = ("cli", "telegram", "discord")


@pytest.fixture(scope="module")
def by_source(db: SessionDB) -> dict[str, dict[int, str]]:
    """Messages by their source, each in a session of its own."""
    stored = {}
    for place, source in enumerate(SOURCES):
        texts = SENTENCES[place :: len(SOURCES)]
        db.create_session(f"from {source}", source)
        ids = db.append_messages(
            f"from {source}", [{"role": "user", "content": text} for text in texts]
        )
        stored[source] = dict(zip(ids, texts, strict=True))
    return stored


@given(
    question=bound_questions,
    given_sources=st.one_of(st.none(), st.sets(st.sampled_from(SOURCES)).map(tuple)),
    typed=st.lists(st.sampled_from(SOURCES), max_size=2),
    left_out=st.lists(st.sampled_from(SOURCES), max_size=1),
    sort=st.sampled_from(["relevance", "newest", "oldest"]),
)
def test_operators_and_filters_hold_in_every_reading(
    db: SessionDB,
    by_source: dict[str, dict[int, str]],
    question: tuple[str, Means],
    given_sources: tuple[str, ...] | None,
    typed: list[str],
    left_out: list[str],
    sort: str,
) -> None:
    """A relaxed search finds what the oracle finds as asked, where all filters allow it."""
    query, means = question
    filters = [*(f"source:{name}" for name in typed), *(f"-source:{name}" for name in left_out)]
    kept = set(SOURCES if given_sources is None else given_sources) - set(left_out)
    expected = {
        number
        for source in (kept & set(typed) if typed else kept)
        for number, text in by_source[source].items()
        if oracle.matches(means, [text])
    }
    sessions = tuple(f"from {source}" for source in SOURCES)
    hits = found(
        db,
        " ".join([query, *filters]),
        SearchConditions(sources=given_sources, sessions=sessions),
        relax=True,
        sort=sort,
    )
    assert set(hits) == expected


# ── reading and printing ──────────────────────────────────────────────────────────────────────


@given(text=st.one_of(any_text, any_query, tricky_queries, questions.map(lambda q: q[0])))
def test_what_is_printed_is_read_as_the_same(text: str) -> None:
    read = parse(text)
    printed = print_query(read)
    assume(len(printed) <= MAX_LENGTH)
    again = parse(printed)
    assert Query(again.node, again.filters) == Query(read.node, read.filters)
    assert print_query(again) == printed
