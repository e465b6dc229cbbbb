"""The parser accepts any text: examples of the language, and random input."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hermes_sessions.text.query.parser import FILTER_NAMES, MAX_DEPTH, MAX_LENGTH, parse
from hermes_sessions.text.query.tree import And, Node, Not, Or, Substring, Term, print_query
from tests.search.query_texts import any_query, tricky_queries
from tests.text.strategies import any_text


def read(text: str) -> str:
    """Return what was read, in the one form in which it is printed."""
    return print_query(parse(text))


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("", ""),
        ("one", '"one"'),
        ("one two", '"one" "two"'),
        ("one AND two", '"one" AND "two"'),
        ("one two AND three", '"one" AND "two" AND "three"'),
        ("(one AND two) three", '("one" AND "two") "three"'),
        ("(one two) AND three", '"one" AND "two" AND "three"'),
        ("one AND source:cli", '+"one" source:"cli"'),
        ("NOT one AND source:cli", 'NOT "one" source:"cli"'),
        ("+one two", '+"one" "two"'),
        ("+one +two", '+"one" +"two"'),
        ('+"one two"*', '+"one two"*'),
        ("+(one OR two)", '+("one" OR "two")'),
        ("+(one two)", '"one" AND "two"'),
        ("NOT +one", 'NOT +"one"'),
        ("+source:cli", 'source:"cli"'),
        ("c++ a+b + ++", '"c++" "a+b"'),
        ("one OR two three", '("one" OR ("two" "three"))'),
        ("(one OR two) three", '("one" OR "two") "three"'),
        ("one -two NOT three", '"one" NOT "two" NOT "three"'),
        ("NOT NOT one", '"one"'),
        ("-(one two)", 'NOT ("one" "two")'),
        ("and or not", '"and" "or" "not"'),
        ("dep*", '"dep"*'),
        ('"two words"*', '"two words"*'),
        ("*fix*", '*"fix"*'),
        ("*fix", '*"fix"*'),
        ("1.2.*", '"1.2."'),
        ("f(x)", '"f(x)"'),
        ("(f(x))", '"f(x)"'),
        ("“curly”", '"curly"'),
        ("a&b & c", '"a&b" "c"'),
        ("->", '*"->"*'),
        ("rm -rf x", '"rm" "-rf" "x"'),
        ("--force", '"--force"'),
        ("-force", 'NOT "force"'),
        ("source:cli x", '"x" source:"cli"'),
        ('-in:"my project"', '-in:"my project"'),
        ("SOURCE:cli", 'source:"cli"'),
        ("NOT (source:cli x)", 'NOT "x" -source:"cli"'),
        ("url:x", '"url:x"'),
        ("a source:", '"a" "source:"'),
        ("50%", '"50%"'),
    ],
)
def test_examples(text: str, printed: str) -> None:
    assert read(text) == printed
    assert read(printed) == printed


@pytest.mark.parametrize(
    ("text", "printed", "repair"),
    [
        ('"open', '"open"', "added a missing closing quote"),
        ("(open", '"open"', "added a missing closing parenthesis"),
        ("one) two", '"one" "two"', "ignored a closing parenthesis without an opening one"),
        ("OR one", '"one"', "ignored an OR without terms on both sides"),
        ("one AND", '"one"', "ignored AND at the end"),
        ("one NOT", '"one"', "ignored NOT at the end"),
        ("one *", '"one"', "ignored a lone star"),
        ("one ()", '"one"', "ignored empty parentheses"),
        ('one ""', '"one"', "ignored empty quotes"),
        ("rm -v", '"rm" "-v"', "read -v as an option, not as an exclusion"),
        ("tar -xzvf", '"tar" "-xzvf"', "read -xzvf as an option, not as an exclusion"),
        ("a = b", '"a" "b"', "ignored =: not a word"),
        ('one source:""', '"one"', "ignored source: without a value"),
        ("x" * 5_000, f'"{"x" * MAX_LENGTH}"', "only the first 4096 characters were read"),
    ],
)
def test_repairs(text: str, printed: str, repair: str) -> None:
    query = parse(text)
    assert (print_query(query), query.repairs) == (printed, (repair,))


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("report -🚀", '"report" NOT "🚀"'),
        ("-🇩🇪 report", 'NOT "🇩🇪" "report"'),
        ("report -❤️", '"report" NOT "❤️"'),
        ("报告 -备份", '"报告" NOT "备份"'),
        ("report -pdf -HTML", '"report" NOT "pdf" NOT "HTML"'),
        ("p ->next", '"p" "->next"'),
    ],
)
def test_what_a_dash_excludes(text: str, printed: str) -> None:
    query = parse(text)
    assert (print_query(query), query.repairs) == (printed, ())


FILTERS_NARROW = "applied filters to the whole search, even beside OR and in exclusions"


@pytest.mark.parametrize(
    "text",
    [
        "source:cron OR tea",
        "tea OR source:cron",
        "source:cron OR role:user",
        "has:error OR has:title",
        "after:7d OR before:2020",
        "-source:cron OR -source:cli",
        "tea -(source:cron pot)",
        "tea -(source:cron role:user)",
        "tea -((source:cron pot) OR cup)",
    ],
)
def test_filters_that_cannot_be_joined_as_written(text: str) -> None:
    assert parse(text).repairs == (FILTERS_NARROW,)


@pytest.mark.parametrize(
    "text",
    [
        "source:cron tea OR",
        "source:cron tea OR pot",
        "source:cron OR source:cli",
        "(source:cron OR source:cli) (tea OR pot)",
        "(source:cron OR source:cli OR (source:x)) role:user tea",
        "tea -(source:cron OR source:cli)",
        "tea -(source:cron OR pot)",
        "tea -(has:error OR role:user)",
        "-source:cron -source:cli tea",
    ],
)
def test_filters_that_mean_what_was_written(text: str) -> None:
    assert FILTERS_NARROW not in parse(text).repairs


def depth_of(node: Node | None) -> int:
    if isinstance(node, (And, Or)):
        return 1 + max(map(depth_of, node.nodes))
    return 1 + depth_of(node.node) if isinstance(node, Not) else 0


def leaves_of(node: Node | None) -> list[Term | Substring]:
    if isinstance(node, (And, Or)):
        return [leaf for child in node.nodes for leaf in leaves_of(child)]
    if isinstance(node, Not):
        return leaves_of(node.node)
    return [] if node is None else [node]


def check(text: str) -> None:
    """Check what holds for every query, whatever it says."""
    query = parse(text)
    leaves = leaves_of(query.node)
    assert len(leaves) + len(query.filters) <= len(text)
    # A group may be negated, and hold alternatives of several words.
    assert depth_of(query.node) <= 3 * (MAX_DEPTH + 1)
    assert all(leaf.parts if isinstance(leaf, Term) else leaf.raw for leaf in leaves)
    assert {item.name for item in query.filters} <= FILTER_NAMES
    assert len(set(query.repairs)) == len(query.repairs)
    if query.is_empty:
        assert not text.strip() or query.repairs
    printed = print_query(query)
    if len(printed) <= MAX_LENGTH:
        again = parse(printed)
        assert (again.node, again.filters) == (query.node, query.filters)
        assert print_query(again) == printed


@given(text=st.one_of(any_text, any_query, tricky_queries))
@example("(" * 60 + "a OR b" + ")" * 60)
@example("-(" * 60 + "a b" + ")" * 60)
@example("NOT " * 1_000 + "a")
@example('"' * MAX_LENGTH)
@example("(" * MAX_LENGTH)
@example("-" * MAX_LENGTH)
@example("*" * MAX_LENGTH)
@example("a OR " * 800)
@example("source:" * 600)
def test_any_text_is_read(text: str) -> None:
    check(text)


@given(pieces=st.lists(tricky_queries, min_size=20, max_size=60))
def test_long_texts_are_read(pieces: list[str]) -> None:
    check(" ".join(pieces))


@given(text=any_query, extra=st.sampled_from(["(", ")", '"', " OR", "NOT ", "AND ", "*"]))
def test_a_sign_more_never_loses_all_words(text: str, extra: str) -> None:
    """What is typed last, and unfinished, leaves what stands before it."""
    before = leaves_of(parse(text).node)
    after = leaves_of(parse(f"{text} {extra}").node)
    if before and not parse(text).repairs:
        assert after
