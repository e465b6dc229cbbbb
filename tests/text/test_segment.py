"""Tokens: segmentation, positions, and how queries use them."""

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_sessions.text.characters import cluster_pattern
from hermes_sessions.text.normalisation import fold
from hermes_sessions.text.tokenizer import (
    Alignment,
    QueryToken,
    analyse,
    extras,
    find_folded,
    kind_of,
    locate,
    query_parts,
    spans,
    words,
)
from tests.text.strategies import any_text


def is_found(parts, stream):
    """Whether the parts follow each other somewhere in the stream."""
    return any(
        all(
            token.startswith(part.token) if part.prefix else token == part.token
            for part, token in zip(parts, stream[start:], strict=False)
        )
        for start in range(len(stream) - len(parts) + 1)
    )


def boundaries(text):
    return {0, *(found.end() for found in cluster_pattern().finditer(text))}


# ── words ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", ""),
        ("?!... -- __", ""),
        ("Hello, World!", "hello world"),
        ("base_events", "base events"),
        ("/usr/local/bin/python3.11", "usr local bin python3 11"),
        ("user@example.com", "user example com"),
        ("v1.2.3", "v1 2 3"),
        ("don't don’t", "don t don t"),
        ("50% of rm -rf", "50 of rm rf"),
        ("https://docs.example.org/a?b=c#d", "https docs example org a b c d"),
        ("GitHub", "github"),
        ("数据库", "数据 据库 库"),
        ("库", "库"),
        ("使用Kubernetes部署", "使用 用 kubernetes 部署 署"),
        ("コーヒー・ｶﾌｪ", "コー ーヒ ヒー ー カフ フェ ェ"),
        ("東京tower2は", "東京 京 tower2 は"),
        ("한국어 검색", "한국 국어 어 검색 색"),
        ("ㄅㄆ", "ㄅㄆ ㄆ"),
        ("𠮷野家", "𠮷野 野家 家"),
        ("人々〇", "人々 々〇 〇"),
        ("2026年5月", "2026 年 5 月"),
        ("こんにちは、世界。", "こん んに にち ちは は 世界 界"),
        ("हिन्दी में", "हिन्दी में"),
        ("ภาษาไทย", "ภาษาไทย"),
        ("العَرَبِيَّة", "العَرَبِيَّة"),
        ("done ✅ 🎉🎉", "done ✅ 🎉 🎉"),
        ("👍🏽", "👍 🏽"),
        ("👩\u200d💻", "👩 💻"),
        ("🇩🇪🇫🇷🇩", "🇩🇪 🇫🇷 🇩"),
        ("❤\ufe0f", "❤"),
        ("1\ufe0f\u20e3", "1"),
        ("a→b ≠ 5€", "a → b ≠ 5 €"),
        ("❶Install", "❶ install"),
        ("a\u200bb", "a b"),
        ("a\x00b\ud800c", "a b c"),
        ("p̃a\u0338", "pa"),
    ],
)
def test_words(text, tokens):
    assert words(text) == tokens.split()


def test_long_words_are_whole():
    assert words("a" * 1000) == ["a" * 1000]


@given(any_text)
def test_composed_and_decomposed_texts_have_the_same_words(text):
    assert words(unicodedata.normalize("NFD", text)) == words(text)
    assert words(fold(text)) == words(text)


@given(st.text(st.characters(max_codepoint=127)))
def test_ascii_texts_have_the_words_they_have_among_others(text):
    assert words(text) == words(text + " é")[:-1]


@given(any_text)
def test_analysis_is_words_and_extras(text):
    assert analyse(text) == (words(text), extras(text))


