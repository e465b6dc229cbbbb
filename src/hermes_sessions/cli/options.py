"""Options that several commands share."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import click

from hermes_sessions.cli.console import Console
from hermes_sessions.cli.selection import SelectionOptions
from hermes_sessions.errors import InvalidInput

#: Numbers of this many digits always fit into 64 bits.
_DIGITS = 18
_MORE_THAN_ANY = 10**_DIGITS


def pass_console(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command ``--json`` and ``--plain``, and the console as its first argument.

    Use it as the innermost decorator, below the command's own options.
    """

    def command(context: click.Context, *, as_json: bool, plain: bool, **values: Any) -> None:
        console: Console = context.obj
        function(console._replace(as_json=as_json, plain=plain or console.plain), **values)

    functools.update_wrapper(command, function)
    decorated: Callable[..., None] = click.pass_context(command)
    for option in (_PLAIN, _JSON):
        decorated = option(decorated)
    return decorated


_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
_PLAIN = click.option(
    "--plain", is_flag=True, help="Print without colour, line drawing and progress bars."
)

source_option = click.option(
    "--source", metavar="NAME", help="Only sessions from this source: cli, telegram, discord, …"
)
yes_option = click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")


def selection_options(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that select sessions, and their values as *selection*."""

    def command(**values: Any) -> None:
        given = SelectionOptions(**{name: values.pop(name) for name in SelectionOptions._fields})
        if given.here and given.workspace is not None:
            raise click.UsageError("--here and --workspace cannot be combined.")
        function(**values, selection=given)

    functools.update_wrapper(command, function)
    decorated: Callable[..., None] = command
    for option in reversed(_SELECTION_OPTIONS):
        decorated = option(decorated)
    return decorated


def _tags(_context: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> Any:
    from hermes_sessions.model.labels import normalize_tag

    try:
        return tuple(map(normalize_tag, value))
    except InvalidInput as error:
        raise click.BadParameter(str(error), param=parameter) from error


def _pairs(_context: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> Any:
    pairs = [text.partition("=") for text in value]
    for text, (key, sign, _) in zip(value, pairs, strict=True):
        if not key or not sign:
            raise click.BadParameter(f"{text!r} is not KEY=VALUE.", param=parameter)
    return tuple((key, wanted) for key, _, wanted in pairs)


_SELECTION_OPTIONS = (
    click.option(
        "--tag",
        "tags",
        metavar="NAME",
        multiple=True,
        callback=_tags,
        help="Only sessions with this tag. Can be repeated: all must be there.",
    ),
    click.option(
        "--not-tag",
        "exclude_tags",
        metavar="NAME",
        multiple=True,
        callback=_tags,
        help="Only sessions without this tag. Can be repeated.",
    ),
    click.option(
        "--meta",
        "metadata",
        metavar="KEY=VALUE",
        multiple=True,
        callback=_pairs,
        help="Only sessions whose metadata has this value. Can be repeated.",
    ),
    click.option(
        "--workspace",
        metavar="NAME",
        help="Only sessions of this workspace: a name, an id or a directory.",
    ),
    click.option("--here", is_flag=True, help="Only sessions of the current directory's project."),
)


def whole_number(at_least: int) -> Callable[[click.Context, click.Parameter, str], int]:
    """Return a callback that checks an option for a whole number of at least *at_least*."""

    def check(_context: click.Context, parameter: click.Parameter, value: str) -> int:
        # A number with too many digits means "no limit".
        number = _MORE_THAN_ANY if value.isdecimal() and len(value) > _DIGITS else value
        if not value.isdecimal() or int(number) < at_least:
            raise click.BadParameter(
                f"{value!r} is not a whole number ({at_least} or more).", param=parameter
            )
        return int(number)

    return check


def number_of_days(_context: click.Context, parameter: click.Parameter, value: str) -> float:
    """Return the value of an option as a number of days; fractions are allowed.

    Raises:
        click.BadParameter: not a number, negative, or infinite.
    """
    try:
        days = float(value)
    except ValueError:
        days = math.nan
    if not 0 <= days < math.inf:
        raise click.BadParameter(f"{value!r} is not a number of days (0 or more).", param=parameter)
    return days


def moment(console: Console, name: str, value: str | None) -> float | None:
    """Return the time that an option names, in whole seconds, so that it can be repeated.

    Raises:
        click.BadParameter: it is not a time.
    """
    if value is None:
        return None
    from hermes_sessions.text.query.filters import read_time  # not loaded at every start

    found = read_time(value, console.clock())
    if found is None:
        raise click.BadParameter(
            f"{value!r} is not a date. Use 2026-05-01, 2026-05, 2026-05-01T10:30, an age such as "
            f"30min, 12h, 7d or 2w, today or yesterday.",
            param_hint=f"'--{name}'",
        )
    return float(math.floor(found))


def time_span(
    console: Console, since: str | None, until: str | None
) -> tuple[float | None, float | None]:
    """Return the times that ``--since`` and ``--until`` name.

    Raises:
        click.BadParameter: one is not a time, or --until is not later than --since.
    """
    after, before = moment(console, "since", since), moment(console, "until", until)
    if after is not None and before is not None and after >= before:
        raise click.BadParameter("It must be later than --since.", param_hint="'--until'")
    return after, before
