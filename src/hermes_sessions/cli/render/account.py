"""How the hits of a search came about, in a few words."""

from __future__ import annotations

from collections.abc import Iterator

from hermes_sessions.cli.render.safe_text import one_line
from hermes_sessions.cli.render.style import Style
from hermes_sessions.cli.render.text_width import wrap
from hermes_sessions.storage.search.answer import COUNT_LIMIT, Account, Answer
from hermes_sessions.storage.search.executor import RANKED
from hermes_sessions.text.query.relaxation import AS_ASKED, INSIDE_WORDS

#: What people call the filters; others have names that can be shown.
_FILTERS = {
    "sources": "source",
    "roles": "role",
    "tools": "tool",
    "models": "model",
    "users": "user",
    "sessions": "session",
    "titles": "title",
    "conversations": "conversation",
    "after": "since",
    "before": "until",
}


def account_lines(answer: Answer, style: Style) -> list[str]:
    """Return the account of an answer, laid out for the width there is."""
    text = " ".join(_sentences(answer))
    return wrap(text, max(style.width, 16)) if style.width else [text]


def _sentences(answer: Answer) -> Iterator[str]:
    account = answer.account
    yield _count(len(answer.hits), account)
    if account.step not in (AS_ASKED, INSIDE_WORDS):
        # The finder has a note about looking inside words.
        yield f"Nothing matched as asked; found by: {account.step}."
    if account.repairs:
        yield f"The query was mended: {one_line('; '.join(account.repairs))}."
    if account.removed:
        removed = [_removed(name, number, account) for name, number in account.removed.items()]
        yield f"Filters left out: {', '.join(removed)}."
    yield from map(one_line, account.notes)
    if account.total > account.ranked >= RANKED and answer.hits:
        yield f"The newest {account.ranked:,} are ranked, the others follow by time."
    if not account.complete and account.not_indexed:
        yield "To index them now: hermes sessions optimize"


def _count(shown: int, account: Account) -> str:
    if not shown:
        return "Nothing found."
    total = f"{account.total:,}" if account.total_is_exact else f"{account.total:,}+"
    if account.total <= shown:
        matches = f"{account.total:,} match{'' if account.total == 1 else 'es'}"
        return f"{matches}." if account.total_is_exact else f"At least {matches}."
    return f"{shown} of {total} matches."


def _removed(name: str, number: int, account: Account) -> str:
    # Counting stops at a limit, with the filter and without it.
    more = "+" if number + account.total >= COUNT_LIMIT else ""
    excluded = name.removeprefix("exclude_")
    label = _FILTERS.get(excluded, excluded)
    return f"{number:,}{more} by {'-' if excluded != name else ''}{label}"
