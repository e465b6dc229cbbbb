"""Markdown as Signal shows it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_sessions.gateway.platforms.signal.formatting import to_signal
from hermes_sessions.gateway.platforms.text_splitter import measure


@pytest.mark.parametrize(
    ("markdown", "text", "styles"),
    [
        ("plain", "plain", ()),
        ("**bold** x", "bold x", ("0:4:BOLD",)),
        ("*it* and _it_", "it and it", ("0:2:ITALIC", "7:2:ITALIC")),
        ("~~no~~", "no", ("0:2:STRIKETHROUGH",)),
        ("a `b c` d", "a b c d", ("2:3:MONOSPACE",)),
        ("😀 **é😀**", "😀 é😀", ("3:3:BOLD",)),
        ("**a *b* c**", "a b c", ("0:5:BOLD", "2:1:ITALIC")),
        ("# Title\n\ntext", "Title\n\ntext", ("0:5:BOLD",)),
        ("x\n```py\na = 1\n\nb\n```\ny", "x\na = 1\n\nb\ny", ("2:8:MONOSPACE",)),
        ("* one\n- two", "- one\n- two", ()),
        ("[docs](https://x.org)", "docs (https://x.org)", ()),
        ("[https://x.org](https://x.org)", "https://x.org", ()),
        ("|a|b|\n|-|-|\n|1|2|", "|a|b|\n|-|-|\n|1|2|", ("0:17:MONOSPACE",)),
        (r"\*not\* bold", "*not* bold", ()),
        ("snake_case_name 2*3*4", "snake_case_name 2*3*4", ()),
        ("\n\n**x**\n", "x", ("0:1:BOLD",)),
        ("```\n\n```", "```\n\n```", ()),
        ("NUL \0", "NUL", ()),
    ],
)
def test_examples(markdown: str, text: str, styles: tuple[str, ...]) -> None:
    assert to_signal(markdown) == (text, styles)


@given(st.text(st.sampled_from("ab *_~`#[]()|-\n\\😀é\ud83d\0"), max_size=60))
def test_whatever_is_written(markdown: str) -> None:
    text, styles = to_signal(markdown)
    assert measure(text, "bytes") <= measure(markdown, "bytes")
    assert bool(text.strip()) or not markdown.replace("\0", " ").strip()
    text.encode()
    for style in styles:
        start, length, _ = style.split(":")
        assert int(length) > 0
        assert int(start) + int(length) <= measure(text, "utf16")
