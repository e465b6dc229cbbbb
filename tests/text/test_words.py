"""English words: stop words and word forms."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_sessions.text.english_words import STOP_WORDS, stem_variants
from hermes_sessions.text.tokenizer import words


def test_a_question_keeps_what_it_is_about():
    question = words("What did we decide about the cluster backups? I don't know.")
    assert [word for word in question if word not in STOP_WORDS] == ["decide", "cluster", "backups"]


def test_stop_words_are_tokens():
    assert all(words(word) == [word] for word in STOP_WORDS)


@pytest.mark.parametrize(
    ("word", "other"),
    [
        ("backups", "backup"),
        ("backup", "backups"),
        ("queries", "query"),
        ("query", "queries"),
        ("classes", "class"),
        ("caches", "cache"),
        ("indices", "index"),
        ("processes", "process"),
        ("deployed", "deploy"),
        ("deploy", "deployed"),
        ("deploying", "deployment"),
        ("deployments", "deploy"),
        ("decided", "decide"),
        ("decided", "decision"),
        ("caching", "cached"),
        ("planned", "planning"),
        ("debug", "debugging"),
        ("debugging", "debug"),
        ("retried", "retry"),
        ("running", "ran"),
        ("wrote", "written"),
        ("migrate", "migration"),
        ("migration", "migrated"),
        ("configuration", "configured"),
        ("optimize", "optimization"),
        ("installation", "install"),
        ("install", "installation"),
        ("connection", "connected"),
        ("compress", "compression"),
        ("compression", "compressed"),
        ("servers", "server"),
        ("tester", "testing"),
        ("quickly", "quick"),
        ("referred", "refer"),
        ("adding", "add"),
    ],
)
def test_forms_of_a_word(word, other):
    assert other in stem_variants(word)


@pytest.mark.parametrize(
    ("word", "other"),
    [("status", "statu"), ("class", "clas"), ("string", "str"), ("king", "k"), ("this", "thi")],
)
def test_what_looks_like_an_ending_may_be_none(word, other):
    assert other not in stem_variants(word)


@pytest.mark.parametrize("word", ["", "a", "go", "k8s", "数据", "straße", "Docker", "✅"])
def test_other_words_have_only_themselves(word):
    assert stem_variants(word) == {word}


@given(st.from_regex("[a-z]{1,15}(s|es|ed|ing|er|ion|ment|ly)?", fullmatch=True))
def test_forms_are_few_words_with_the_word_among_them(word):
    forms = stem_variants(word)
    assert word in forms
    assert len(forms) <= 24
    assert all(form.isascii() and form.isalpha() and form.islower() for form in forms)
