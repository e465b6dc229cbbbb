"""docs/search.md names every filter, step, result and limit there is, with its value."""

import dataclasses
import re
from pathlib import Path

import pytest

from hermes_sessions.storage.searching import answer, finder
from hermes_sessions.text import encode
from hermes_sessions.text.query import filters, parser, relaxing

PAGE = (Path(__file__).parent.parent.parent / "docs" / "search.md").read_text(encoding="utf-8")


def section(heading: str) -> str:
    found = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found, f"docs/search.md has no section {heading!r}"
    return found[1]


def test_every_filter() -> None:
    rows = [line for line in section("Filters").splitlines() if line.startswith("|")]
    named = set(re.findall(r"`([a-z]+):", "\n".join(rows)))
    assert named == parser.FILTER_NAMES
    values = set(re.findall(r"`has:([a-z_]+)`", section("Filters")))
    assert values == set(filters.HAS_VALUES)


def test_every_step_in_its_order() -> None:
    steps = re.findall(
        r"^\| `([a-z ]+)` \|", section("When nothing matches as asked"), re.MULTILINE
    )
    assert steps == [
        relaxing.AS_ASKED,
        relaxing.WITHOUT_COMMON_WORDS,
        relaxing.OTHER_FORMS,
        relaxing.ANY_WORD,
        relaxing.INSIDE_WORDS,
    ]


@pytest.mark.parametrize("kind", [answer.Hit, answer.Account, answer.Answer])
def test_every_part_of_a_result(kind: type) -> None:
    named = set(re.findall(r"`(\w+)`", section("Results")))
    parts = {field.name for field in dataclasses.fields(kind)} - {"hits", "account"}
    assert parts <= named


@pytest.mark.parametrize(
    "number",
    [
        finder.RANKED,
        answer.COUNT_LIMIT,
        finder.SCANNED,
        finder.SCANNED_UNASKED,
        finder.TAIL,
        finder.MOST_TITLES,
        finder.EVERY_MATCH,
        encode.HEAD_TOKENS,
        encode.TAIL_TOKENS,
    ],
)
def test_every_limit(number: int) -> None:
    assert re.search(rf"(?<![\d,]){number:,}(?![\d,])", section("Limits"))


def test_the_longest_query() -> None:
    assert f"{parser.MAX_LENGTH:,} characters" in section("What one can type")
