"""Whether and where a text matches a query: the decision that all databases share."""

import pytest

from hermes_sessions.text.query.matcher import TokenizedDocument, find_marks, matches
from hermes_sessions.text.query.parser import parse


def is_match(query: str, *texts: str) -> bool:
    node = parse(query).node
    assert node is not None
    return matches(node, TokenizedDocument(texts))


def marked(query: str, text: str) -> list[str]:
    return [text[start:end] for start, end in find_marks(parse(query).node, text)]


@pytest.mark.parametrize(
    ("query", "text", "expected"),
    [
        ("fox", "The Fox.", True),
        ("fox", "foxes", False),
        ("fox*", "foxes", True),
        ('"quick fox"', "quick, fox", True),
        ('"quick fox"', "quick brown fox", False),
        ("quick fox", "fox, quick", True),
        ("quick OR slow", "slow", True),
        ("fox -quick", "quick fox", False),
        ("query", "parseQuery", True),
        ("*rseQ*", "parseQuery", True),
        ("库", "数据库", True),
        ("数库", "数据库", False),
        ("使用docker", "我们使用Docker部署", True),
        ("か", "が", False),
    ],
)
def test_examples(query: str, text: str, expected: bool) -> None:
    assert is_match(query, text) is expected


def test_a_phrase_stays_in_one_text() -> None:
    assert is_match("here terminal", "ends here", "terminal")
    assert not is_match('"here terminal"', "ends here", "terminal")


@pytest.mark.parametrize(
    ("query", "text", "expected"),
    [
        ("fox", "a Fox, a fox", ["Fox", "fox"]),
        ("fox*", "foxes", ["foxes"]),
        ('"quick fox"', "the quick - fox", ["quick - fox"]),
        ("query", "parseQuery", ["Query"]),
        ("*seQ*", "parseQuery", ["seQ"]),
        ("-fox quick", "quick fox", ["quick"]),
        ("cafe", "Cafe\u0301!", ["Cafe\u0301"]),
        ("据库", "数据库", ["据库"]),
        # One character is found as the beginning of pairs, and marked alone.
        ("库", "数据库备份", ["库"]),
        ("库", "数据库", ["库"]),
        ("部", "部部署", ["部", "部"]),
        ("docker部", "使用Docker部署", ["Docker部"]),
        ("が", "がっこう", ["が"]),
        ("가", "가나다", ["가"]),
    ],
)
def test_places(query: str, text: str, expected: list[str]) -> None:
    assert marked(query, text) == expected
