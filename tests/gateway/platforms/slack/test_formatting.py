"""Markdown on Slack: as it is meant, and never a call to everybody."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hermes_sessions.gateway.platforms.markdown import readable
from hermes_sessions.gateway.platforms.slack.formatting import escape, to_mrkdwn
from hermes_sessions.gateway.platforms.slack.mapping import plain

markdown = st.text(
    st.one_of(st.sampled_from("ab *_~`[]()<>&\"'\\#>|-!@:\n\nhttps://U0"), st.characters()),
    max_size=200,
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("a < b && c > d", "a &lt; b &amp;&amp; c &gt; d"),
        ("**bold** and __bold__", "*bold* and *bold*"),
        ("*italic* and _italic_", "_italic_ and _italic_"),
        ("**bold with *italic* in it**", "*bold with _italic_ in it*"),
        ("~~gone~~", "~gone~"),
        ("`a < b` and ``a ` b``", "`a &lt; b` and a ` b"),
        ("snake_case_name and 2*3*4 = 24", "snake_case_name and 2*3*4 = 24"),
        (r"\*not italic\*", "*not italic*"),
        ("[a link](https://x.org/?a=1&b=2)", "<https://x.org/?a=1&amp;b=2|a link>"),
        ("[https://x.org](https://x.org)", "<https://x.org>"),
        ("[a|b](https://x.org)", "a|b <https://x.org>"),
        ('[x](https://x.org "title")', "<https://x.org|x>"),
        ("[x](https://en.org/a_(b))", "<https://en.org/a_(b)|x>"),
        ("[x](javascript:alert)", "[x](javascript:alert)"),
        ("[x](https://x.org/a|b)", "[x](https://x.org/a|b)"),
        ("![a picture](https://x.org/p.png)", "<https://x.org/p.png|a picture>"),
        ("see <https://x.org/?a&b>", "see <https://x.org/?a&amp;b>"),
        ("# Title\ntext", "*Title*\ntext"),
        ("# The **whole** title", "The *whole* title"),
        ("- one\n  * two\n+ three", "• one\n  • two\n• three"),
        ("1. one\n2. two", "1. one\n2. two"),
        ("> quoted **words**\nafter", ">quoted *words*\nafter"),
        ("a\n\n---\n\nb", "a\n\n———\n\nb"),
        ("```python\nif a < b:\n```", "```\nif a &lt; b:\n```"),
        ("x\n```\n**raw**\n```\ny", "x\n```\n**raw**\n```\ny"),
        ("```c++\nnever closed", "```\nnever closed"),
        ("|a|b|\n|---|---|\n|1|2|\nend", "```|a|b|\n|1|2|```\nend"),
        ("**unclosed", "**unclosed"),
        ("Ask <@U0ANNA> in <#C0GENERAL>", "Ask <@U0ANNA> in <#C0GENERAL>"),
        ("`<@U0ANNA>`", "`&lt;@U0ANNA&gt;`"),
        ("<!channel> <!here> <!everyone>", "&lt;!channel&gt; &lt;!here&gt; &lt;!everyone&gt;"),
        ("<!subteam^S1> <@everyone>", "&lt;!subteam^S1&gt; &lt;@everyone&gt;"),
        ("<b>not ours</b> &amp;", "&lt;b&gt;not ours&lt;/b&gt; &amp;amp;"),
    ],
)
def test_markup(text: str, shown: str) -> None:
    assert to_mrkdwn(text) == shown


@given(markdown)
@example("**" * 100 + "a" + "**" * 100)
@example("[<!channel>](https://x.org)")
@example("[x](https://x.org/<!here>)")
@example("<https://x.org/|<!here>>")
@example("\ud83d and \x00")
def test_only_people_channels_and_links_are_called(text: str) -> None:
    shown = to_mrkdwn(text)
    for inside in re.findall(r"<([^>]*)>", shown):
        assert re.match(
            r"@[UW][A-Z0-9]+$|#C[A-Z0-9]+$|https?:|mailto:|tel:", inside, re.IGNORECASE
        ), shown
    shown.encode()


@given(markdown)
def test_nothing_gets_longer_but_by_escaping(text: str) -> None:
    assert len(to_mrkdwn(text)) <= len(escape(readable(text)))


@given(st.text(st.characters(exclude_characters="*_~`[]()\\#>-+|!\n\0\ud800", codec="utf-8")))
def test_words_come_back_as_they_were(text: str) -> None:
    assert plain(escape(text)) == text
