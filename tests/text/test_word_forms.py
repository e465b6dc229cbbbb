"""Forms, misspellings and spellings of words, decided on tokens."""

from __future__ import annotations

import pytest

from hermes_sessions.text.languages import common_words_of, languages_of
from hermes_sessions.text.synonyms import read_synonyms
from hermes_sessions.text.tokenizer import words
from hermes_sessions.text.word_forms import (
    Likeness,
    beginnings,
    in_another_script,
    is_misspelling,
    misspelt_beginnings,
    without_umlauts,
)


@pytest.mark.parametrize(
    ("question", "language"),
    [
        ("what did we decide about the kettle", "english"),
        ("Wann haben wir die Datenbank migriert?", "german"),
        ("Quand est-ce que nous avons corrigé l'erreur ?", "french"),
        ("¿Dónde está la copia de seguridad?", "spanish"),
        ("Когда мы обновили базу данных?", "russian"),
        ("Milloin olemme päivittäneet palvelimet?", "finnish"),
        ("متى قمنا من هذا", "arabic"),
    ],
)
def test_common_words_tell_the_language(question: str, language: str) -> None:
    assert languages_of(words(question)) == (language,)


def test_a_query_without_common_words_has_no_language() -> None:
    assert languages_of(["docker", "kettle"]) == ()
    assert "the" in common_words_of(())


@pytest.mark.parametrize(
    ("word", "token", "language"),
    [
        ("hauser", "haus", "german"),
        ("gemacht", "machen", "german"),
        ("serveurs", "serveur", "french"),
        ("contenedores", "contenedor", "spanish"),
        ("ошибки", "ошибкой", "russian"),
        ("serwery", "serwerow", "polish"),
        ("palvelimet", "palvelimen", "finnish"),
        ("sunuculari", "sunucu", "turkish"),
        ("الخادم", "خادم", "arabic"),
        ("השרת", "שרת", "hebrew"),
    ],
)
def test_forms_in_other_languages(word: str, token: str, language: str) -> None:
    likeness = Likeness(word, "form", (language,))
    assert likeness.includes(token)
    assert any(token.startswith(begin) for begin in beginnings(word, (language,)))


@pytest.mark.parametrize(
    ("word", "token"), [("kettle", "ketchup"), ("server", "sermon"), ("haus", "hand"), ("a", "ab")]
)
def test_other_words_are_no_forms(word: str, token: str) -> None:
    assert not Likeness(word, "form", ("german",)).includes(token)


@pytest.mark.parametrize(
    ("word", "token"),
    [
        ("kubernets", "kubernetes"),
        ("databse", "database"),
        ("recieve", "receive"),
        ("adress", "address"),
        ("konfiguratoin", "konfiguration"),
        ("eterminal", "terminal"),
    ],
)
def test_misspellings(word: str, token: str) -> None:
    assert is_misspelling(word, token)
    assert any(token.startswith(begin) for begin in misspelt_beginnings(word))


@pytest.mark.parametrize(
    ("word", "token"), [("cat", "car"), ("kettle", "cattle"), ("form", "farm")]
)
def test_short_words_and_other_words_are_no_misspellings(word: str, token: str) -> None:
    begins = misspelt_beginnings(word)
    assert not (is_misspelling(word, token) and any(token.startswith(b) for b in begins))


def test_umlauts_are_also_written_as_two_letters() -> None:
    assert without_umlauts("muller", "Müller") == ["mueller"]
    assert without_umlauts("mueller", "Mueller") == ["muller"]
    assert without_umlauts("kettle", "kettle") == []


@pytest.mark.parametrize(
    ("word", "other"),
    [("москва", "moskva"), ("moskva", "москва"), ("λογος", "logos"), ("12", None)],
)
def test_words_in_another_script(word: str, other: str | None) -> None:
    assert in_another_script(word) == other


def test_synonyms_can_be_added() -> None:
    found = read_synonyms(("kettle = boiler = water heater", "="))
    assert found["kettle"] == ("boiler", "water heater")
    assert found["water heater"] == ("kettle", "boiler")
    assert "kubernetes" in found["k8s"]