# ── extras ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("parseQuery", "parse query"),
        ("ParseQuery", "parse query"),
        ("HTTPServer", "http server"),
        ("getHTTP2Response", "get http2 response"),
        ("iPhone", "i phone"),
        ("getURLs", "get urls"),
        ("base64Encode", "base64 encode"),
        ("my.parseQuery(x)", "parse query"),
        ("使用GitHub部署", "git hub"),
        ("ＧｉｔＨｕｂ", "git hub"),
        ("caféBar", "cafe bar"),
        ("ПолучитьДанные", "получить данные"),
        ("Ægir Œuvre", ""),
        ("parse_query Parse QUERY URLs A1B2C3 4K hello2world", ""),
        ("aGVsbG8gd29ybGQhIHRoaXMgaXMgYmFzZTY0", ""),
        ("aB" * 40, ""),
    ],
)
def test_extras(text, tokens):
    assert extras(text) == tokens.split()


# ── spans ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("The Café!", ["The", "Café"]),
        ("Cafe\u0301s", ["Cafe\u0301s"]),
        ("ﬁne Straße", ["ﬁne", "Straße"]),
        ("ｶﾞｷ", ["ｶﾞｷ", "ｷ"]),
        ("데이터", ["데이", "이터", "터"]),
        ("👍🏽!", ["👍🏽", "👍🏽"]),
        ("👩\u200d💻 x", ["👩\u200d💻", "👩\u200d💻", "x"]),
        ("❤\ufe0f", ["❤\ufe0f"]),
        ("a 2½", ["a", "2", "½", "½"]),
        ("\ufeffBOM", ["BOM"]),
        ("使用K8s", ["使用", "用", "K8s"]),
        ("soft\u00adhyphen", ["soft\u00adhyphen"]),
    ],
)
def test_spans_show_the_original(text, pieces):
    assert [text[span.start : span.end] for span in spans(text)] == pieces


def test_spans_know_what_they_are():
    assert [span.kind for span in spans("word 字 ✅")] == ["word", "cjk", "symbol"]


def test_parts_of_words_have_places():
    text = "see Cafe\u0301HTTPServer"
    parts = spans(text)[1].parts
    assert [(part.token, text[part.start : part.end]) for part in parts] == [
        ("cafe", "Cafe\u0301"),
        ("http", "HTTP"),
        ("server", "Server"),
    ]


@given(any_text)
def test_spans_have_the_tokens_of_words_and_extras(text):
    found = spans(text)
    assert [span.token for span in found] == words(text)
    assert [part.token for span in found for part in span.parts] == extras(text)


@given(any_text)
def test_spans_are_in_order_and_divide_no_cluster(text):
    allowed = boundaries(text)
    previous = (0, 0)
    for span in spans(text):
        assert span.start < span.end
        assert previous <= (span.start, span.end)
        previous = (span.start, span.end)
        for piece in (span, *span.parts):
            assert {piece.start, piece.end} <= allowed
            assert span.start <= piece.start < piece.end <= span.end


@given(any_text)
def test_what_a_span_shows_contains_its_token(text):
    for span in spans(text):
        assert span.token in fold(text[span.start : span.end])
        assert kind_of(span.token) == span.kind


@given(any_text, st.data())
def test_locating_gives_the_same_spans(text, data):
    every = spans(text)
    positions = data.draw(st.sets(st.integers(0, max(0, len(every) - 1))))
    assert locate(text, positions) == [
        span for position, span in enumerate(every) if position in positions
    ]


@given(any_text, st.data())
def test_pieces_are_found_folded(text, data):
    allowed = sorted(boundaries(text))
    start = data.draw(st.sampled_from(allowed))
    end = data.draw(st.sampled_from(allowed))
    piece = text[start:end]
    found = find_folded(text, piece)
    assert bool(found) == bool(fold(piece))
    for place in found:
        assert fold(piece) in fold(text[slice(*place)])


def test_pieces_are_found_inside_words():
    assert find_folded("Kubernétes", "BERNET") == [(2, 8)]
    assert find_folded("aaaa", "aa") == [(0, 2), (2, 4)]


def test_an_alignment_survives_transformations_that_join_clusters():
    alignment = Alignment("a éè b", lambda text: text.replace("éè", "x"))
    assert alignment.transformed == "a x b"
    assert [(alignment.start(i), alignment.end(i + 1)) for i in (0, 2, 4)] == [
        (0, 1),
        (1, 4),
        (5, 6),
    ]


