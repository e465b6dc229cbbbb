"""Command groups that import a command when it is called.

``hermes sessions list`` must start fast, and not load what other commands need. A group is a table
of names, import targets and short helps, so that even ``--help`` imports no command.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

import click


class LazyCommand(NamedTuple):
    """The import target of a command (``package.module:name``) and its short help."""

    target: str
    short_help: str

    def load(self) -> click.Command:
        """Import and return the command."""
        module, _, name = self.target.partition(":")
        command: click.Command = getattr(import_module(module), name)
        return command


class QuickCommand(click.Command):
    """A command whose ``--help`` option skips the lookup of translations.

    There are none, and the lookup takes longer than the rest of the start.
    """

    _quick_help: click.Option | None = None

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        """Return the cached ``--help`` option."""
        names = self.get_help_option_names(ctx)
        if not names or not self.add_help_option:
            return None
        if self._quick_help is None:
            self._quick_help = click.Option(
                [*names, "show_help"],
                is_flag=True,
                expose_value=False,
                is_eager=True,
                help="Show this message and exit.",
                callback=_show_help,
            )
        return self._quick_help


def _show_help(context: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        click.echo(context.get_help(), color=context.color)
        context.exit()


class LazyGroup(QuickCommand, click.Group):
    """A group of commands that are loaded one by one; without a command it shows its help."""

    def __init__(self, *args: Any, lazy_commands: Mapping[str, LazyCommand], **kwargs: Any) -> None:
        kwargs.setdefault("invoke_without_command", True)
        super().__init__(*args, **kwargs)
        self.lazy_commands = lazy_commands

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, in the order of the table."""
        return [*self.lazy_commands, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of this name, imported now, or None."""
        lazy = self.lazy_commands.get(cmd_name)
        return lazy.load() if lazy else super().get_command(ctx, cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that *args* name.

        Raises:
            click.UsageError: there is no such command; suggests the closest name.
        """
        name = args[0]
        if not name.startswith("-") and self.get_command(ctx, name) is None:
            from difflib import get_close_matches

            near = get_close_matches(name.lower(), self.list_commands(ctx), n=1)
            hint = f" Did you mean '{near[0]}'?" if near else ""
            raise click.UsageError(f"No such command '{name}'.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing them."""
        rows = [(name, lazy.short_help) for name, lazy in self.lazy_commands.items()]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def show_help_without_command(ctx: click.Context) -> None:
    """Print the help of a group that was called without one of its commands."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
