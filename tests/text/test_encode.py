"""Encoded tokens: words that no database changes, and that decode to the token."""

import re

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_sessions.text.token_encoder import (
    CUT,
    GAP,
    HEAD_TOKENS,
    MAX_LENGTH,
    MAX_TOKENS,
    TAIL_TOKENS,
    document,
    encode,
    encode_prefix,
    is_cut,
)
from hermes_sessions.text.tokenizer import extras, query_parts, words
from tests.text.strategies import any_text

tokens = any_text.map(words).filter(bool).flatmap(st.sampled_from)
#: InnoDB's stop words, and those of MyISAM that start as encoded tokens do.
STOP_WORDS = set(
    """a about an are as at be by com de en for from how i in is it la of on or that the this to
    was what when where who will with und www get gets given go going gone got que quite qv
    zero""".split()
)


def decode(encoded):
    """Read a token back; this works because codes are never ambiguous."""
    mark, rest = encoded[0], encoded[1:]
    if mark == "x":
        rest = re.sub(r"^([a-z0-9])_$", r"\1", rest)
        return re.sub(
            r"__(\w{4})|_(\w{3})|([a-z0-9])",
            lambda code: code[3] or chr(int(code[1] or code[2], 36)),
            rest,
        )
    if mark == "q":
        return re.sub(
            r"_(\w{4})|([a-z0-9]{3})",
            lambda code: chr(int(code[1], 36) if code[1] else int(code[2], 36) + 0x2E80),
            rest,
        )
    return re.sub(r"\w{4}", lambda code: chr(int(code[0], 36)), rest)


@pytest.mark.parametrize(
    ("token", "encoded"),
    [
        ("docker", "xdocker"),
        ("a", "xa_"),
        ("the", "xthe"),
        ("2026", "x2026"),
        ("да", "x_0tw_0ts"),
        ("数据", "qauoage"),
        ("库", "q9hv"),
        ("✅", "z07ph"),
        ("🇩🇪", "z2qcp2qcq"),
        ("\U00020bb7野", "q_2vg7jm6"),
    ],
)
def test_the_form_of_encoded_tokens_does_not_change_by_accident(token, encoded):
    assert encode(token) == encoded
    assert decode(encoded) == token


def test_long_tokens_are_cut():
    assert encode("a" * 100) == "x" + "a" * (MAX_LENGTH - 1)
    assert is_cut("a" * 100)
    assert is_cut("a" * (MAX_LENGTH - 1))
    assert not is_cut("a" * 50)
    assert len(encode("д" * 100)) <= MAX_LENGTH


@pytest.mark.parametrize("function", [encode, encode_prefix])
def test_nothing_is_not_a_token(function):
    with pytest.raises(ValueError, match="empty"):
        function("")


@given(tokens)
def test_encoded_tokens_are_plain_words(token):
    encoded = encode(token)
    assert re.fullmatch("[xqz][a-z0-9_]{2,59}", encoded)
    assert encoded not in STOP_WORDS


@given(tokens)
def test_tokens_can_be_read_back(token):
    if not is_cut(token):
        assert decode(encode(token)) == token


@given(tokens, st.data())
def test_a_prefix_of_a_token_is_a_prefix_of_its_encoding(token, data):
    length = data.draw(st.integers(1, len(token)))
    assert encode(token).startswith(encode_prefix(token[:length]))


@given(st.text("aд\u1f3fbक्", min_size=1, max_size=80), st.data())
def test_prefixes_find_tokens_that_were_cut(token, data):
    length = data.draw(st.integers(1, len(token)))
    assert encode(token).startswith(encode_prefix(token[:length]))


@given(tokens, tokens, st.data())
def test_nothing_else_has_the_prefix(token, other, data):
    prefix = other[: data.draw(st.integers(1, len(other)))]
    if not is_cut(prefix) and encode(token).startswith(encode_prefix(prefix)):
        assert token.startswith(prefix)


# ── documents ─────────────────────────────────────────────────────────────────────────────────


def test_a_document_has_streams_then_extras_with_gaps_between():
    encoded = document(["call parseQuery", "", "数据 ✅"])
    assert encoded.tokens.split(" ") == [
        "xcall",
        "xparsequery",
        GAP,
        *map(encode, ["数据", "据", "✅"]),
        GAP,
        "xparse",
        GAP,
        "xquery",
    ]
    assert encoded.count == 7
    assert not encoded.is_cut


