"""Markdown as HTML, and what is sent."""

from __future__ import annotations

import json
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_sessions.gateway.events import Target
from hermes_sessions.gateway.platforms.matrix.formatting import (
    TEXT_BYTES,
    edit_content,
    message_content,
    sendable,
    to_html,
    transaction_id,
)
from hermes_sessions.gateway.platforms.text_splitter import measure

#: Those that the specification recommends to clients.
ALLOWED = set(
    "p br strong em del code pre a h1 h2 h3 h4 h5 h6 hr blockquote ul ol li table thead tbody "
    "tr th td".split()
)


@pytest.mark.parametrize(
    ("markdown", "html"),
    [
        ("**bold** *it* ~~no~~", "<p><strong>bold</strong> <em>it</em> <del>no</del></p>"),
        ("# Title\nText", "<h1>Title</h1><p>Text</p>"),
        ("a `x < 1` b\nc", "<p>a <code>x &lt; 1</code> b<br>c</p>"),
        (
            "```python\nif a < b:\n```",
            '<pre><code class="language-python">if a &lt; b:\n</code></pre>',
        ),
        ("- a\n- b\n  - c\n- d", "<ul><li>a</li><li>b<ul><li>c</li></ul></li><li>d</li></ul>"),
        ("3. a\n4. b", '<ol start="3"><li>a</li><li>b</li></ol>'),
        ("> a\n> > b", "<blockquote><p>a</p><blockquote><p>b</p></blockquote></blockquote>"),
        ("a\n\n---\nb", "<p>a</p><hr><p>b</p>"),
        (
            "|a|b|\n|-|-|\n|1|`2`|",
            (
                "<table><thead><tr><th>a</th><th>b</th></tr></thead>"
                "<tbody><tr><td>1</td><td><code>2</code></td></tr></tbody></table>"
            ),
        ),
        (
            '[x](https://x.org/?a=1&b="2")',
            '<p><a href="https://x.org/?a=1&amp;b=&quot;2&quot;">x</a></p>',
        ),
        ("[x](javascript:alert) *y*", "<p>[x](javascript:alert) <em>y</em></p>"),
        (r"\*no\* *yes*", "<p>*no* <em>yes</em></p>"),
    ],
)
def test_markup(markdown: str, html: str) -> None:
    assert to_html(markdown) == html


@pytest.mark.parametrize(
    "text", ["Hello", "two\nlines", "two\n\nparagraphs", "1 < 2 & <b>x</b>", ""]
)
def test_plain_text_needs_no_html(text: str) -> None:
    assert to_html(text) is None


class _Checker(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.opened: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ALLOWED
        assert {name for name, _ in attrs} <= {"href", "class", "start"}
        if tag not in {"br", "hr"}:
            self.opened.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.opened.pop() == tag


SIGNS = "*_`~#>-|[]()<>&\"'\\!1. \n\tx👩"
MARKS = st.sampled_from([*SIGNS, "```", "- ", "](https://x)"])


@given(st.lists(MARKS, max_size=60).map("".join))
def test_whatever_is_written_the_html_is_whole(markdown: str) -> None:
    checker = _Checker()
    checker.feed(to_html(markdown) or "")
    checker.close()
    assert checker.opened == []


def test_what_cannot_be_sent_is_replaced() -> None:
    assert sendable("\ud83d NUL\0 bell\a\r\nend\t") == "\ufffd NUL? bell?\nend\t"


def test_a_message_calls_nobody_by_accident() -> None:
    content = message_content(Target("matrix", "!r:x"), "@room **look**")
    assert content == {
        "msgtype": "m.text",
        "body": "@room **look**",
        "m.mentions": {},
        "format": "org.matrix.custom.html",
        "formatted_body": "<p>@room <strong>look</strong></p>",
    }


def test_where_an_answer_stands() -> None:
    def relation(**values: object) -> object:
        return message_content(Target("matrix", "!r:x", **values), "x").get("m.relates_to")  # type: ignore[arg-type]

    assert relation() is None
    assert relation(reply_to="$a") is None
    assert relation(reply_to="$a", extra={"is_group": True}) == {
        "m.in_reply_to": {"event_id": "$a"}
    }
    assert relation(reply_to="nonsense", extra={"is_group": True}) is None
    assert relation(thread_id="$t", reply_to="$a") == {
        "rel_type": "m.thread",
        "event_id": "$t",
        "is_falling_back": True,
        "m.in_reply_to": {"event_id": "$a"},
    }


def test_a_change_names_what_it_changes() -> None:
    content = edit_content("$a", "new")
    assert content["m.relates_to"] == {"rel_type": "m.replace", "event_id": "$a"}
    assert content["m.new_content"]["body"] == "new"
    assert content["body"] == "* new"


@pytest.mark.parametrize(
    "piece", ["x", '"', "\\", "\n", "<", "&", "`<` ", "**&** ", "漢", "😀", "\0"]
)
def test_the_longest_text_fits_an_event(piece: str) -> None:
    """Also when it is a change, and encrypted."""
    text = piece * (TEXT_BYTES // measure(piece, "bytes"))
    target = Target("matrix", "!r:x", "$" + "t" * 254, "$" + "r" * 254)
    for content in (message_content(target, text), edit_content("$" + "e" * 254, text)):
        size = len(json.dumps(content, ensure_ascii=False).encode())
        # Base64 of it, and what stands around it.
        assert size * 4 / 3 + 2000 < 65_536


def test_the_same_key_is_the_same_message_and_another_store_has_others() -> None:
    one = transaction_id("salt", "!r:x", "1.0")
    assert transaction_id("salt", "!r:x", "1.0") == one
    others = {
        transaction_id("pepper", "!r:x", "1.0"),
        transaction_id("salt", "!other:x", "1.0"),
        transaction_id("salt", "!r:x", "1.1"),
    }
    assert len(others | {one}) == 4
