"""The golden set on real stores: every class of query finds what the oracle says, in order."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pytest

from hermes_sessions import SearchConditions, SessionDB
from hermes_sessions.storage.search.answer import SearchAnswer
from tests.search.golden.corpus import NOW, load_corpus, sessions
from tests.search.golden.ndcg import ndcg
from tests.search.golden.oracle import Means, expected_by_title
from tests.search.golden.queries import (
    GoldenQuery,
    Question,
    queries,
    questions,
    stored_expectations,
)
from tests.servers.stores import OpenStore

KINDS = sorted({item.kind for item in queries()})
TIMES = {message.id: message.at for session in sessions() for message in session.messages}
EVERYTHING = 1000
#: What the order of answers is worth at least; raise it when it gets better.
LEAST_NDCG = 0.5


@dataclass(frozen=True)
class GoldenStore:
    """A store that holds the corpus."""

    db: SessionDB
    #: The corpus id of every message by its id in the store.
    names: dict[int, str]
    #: What was answered already, by the id of the query; nothing changes the store meanwhile.
    answers: dict[str, SearchAnswer] = field(default_factory=dict)

    def asked(self, item: GoldenQuery) -> SearchAnswer:
        """Ask for everything that is found, once for all tests that look at the answer."""
        if item.id not in self.answers:
            self.answers[item.id] = self._ask(item)
        return self.answers[item.id]

    def strictly(self, item: GoldenQuery) -> SearchAnswer:
        """The same without other readings, which is only asked if one of them was needed."""
        if self.asked(item).account.step == "as asked":
            return self.asked(item)
        if (name := f"{item.id} as asked") not in self.answers:
            self.answers[name] = self._ask(item, relax=False)
        return self.answers[name]

    def _ask(self, item: GoldenQuery, **options: Any) -> SearchAnswer:
        return self.db.search(
            item.query,
            conditions=conditions_of(item),
            sort=item.sort,
            limit=EVERYTHING,
            **options,
        )

    def best(self, question: Question) -> SearchAnswer:
        """Ask for the ten best hits, once."""
        if question.id not in self.answers:
            self.answers[question.id] = self.db.search(question.query, limit=10)
        return self.answers[question.id]


@pytest.fixture(scope="module")
def store(open_store: OpenStore) -> Iterator[GoldenStore]:
    with open_store(clock=lambda: NOW) as db:
        yield GoldenStore(db, load_corpus(db))


def queries_of(kind: str) -> list[GoldenQuery]:
    return [item for item in queries() if item.kind == kind]


def conditions_of(item: GoldenQuery) -> SearchConditions:
    sources = item.params.get("source_filter")
    return SearchConditions(
        sources=None if sources is None else tuple(sources),
        exclude_sources=tuple(item.params.get("exclude_sources", ())),
        roles=tuple(item.params.get("role_filter", ())),
    )


@cache
def titled(query_id: str) -> list[str]:
    """Return the messages that stand for sessions whose title is found; the same everywhere."""
    (item,) = (item for item in queries() if item.id == query_id)
    return expected_by_title(item.means, item.where)


def found(store: GoldenStore, item: GoldenQuery) -> list[str]:
    """Return the messages whose text is found, in order; those of matching titles left out."""
    answer = store.strictly(item)
    return [store.names[hit.id] for hit in answer.hits if hit.matched == "message"]


@pytest.mark.parametrize("kind", KINDS)
def test_queries_find_what_they_mean(store: GoldenStore, kind: str) -> None:
    answers = {item.id: sorted(found(store, item)) for item in queries_of(kind)}
    assert answers == {item.id: stored_expectations()[item.id] for item in queries_of(kind)}


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_found_as_asked_is_not_relaxed(store: GoldenStore, kind: str) -> None:
    for item in queries_of(kind):
        answer = store.asked(item)
        if stored_expectations()[item.id]:
            assert answer.report.step == "as asked", item.id
        assert bool(answer.report.repairs) is item.repaired, item.id
        assert bool(answer.report.notes) >= item.empty, item.id
        assert answer.report.complete, item.id


@pytest.mark.parametrize("kind", KINDS)
def test_the_documented_verb_finds_the_same(store: GoldenStore, kind: str) -> None:
    for item in queries_of(kind):
        wanted = set(stored_expectations()[item.id])
        rows = store.db.search_messages(item.query, limit=-1, sort=item.sort, **item.params)
        assert wanted <= {store.names[row["id"]] for row in rows}, item.id
        assert {row["id"] for row in rows} <= set(store.names), item.id


@pytest.mark.parametrize("kind", KINDS)
def test_every_hit_shows_what_matched(store: GoldenStore, kind: str) -> None:
    for item in queries_of(kind):
        if not _wants_something(item.means):
            continue
        answer = store.strictly(item)
        for hit in answer.hits:
            if hit.matched == "message":
                assert ">>>" in hit.snippet, (item.id, store.names[hit.id])
                assert hit.snippet.count(">>>") == hit.snippet.count("<<<")


def _wants_something(means: Means) -> bool:
    """Return whether there is a term that a hit has, and not only terms that it lacks."""
    return means is not None and (isinstance(means, str) or "not" not in means)


@pytest.mark.parametrize("kind", KINDS)
def test_totals_are_what_is_there(store: GoldenStore, kind: str) -> None:
    for item in queries_of(kind):
        answer = store.strictly(item)
        assert answer.report.total == len(answer.hits), item.id
        assert answer.report.total_is_exact, item.id


@pytest.mark.parametrize("kind", KINDS)
def test_titles_find_their_sessions(store: GoldenStore, kind: str) -> None:
    by_title, meant = {}, {}
    for item in queries_of(kind):
        if not _wants_something(item.means):
            continue
        answer = store.strictly(item)
        hits = [hit for hit in answer.hits if hit.matched == "title"]
        by_title[item.id] = sorted(store.names[hit.id] for hit in hits)
        meant[item.id] = titled(item.id)
    assert by_title == meant


@pytest.mark.parametrize("item", queries_of("sorted"), ids=lambda item: item.id)
def test_sorted_answers_are_sorted(store: GoldenStore, item: GoldenQuery) -> None:
    assert found(store, item) == _in_order(stored_expectations()[item.id], item)


@pytest.mark.parametrize("item", queries_of("sorted"), ids=lambda item: item.id)
@pytest.mark.parametrize("size", [1, 3])
def test_pages_join_to_the_whole(store: GoldenStore, item: GoldenQuery, size: int) -> None:
    pages: list[str] = []
    cursor = None
    while True:
        answer = store.db.search(item.query, sort=item.sort, limit=size, cursor=cursor, relax=False)
        pages += [store.names[hit.id] for hit in answer.hits]
        cursor = answer.next_cursor
        if cursor is None:
            break
    assert pages == _in_order([*stored_expectations()[item.id], *titled(item.id)], item)


@pytest.mark.parametrize("query", ["docker", "backup OR backups", "数据", "error", "test*"])
def test_pages_by_relevance_join_to_the_whole(store: GoldenStore, query: str) -> None:
    whole = [hit.id for hit in store.db.search(query, limit=EVERYTHING).hits]
    pages: list[int] = []
    cursor = None
    while cursor is not None or not pages:
        answer = store.db.search(query, limit=4, cursor=cursor)
        pages += [hit.id for hit in answer.hits]
        cursor = answer.next_cursor
        if cursor is None:
            break
    assert pages == whole


def _in_order(names: list[str], item: GoldenQuery) -> list[str]:
    return sorted(names, key=TIMES.__getitem__, reverse=item.sort == "newest")


def test_questions_are_answered_well(
    store: GoldenStore, record_property: Callable[[str, object], None]
) -> None:
    """Reports the nDCG@10 of every question; only the mean has a floor."""
    worth = {}
    for question in questions():
        answer = store.best(question)
        ranked = [store.names[hit.id] for hit in answer.hits]
        worth[question.id] = round(ndcg(ranked, question.relevant), 3)
        record_property(question.id, f"{worth[question.id]} ({answer.report.step})")
    mean = sum(worth.values()) / len(worth)
    record_property("nDCG@10", round(mean, 4))
    assert mean >= LEAST_NDCG, worth


def test_every_question_finds_something_relevant(store: GoldenStore) -> None:
    lost = []
    for question in questions():
        hits = store.best(question).hits
        if not {store.names[hit.id] for hit in hits} & set(question.relevant):
            lost.append(question.query)
    assert lost == []
