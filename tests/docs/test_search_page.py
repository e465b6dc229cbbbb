"""docs/search.md names every filter, step, result and limit there is, with its value."""

import dataclasses
import re
from pathlib import Path

import pytest

from hermes_sessions.storage.search import answer, executor
from hermes_sessions.text import token_encoder
from hermes_sessions.text.query import filters, parser, relaxation

PAGE = (Path(__file__).parent.parent.parent / "docs" / "search.md").read_text(encoding="utf-8")


def section(heading: str) -> str:
    found = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found, f"docs/search.md has no section {heading!r}"
    return found[1]


def test_every_filter() -> None:
    rows = [line for line in section("Filters").splitlines() if line.startswith("|")]
    named = set(re.findall(r"`([a-z]+):", "\n".join(rows)))
    assert named == parser.FILTER_NAMES
    assert f"`{parser.META}" in "\n".join(rows)
    values = set(re.findall(r"`has:([a-z_]+)`", section("Filters")))
    assert values == set(filters.HAS_VALUES)


def test_every_step_in_its_order() -> None:
    steps = re.findall(
        r"^\| `([a-z ]+)` \|", section("When nothing matches as asked"), re.MULTILINE
    )
    assert steps == [
        relaxation.AS_ASKED,
        relaxation.WITHOUT_COMMON_WORDS,
        relaxation.OTHER_FORMS,
        relaxation.ANY_WORD,
        relaxation.INSIDE_WORDS,
    ]


@pytest.mark.parametrize("kind", [answer.Hit, answer.SearchReport, answer.SearchAnswer])
def test_every_part_of_a_result(kind: type) -> None:
    named = set(re.findall(r"`(\w+)`", section("Results")))
    parts = {field.name for field in dataclasses.fields(kind)} - {"hits", "report"}
    assert parts <= named


@pytest.mark.parametrize(
    "number",
    [
        executor.RANKED,
        answer.COUNT_LIMIT,
        executor.SCANNED,
        executor.SCANNED_UNASKED,
        executor.TAIL,
        executor.MAX_TITLES,
        executor.EVERY_MATCH,
        token_encoder.HEAD_TOKENS,
        token_encoder.TAIL_TOKENS,
    ],
)
def test_every_limit(number: int) -> None:
    assert re.search(rf"(?<![\d,]){number:,}(?![\d,])", section("Limits"))


def test_the_longest_query() -> None:
    assert f"{parser.MAX_LENGTH:,} characters" in section("What you can type")
