"""Markdown on Telegram: as it is meant, never refused, never longer."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hermes_sessions.gateway.platforms.markdown import readable
from hermes_sessions.gateway.platforms.telegram.formatting import to_html
from hermes_sessions.gateway.platforms.text_splitter import measure
from hermes_sessions_testing.fake_servers.telegram.markup import MarkupError, shown_text

markdown = st.text(
    st.one_of(st.sampled_from("ab *_~`[]()<>&\"'\\#>|-!:\n\nhttps://"), st.characters()),
    max_size=200,
)


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("plain", "plain"),
        ("a < b && c > d", "a &lt; b &amp;&amp; c &gt; d"),
        ("**bold** and __bold__", "<b>bold</b> and <b>bold</b>"),
        ("*italic* and _italic_", "<i>italic</i> and <i>italic</i>"),
        ("**bold with *italic* in it**", "<b>bold with <i>italic</i> in it</b>"),
        ("~~gone~~", "<s>gone</s>"),
        ("`a < b` and ``a ` b``", "<code>a &lt; b</code> and <code>a ` b</code>"),
        ("snake_case_name and 2*3*4 = 24", "snake_case_name and 2*3*4 = 24"),
        ("5 * 3 * 2", "5 * 3 * 2"),
        (r"\*not italic\*", "*not italic*"),
        ("[a link](https://x.org/?a=1&b=2)", '<a href="https://x.org/?a=1&amp;b=2">a link</a>'),
        ('[x](https://x.org "title")', '<a href="https://x.org">x</a>'),
        ("[x](https://en.org/a_(b))", '<a href="https://en.org/a_(b)">x</a>'),
        ("[x](javascript:alert)", "[x](javascript:alert)"),
        ("![a picture](https://x.org/p.png)", '<a href="https://x.org/p.png">a picture</a>'),
        ("# Title\ntext", "<b>Title</b>\ntext"),
        ("- one\n  * two\n+ three", "• one\n  • two\n• three"),
        ("1. one\n2. two", "1. one\n2. two"),
        ("> quoted\n> **more**\nafter", "<blockquote>quoted\n<b>more</b></blockquote>\nafter"),
        ("a\n\n---\n\nb", "a\n\n———\n\nb"),
        (
            "```python\nif a < b:\n```",
            '<pre><code class="language-python">if a &lt; b:</code></pre>',
        ),
        ("x\n```\n**raw**\n```\ny", "x\n<pre>**raw**</pre>\ny"),
        ("```c++\nnever closed", '<pre><code class="language-c++">never closed</code></pre>'),
        ("|a|b|\n|-|-|\n|1|2|\nend", "<pre>|a|b|\n|-|-|\n|1|2|</pre>\nend"),
        ("**unclosed", "**unclosed"),
        ("<b>not ours</b>", "&lt;b&gt;not ours&lt;/b&gt;"),
    ],
)
def test_markup(text: str, html: str) -> None:
    assert to_html(text) == html


@given(markdown)
@example("**" * 100 + "a" + "**" * 100)
@example("*a **b* c**")
@example("> > nested\n>> more")
@example("[**a](https://x.org)**")
@example("\ud83d and \x00")
def test_telegram_can_read_it_and_it_is_not_longer(text: str) -> None:
    shown = shown_text(to_html(text))
    assert measure(shown, "utf16") <= measure(text, "utf16")
    to_html(text).encode()


@given(st.text(max_size=100))
def test_letters_are_never_lost(text: str) -> None:
    letters = [character for character in readable(text) if character.isalpha()]
    assert [c for c in shown_text(to_html(text)) if c.isalpha()] == letters


def test_halves_are_joined_or_replaced() -> None:
    assert readable("\ud83d\ude00 \ud83d \0") == "😀 \ufffd \ufffd"


@pytest.mark.parametrize(
    "sign", ["*a ", "`", "` ", "[", "[a](", "_a", "**a", "~~a", "\\", "|-", "> "]
)
def test_a_whole_message_of_signs_comes_to_an_end(sign: str) -> None:
    signs = sign * (4096 // len(sign))
    assert measure(shown_text(to_html(signs)), "utf16") <= 4096


@pytest.mark.parametrize("html", ["<b>", "</b>", "<b><i></b></i>", "<x>a</x>", "a < b", "<b"])
def test_the_judge_refuses_what_telegram_refuses(html: str) -> None:
    with pytest.raises(MarkupError):
        shown_text(html)
