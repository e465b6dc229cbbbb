"""Markdown on WhatsApp: as it is meant, and never longer."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hermes_sessions.gateway.platforms.markdown import readable
from hermes_sessions.gateway.platforms.text_splitter import measure
from hermes_sessions.gateway.platforms.whatsapp.formatting import to_whatsapp

markdown = st.text(
    st.one_of(st.sampled_from("ab *_~`[]()<>&\"'\\#>|-!:\n\nhttps://"), st.characters()),
    max_size=200,
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("a < b && c > d", "a < b && c > d"),
        ("**bold** and __bold__", "*bold* and *bold*"),
        ("*italic* and _italic_", "_italic_ and _italic_"),
        ("**bold with *italic* in it**", "*bold with _italic_ in it*"),
        ("~~gone~~", "~gone~"),
        ("`a < b` and ``a ` b``", "`a < b` and a ` b"),
        ("snake_case_name and 2*3*4 = 24", "snake_case_name and 2*3*4 = 24"),
        ("5 * 3 * 2", "5 * 3 * 2"),
        (r"\# not a title", "# not a title"),
        ("[a link](https://x.org/?a=1&b=2)", "a link (https://x.org/?a=1&b=2)"),
        ("[https://x.org](https://x.org)", "https://x.org"),
        ("![a picture](https://x.org/p.png)", "a picture (https://x.org/p.png)"),
        ("# Title\ntext", "*Title*\ntext"),
        ("# **Title** twice", "*Title* twice"),
        ("- one\n  * two\n+ three", "- one\n  - two\n- three"),
        ("1. one\n2. two", "1. one\n2. two"),
        ("> quoted\n> **more**\nafter", "> quoted\n> *more*\nafter"),
        ("a\n\n---\n\nb", "a\n\n———\n\nb"),
        ("```python\nif a < b:\n```", "```\nif a < b:\n```"),
        ("x\n```\n**raw**\n```\ny", "x\n```\n**raw**\n```\ny"),
        ("~~~c++\nnever closed", "```\nnever closed"),
        ("````\n```\n````", "```"),
        ("|a|b|\n|-|-|\n|1|2|\nend", "```|a|b|\n|1|2|```\nend"),
        ("a|b\n-|-\n1|2", "a|b\n-|-\n1|2"),
        ("**unclosed", "**unclosed"),
        ("# ", "# "),
    ],
)
def test_markup(text: str, shown: str) -> None:
    assert to_whatsapp(text) == shown


@given(markdown)
@example("**" * 100 + "a" + "**" * 100)
@example("```")
@example("```\n```")
@example("~~~x\ny")
@example("a|b\n-|-")
@example("[a](b(c))")
@example("\ud83d and \x00")
def test_it_is_not_longer_and_can_be_sent(text: str) -> None:
    shown = to_whatsapp(text)
    assert measure(shown, "utf16") <= measure(text, "utf16")
    assert bool(shown.strip()) is bool(readable(text).strip())
    shown.encode()


@given(st.text(max_size=100))
def test_letters_are_never_lost(text: str) -> None:
    letters = [character for character in readable(text) if character.isalpha()]
    assert [c for c in to_whatsapp(text) if c.isalpha()] == letters


@pytest.mark.parametrize(
    "sign", ["*a ", "`", "` ", "[", "[a](", "_a", "**a", "~~a", "\\", "|-", "> ", "a|\n-|-\n"]
)
def test_a_whole_message_of_signs_comes_to_an_end(sign: str) -> None:
    signs = sign * (4096 // len(sign))
    assert measure(to_whatsapp(signs), "utf16") <= 4096
