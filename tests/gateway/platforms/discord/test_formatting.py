"""Markdown as Discord shows it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_sessions.gateway.platforms.discord.formatting import to_discord
from hermes_sessions.gateway.platforms.text_splitter import measure


@pytest.mark.parametrize(
    ("markdown", "shown"),
    [
        ("# Title", "# Title"),
        ("**bold** *it* ~~no~~ `code` [a](https://x.org)", None),
        ("> quoted\n- one\n  - two", None),
        ("#### Deep ####", "**Deep**"),
        ("###### ", "###### "),
        ("a\n\n---\n\nb", "a\n\n———\n\nb"),
        ("![a cat](https://x.org/c.png)", "[a cat](https://x.org/c.png)"),
        ("`![a](b)`", None),
        ("a|b\n-|-\n1|2\nafter", "```\na|b\n-|-\n1|2\n```\nafter"),
        ("```\n---\n#### x\na|b\n-|-\n```", None),
        ("half \ud83d", "half \ufffd"),
        ("NUL \0", "NUL \ufffd"),
        ("\n\n", "…"),
        ("<@7> <#30> @everyone", None),
    ],
)
def test_what_is_shown(markdown: str, shown: str | None) -> None:
    assert to_discord(markdown) == (markdown if shown is None else shown)


def test_a_table_that_would_not_fit_stays_as_it_is() -> None:
    table = "a|b\n-|-\n" + "x|y\n" * 498
    assert len(table) == 2000
    assert to_discord(table) == table


@given(st.text(max_size=2000))
def test_what_fits_still_does(text: str) -> None:
    if measure(text, "utf16") <= 2000:
        assert 0 < measure(to_discord(text), "utf16") <= 2000
