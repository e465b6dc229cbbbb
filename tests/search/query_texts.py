"""Texts that people, programs and cats on keyboards type as queries."""

from hypothesis import strategies as st

from tests.text.strategies import TRICKY, any_character

#: The signs and words of the query language, and of the languages behind it.
SYNTAX = [
    *"\"()*-:'%_\\/,;<>+&|!?#@^~{}[]$=`",
    *"“”„«»「」＂",
    *[
        "AND",
        "OR",
        "NOT",
        "and",
        "or",
        "not",
        "NEAR",
        "OR(",
        ")AND",
        'NOT"',
        "--",
        "-(",
        '-"',
        "**",
    ],
    *[
        "source:",
        "role:",
        "tool:",
        "model:",
        "user:",
        "session:",
        "in:",
        "has:",
        "before:",
        "after:",
    ],
    *["-source:", "SOURCE:", "has:error", "has:x", "after:7d", "before:2026-05-01", 'in:"', "url:"],
    *["-rf", "-v", "--force", "-fox", "-1"],
]
WORDS = [
    "fox",
    "the",
    "quick",
    "brown",
    "Fox",
    "foxes",
    "2024",
    "狐狸",
    "快",
    "parseQuery",
    "a_b",
    "x",
]

_pieces = st.one_of(
    st.sampled_from(SYNTAX),
    st.sampled_from(WORDS),
    st.sampled_from([" ", " ", " ", "\n", "\u3000"]),
)
#: Mostly readable, nearly always broken.
tricky_queries = st.lists(_pieces, max_size=25).map("".join)
any_query = st.one_of(
    tricky_queries,
    st.lists(st.one_of(_pieces, st.sampled_from(TRICKY), any_character), max_size=25).map("".join),
    st.lists(st.one_of(_pieces, st.just(" ")), max_size=25).map(" ".join),
)
