"""``hermes sessions search``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import click

from hermes_sessions.cli.console import Console
from hermes_sessions.cli.options import pass_console, selection_options, time_span, whole_number
from hermes_sessions.cli.render.search_results import HitContext, hit_lines, search_report_lines
from hermes_sessions.cli.render.shell_commands import command_line
from hermes_sessions.cli.selection import SelectionOptions
from hermes_sessions.cli.session_lookup import find_session, preview_of_session
from hermes_sessions.cli.store import open_for_searching
from hermes_sessions.storage.search.answer import Hit, SearchAnswer
from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions.text.query.filters import SearchConditions
from hermes_sessions.text.query.parser import filter_name

_NOTHING_FOUND = 1
_OPERATORS = frozenset({"AND", "OR", "NOT"})
_SYNTAX = frozenset('()"“”„‟«»「」『』＂')


class _SearchCommand(click.Command):
    """A command whose error explains how to search for words that look like options."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments.

        Raises:
            click.UsageError: an option is unknown; with a single dash it may be a search word.
        """
        words = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if error.option_name.startswith("--"):
                raise
            word = next((w for w in words if w.startswith(error.option_name)), error.option_name)
            raise click.UsageError(
                f"No such option: {word}. If a search word starts with a dash, write -- before the "
                f"query, as in '{command_line('search', '--', 'docker', '-compose')}'.",
                ctx,
            ) from error


def _several(name: str, metavar: str, text: str) -> Callable[..., Any]:
    return click.option(name, metavar=metavar, multiple=True, help=f"{text} Can be repeated.")


@click.command(cls=_SearchCommand, short_help="Search messages.")
@click.argument("words", metavar="QUERY...", nargs=-1)
@_several("--source", "NAME", "Only sessions from this source: cli, telegram, …")
@_several("--role", "NAME", "Only messages with this role: user, assistant, tool.")
@click.option(
    "--since", metavar="WHEN", help="Only messages at or after this time: 2026-05-01, 7d, today."
)
@click.option("--until", metavar="WHEN", help="Only messages before this time.")
@_several("--session", "ID", "Only this session and the earlier parts it continues.")
@_several("--tool", "NAME", "Only calls and results of this tool.")
@_several("--user", "ID", "Only sessions of this user.")
@_several("--model", "NAME", "Only sessions with this model, or a part of its name.")
@click.option(
    "--sort",
    type=click.Choice(["relevance", "newest", "oldest"]),
    default="relevance",
    show_default=True,
    help="The order of the results.",
)
@click.option(
    "--limit",
    metavar="N",
    default="10",
    callback=whole_number(at_least=1),
    show_default=True,
    help="How many messages to show.",
)
@click.option(
    "--cursor", metavar="PLACE", help="Continue after an earlier page; search prints the value."
)
@click.option("--exact", is_flag=True, help="Do not relax the query if nothing matches.")
@selection_options
@pass_console
def search(
    console: Console,
    *,
    words: tuple[str, ...],
    sort: str,
    limit: int,
    cursor: str | None,
    exact: bool,
    selection: SelectionOptions,
    **filters: Any,
) -> None:
    """Search messages.

    All words must occur, in any order. Quotes keep a phrase together, AND and +word require a
    word, OR allows either, NOT and -word exclude, and word* matches beginnings. Filters such as
    "source:telegram" and "before:2026-05-01" narrow the results further, in addition to the
    options. Write -- before a query that contains words starting with a dash.

    If nothing matches, the query is relaxed, and the last line says how; AND, +word, quotes,
    exclusions and filters still apply. Exits with 1 if nothing is found.
    """
    text = _as_query(words)
    if not text.strip() and not any(filters.values()) and not selection:
        raise click.UsageError(
            "Nothing to search for. Give some words or a filter.",
            click.get_current_context(),
        )
    with open_for_searching(console) as db:
        conditions = selection.read(db).narrowed(_conditions(console, db, filters))
        answer = db.search(
            text,
            conditions=conditions,
            limit=limit,
            sort=sort,
            cursor=cursor,
            relax=not exact,
        )
        if console.as_json:
            from hermes_sessions.cli.render.json_output import answer_document

            console.print_json(answer_document(answer))
        else:
            _print_text(console, db, answer, conditions)
    if not answer.hits:
        raise click.exceptions.Exit(_NOTHING_FOUND)


# ── the query ─────────────────────────────────────────────────────────────────────────────────


def _as_query(words: Sequence[str]) -> str:
    """Return the query that was typed: one argument is all of it, several are its words."""
    if len(words) == 1:
        return words[0]
    return " ".join(map(_kept_together, words))


def _kept_together(word: str) -> str:
    """Return an argument as part of a query, with the quotes that the shell removed."""
    if not word.strip() or not any(map(str.isspace, word)) or _SYNTAX.intersection(word):
        return word
    if _OPERATORS.intersection(word.split()):
        return f"({word})"
    name, colon, value = word.partition(":")
    if colon and value.strip() and filter_name(name.lstrip("-")) is not None:
        return f'{name}:"{value}"'
    sign = word[0] if word[0] in "+-" else ""
    return f'{sign}"{word.removeprefix(sign)}"'


def _conditions(console: Console, db: SessionDB, filters: dict[str, Any]) -> SearchConditions:
    after, before = time_span(console, filters["since"], filters["until"])
    sessions = [
        part
        for reference in filters["session"]
        for part in db.get_compression_lineage(find_session(db, reference)["id"])
    ]
    return SearchConditions(
        sources=filters["source"] or None,
        roles=filters["role"],
        tools=filters["tool"],
        users=filters["user"],
        models=filters["model"],
        sessions=tuple(dict.fromkeys(sessions)),
        after=after,
        before=before,
    )


# ── the answer ────────────────────────────────────────────────────────────────────────────────


def _print_text(
    console: Console, db: SessionDB, answer: SearchAnswer, conditions: SearchConditions
) -> None:
    style, now = console.style, console.clock()
    names: dict[str, str] = {}
    for hit in answer.hits:
        if hit.session_id not in names:
            names[hit.session_id] = hit.title or preview_of_session(db, hit.session_id)
        hit_context = _hit_context(db, hit, names[hit.session_id])
        console.print([*hit_lines(hit, hit_context, now=now, style=style), ""])
    console.print(search_report_lines(answer, style))
    if answer.next_cursor:
        # "7d" would mean another time when the next page is requested.
        moments = {"since": _written(conditions.after), "until": _written(conditions.before)}
        console.print(f"Next page: {_next_page(answer.next_cursor, moments)}")


def _hit_context(db: SessionDB, hit: Hit, name: str) -> HitContext:
    window = db.get_messages_around(hit.session_id, hit.id, window=1)["window"]
    ids = [message["id"] for message in window]
    if hit.id not in ids:
        return HitContext(name=name)
    at = ids.index(hit.id)
    before = window[at - 1] if at > 0 else None
    after = window[at + 1] if at + 1 < len(window) else None
    if hit.matched == "title":
        # The title matched; the hit is the first message of its session.
        return HitContext(name=name, after=window[at])
    return HitContext(name=name, before=before, after=after)


def _written(moment: float | None) -> str | None:
    if moment is None:
        return None
    return datetime.fromtimestamp(moment).astimezone().isoformat()


def _next_page(cursor: str, moments: Mapping[str, str | None]) -> str:
    """Return the command that was typed, with the cursor of the next page."""
    context = click.get_current_context()
    options: list[str] = []
    for parameter in context.command.params:
        name = parameter.name or ""
        value = moments.get(name) or context.params.get(name)
        if not isinstance(parameter, click.Option) or name == "cursor" or not value:
            continue
        if parameter.is_flag:
            options.append(parameter.opts[0])
        elif str(value) != parameter.default:
            for item in value if isinstance(value, tuple) else (value,):
                options += [parameter.opts[0], str(item)]
    words = context.params["words"]
    separator = ["--"] if any(word.startswith("-") for word in words) else []
    return command_line("search", *options, "--cursor", cursor, *separator, *words)