@pytest.mark.parametrize(
    ("replaced", "transformed", "place"), [(" a ", "éxb", (1, 5)), ("é a", "x b", (0, 5))]
)
def test_an_alignment_survives_any_transformation(replaced, transformed, place):
    alignment = Alignment("é a b", lambda text: text.replace(replaced, "x"))
    assert alignment.transformed == transformed
    assert (alignment.start(1), alignment.end(2)) == place


# ── query parts ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("term", "parts"),
    [
        ("", ""),
        ("%", ""),
        ("Docker", "docker"),
        ("chat-send", "chat send"),
        ("库", "库*"),
        ("数据", "数据"),
        ("数据库", "数据 据库"),
        ("使用Kubernetes部署", "使用 用 kubernetes 部署"),
        ("用K8s部", "用 k8s 部*"),
        ("你好,世", "你好 好 世*"),
        ("你好 世界", "你好 好 世界"),
        ("a,库", "a 库*"),
        ("👍🏽", "👍 🏽"),
    ],
)
def test_query_parts(term, parts):
    expected = [QueryToken(part.removesuffix("*"), part.endswith("*")) for part in parts.split()]
    assert query_parts(term) == expected


def test_a_prefix_is_the_last_part():
    assert query_parts("chat-se", prefix=True) == [
        QueryToken("chat"),
        QueryToken("se", prefix=True),
    ]
    assert query_parts("数据库", prefix=True) == [
        QueryToken("数据"),
        QueryToken("据库", prefix=True),
    ]
    assert query_parts("-", prefix=True) == []


@pytest.mark.parametrize(
    ("text", "term"),
    [
        ("我们使用Kubernetes部署服务", "使用Kubernetes部署"),
        ("我们使用Kubernetes部署服务", "用kubernetes部"),
        ("我们使用Kubernetes部署服务", "kubernetes"),
        ("数据库连接", "据库连"),
        ("你好，世界", "好，世"),
    ],
)
def test_mixed_terms_are_found(text, term):
    assert is_found(query_parts(term), words(text))


@pytest.mark.parametrize(
    ("text", "term"),
    [
        ("数据库", "数库"),
        ("数据连接库", "据库"),
        ("使用了Kubernetes", "使用Kubernetes"),
        ("你好世界", "你好，世界"),
        ("kubernetes", "kube"),
    ],
)
def test_other_texts_are_not_found(text, term):
    assert not is_found(query_parts(term), words(text))


@given(any_text, st.data())
def test_every_piece_of_a_text_is_found_in_it(text, data):
    # Anywhere inside CJK runs; elsewhere between words.
    inside = {
        position
        for span in spans(text)
        if span.kind != "cjk"
        for position in range(span.start + 1, span.end)
    }
    allowed = sorted(boundaries(text) - inside)
    start = data.draw(st.sampled_from(allowed))
    end = data.draw(st.sampled_from(allowed))
    assert is_found(query_parts(text[start:end]), words(text))


cjk_texts = st.text("数据库使用部署がカー한국", min_size=1, max_size=12)


@given(cjk_texts, cjk_texts)
def test_a_cjk_term_is_found_exactly_where_it_is_contained(text, term):
    assert is_found(query_parts(term), words(text)) == (term in text)


@given(st.text("数据ab ,", max_size=12), st.text("数据ab,", min_size=1, max_size=5))
def test_mixed_terms_are_found_exactly_where_they_are_contained(text, term):
    # As runs with bars between them: a Latin run must be whole, a CJK run may go on at the ends.
    runs = re.findall("[ab]+|[数据]+", term)
    wanted = "|".join(runs)
    if runs:
        wanted = ("|" if runs[0] < "c" else "") + wanted + ("|" if runs[-1] < "c" else "")
    whole = "|".join(["", *re.findall("[ab]+|[数据]+", text), ""])
    assert is_found(query_parts(term), words(text)) == (wanted in whole)