def test_extras_that_are_words_of_the_text_are_left_out():
    assert document(["parse parseQuery"]).tokens.split() == ["xparse", "xparsequery", GAP, "xquery"]


@pytest.mark.parametrize("parts", [[], [""], ["", " ?"]])
def test_nothing_to_index(parts):
    encoded = document(parts)
    assert (encoded.tokens, encoded.count, encoded.is_cut) == ("", 0, False)


def test_a_document_that_just_fits_is_whole():
    encoded = document([" ".join(map(str, range(MAX_TOKENS)))])
    assert encoded.count == MAX_TOKENS
    assert not encoded.is_cut
    assert not {GAP, CUT} & set(encoded.tokens.split())


def test_of_a_long_document_the_start_and_the_end_are_kept():
    encoded = document([" ".join(map(str, range(100_000)))])
    stored = encoded.tokens.split()
    assert encoded.is_cut
    assert encoded.count == MAX_TOKENS
    assert stored[:HEAD_TOKENS] == [f"x{i:d}".ljust(3, "_") for i in range(HEAD_TOKENS)]
    assert stored[HEAD_TOKENS] == GAP
    assert stored[HEAD_TOKENS + 1 : -1] == [f"x{i}" for i in range(100_000 - TAIL_TOKENS, 100_000)]
    assert stored[-1] == CUT


def test_extras_of_a_long_document_are_kept_within_the_positions_a_server_counts():
    encoded = document([" ".join(f"first{i}Second{i}" for i in range(20_000))])
    stored = encoded.tokens.split()
    assert encoded.is_cut
    assert "xsecond0" in stored
    assert stored[-1] == CUT
    assert len(stored) < 16_384


@pytest.mark.parametrize("unit", ["word, 数据库连接。", "数据库连接", "x"])
def test_long_texts_are_analysed_as_short_ones_are(unit):
    # Far beyond the size from which texts are analysed in pieces.
    text = unit * (600_000 // len(unit))
    stored = document([text]).tokens.removesuffix(f" {CUT}").split()
    whole = words(text)
    assert stored[:50] == list(map(encode, whole[:50]))
    assert stored[-50:] == list(map(encode, whole[-50:]))


@given(st.lists(any_text, max_size=3))
def test_documents_hold_every_token_of_their_texts(parts):
    encoded = document(parts)
    stored = encoded.tokens.split(" ") if encoded.tokens else []
    assert encoded.count == sum(token != GAP for token in stored)
    streams = [list(map(encode, words(part))) for part in parts]
    expected = f" {GAP} ".join(" ".join(stream) for stream in streams if stream)
    assert encoded.tokens.startswith(expected)
    for part in parts:
        assert set(map(encode, extras(part))) <= set(stored)


# ── in a database ─────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def index():
    connection = apsw.Connection(":memory:")
    connection.execute(
        "CREATE VIRTUAL TABLE i USING fts5(t, tokenize=\"ascii tokenchars '_'\", detail=full)"
    )
    yield connection
    connection.close()


def is_found_by_fts5(index, parts, texts):
    index.execute("DELETE FROM i")
    index.execute("INSERT INTO i VALUES (?)", (document(texts).tokens,))
    phrase = " ".join(
        encode_prefix(part.token) if part.prefix else encode(part.token) for part in parts
    )
    star = "*" if parts[-1].prefix else ""
    return bool(index.execute("SELECT 1 FROM i WHERE i MATCH ?", (f'"{phrase}"{star}',)).fetchall())


def follows(parts, stream):
    return any(
        all(
            token.startswith(part.token) if part.prefix else token == part.token
            for part, token in zip(parts, stream[start:], strict=False)
        )
        for start in range(len(stream) - len(parts) + 1)
    )


@given(st.lists(any_text, max_size=2), any_text, st.booleans(), st.data())
def test_fts5_finds_exactly_what_the_tokens_say(index, texts, other, prefix, data):
    term = data.draw(st.sampled_from([*texts, other]))
    length = data.draw(st.integers(0, len(term)))
    parts = query_parts(term[:length], prefix=prefix)
    if not parts or any(is_cut(part.token) for part in parts):
        return
    expected = any(follows(parts, words(text)) for text in texts)
    if len(parts) == 1:
        expected = expected or any(follows(parts, [extra]) for t in texts for extra in extras(t))
    assert is_found_by_fts5(index, parts, texts) == expected
