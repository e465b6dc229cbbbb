"""The queries of the golden set, and what they must find."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

from tests.search.golden import oracle
from tests.search.golden.corpus import HERE

QUERIES = HERE / "queries.jsonl"
QUESTIONS = HERE / "questions.jsonl"
EXPECTED = HERE / "expected.json"


@dataclass(frozen=True)
class GoldenQuery:
    """One line of ``queries.jsonl``; the fields are explained in ``README.md``."""

    id: str
    kind: str
    query: str
    means: oracle.Means
    where: list[str] = field(default_factory=list)
    params: dict[str, Any] = field(default_factory=dict)
    sort: Literal["newest", "oldest"] | None = None
    repaired: bool = False
    empty: bool = False
    hits: list[str] = field(default_factory=list)
    near: list[str] = field(default_factory=list)
    titles: list[str] = field(default_factory=list)
    note: str = ""


@dataclass(frozen=True)
class Question:
    """One line of ``questions.jsonl``: a question, and how much each message answers it."""

    id: str
    query: str
    #: 3 answers the question, 2 a part of it, 1 is about the same matter.
    relevant: dict[str, int]
    note: str = ""


@cache
def queries() -> tuple[GoldenQuery, ...]:
    """Return the literal queries: what they find is a set."""
    return tuple(
        GoldenQuery(kind=record.pop("class"), **record)
        for record in map(json.loads, QUERIES.read_text(encoding="utf-8").splitlines())
    )


@cache
def questions() -> tuple[Question, ...]:
    """Return the questions in natural language: what they find is an order."""
    return tuple(
        Question(**record)
        for record in map(json.loads, QUESTIONS.read_text(encoding="utf-8").splitlines())
    )


@cache
def stored_expectations() -> dict[str, list[str]]:
    """Return what each literal query finds, as stored."""
    found: dict[str, list[str]] = json.loads(EXPECTED.read_text(encoding="utf-8"))
    return found


def compute_expectations() -> dict[str, list[str]]:
    """Return what each literal query finds, as the oracle says now."""
    return {
        item.id: [] if item.empty else oracle.expected(item.means, item.where) for item in queries()
    }


def write_expectations() -> None:
    """Store what the oracle says; a line for each query, so that changes can be read."""
    lines = (
        f"{json.dumps(name)}: {json.dumps(found, ensure_ascii=False)}"
        for name, found in compute_expectations().items()
    )
    EXPECTED.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    write_expectations()
