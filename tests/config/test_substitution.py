import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_sessions.config.resolver import SubstitutionError, substitute

NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("", ""),
        ("${A}", "one"),
        ("x${A}y${B}z", "xoneytwoz"),
        ("${EMPTY}", ""),
        ("${MISSING:-fallback}", "fallback"),
        ("${MISSING:-}", ""),
        ("${MISSING:-a:-b}", "a:-b"),
        ("${EMPTY:-fallback}", "fallback"),
        ("${A:-fallback}", "one"),
        ("$${A}", "${A}"),
        ("$$${A}", "$${A}"),
        ("$A $ $$ {A}", "$A $ $$ {A}"),
        ("${NESTED}", "${A}"),
    ],
)
def test_references(text: str, expected: str) -> None:
    environ = {"A": "one", "B": "two", "EMPTY": "", "NESTED": "${A}"}
    assert substitute(text, environ).text == expected


def test_variables_are_reported_in_order() -> None:
    assert substitute("${B}${A:-x}$${C}", {"B": ""}).variables == ("B", "A")


def test_every_unset_variable_is_named_once() -> None:
    with pytest.raises(SubstitutionError, match=r"refers to ONE, TWO, not set") as caught:
        substitute("${ONE}${TWO}${ONE}${SET}", {"SET": "secret-value"})
    assert "secret-value" not in str(caught.value)


@pytest.mark.parametrize(
    "text", ["${", "${}", "${1A}", "${A", "${A-b}", "${A:b}", "${ A }", "${A:-${B}}", "${A:-{}}"]
)
def test_what_is_no_reference_is_refused(text: str) -> None:
    with pytest.raises(SubstitutionError, match=r"\$\$\{ for a literal"):
        substitute(text, {"A": "one", "B": "two"})


@given(st.text())
def test_escaped_text_comes_back_unchanged(text: str) -> None:
    assert substitute(text.replace("${", "$${"), {}) == (text, ())


@given(st.text(), st.text(), NAMES, st.text())
def test_a_value_is_inserted_as_it_is(before: str, after: str, name: str, value: str) -> None:
    # A dollar sign right before the reference would escape it.
    before = before.replace("$", "")
    after = after.replace("$", "")
    assert substitute(f"{before}${{{name}}}{after}", {name: value}).text == before + value + after


@given(st.text(alphabet="${}:-AB "), st.dictionaries(st.sampled_from("AB"), st.text()))
def test_any_text_gives_an_answer_or_a_substitution_error(
    text: str, environ: dict[str, str]
) -> None:
    try:
        result = substitute(text, environ)
    except SubstitutionError:
        return
    assert "${" in text or result == (text, ())
