"""The top of the command tree."""

from __future__ import annotations

import click

from hermes_sessions.cli.lazy_group import LazyCommand, LazyGroup, show_help_without_command

COMMANDS = {
    "chat": LazyCommand(
        "hermes_sessions.cli.chat.command:chat", "Talk to a model; also as hermes alone."
    ),
    "sessions": LazyCommand(
        "hermes_sessions.cli.sessions:sessions", "List, read and manage stored sessions."
    ),
    "insights": LazyCommand(
        "hermes_sessions.cli.insights:insights",
        "Show how the store was used: models, tools, hours, cost.",
    ),
    "gateway": LazyCommand("hermes_sessions.cli.gateway:gateway", "Run the agent on messengers."),
    "status": LazyCommand(
        "hermes_sessions.cli.status:status",
        "Show how the store is, what it holds and what waits.",
    ),
    "doctor": LazyCommand(
        "hermes_sessions.cli.doctor:doctor",
        "Look for trouble with the store, and say what to do.",
    ),
    "repair": LazyCommand(
        "hermes_sessions.cli.repair:repair", "Save what can be read of a damaged SQLite file."
    ),
    "forget": LazyCommand(
        "hermes_sessions.cli.forget:forget",
        "Erase what is known of a person, a chat or a session.",
    ),
    "backup": LazyCommand(
        "hermes_sessions.cli.backup:backup", "Make backups of the store, and restore them."
    ),
    "completion": LazyCommand(
        "hermes_sessions.cli.completion:completion", "Print the completion script of a shell."
    ),
    "model": LazyCommand(
        "hermes_sessions.cli.model:model", "Look after the model that answers in a chat."
    ),
    "sessiondb": LazyCommand(
        "hermes_sessions.cli.sessiondb:sessiondb",
        "Look after the database, and move to another one.",
    ),
}


def _print_version(context: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if not wanted or context.resilient_parsing:
        return
    from importlib.metadata import version

    click.echo(f"Hermes Sessions {version('hermes-sessions')}")
    context.exit()


@click.group(
    cls=LazyGroup,
    lazy_commands=COMMANDS,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_print_version,
    help="Show the version and exit.",
)
@click.option(
    "--plain",
    is_flag=True,
    help="No colour, no line drawing, no progress bars, a fixed layout; for all commands.",
)
@click.pass_context
def hermes(context: click.Context, plain: bool) -> None:
    """Every conversation with an agent, kept, found and resumed.

    Alone, hermes talks to a model. hermes -c goes on with the latest session, hermes -c NAME with
    that one, hermes -q TEXT asks once; hermes chat --help has the rest.

    The store is in HERMES_HOME (default ~/.hermes), settings are in config.yaml there.
    """
    if plain:
        context.obj = context.obj._replace(plain=True)
    show_help_without_command(context)
