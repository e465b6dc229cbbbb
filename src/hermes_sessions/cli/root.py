"""The top of the command tree."""

from __future__ import annotations

import click

from hermes_sessions.cli.lazy_group import LazyCommand, LazyGroup, show_help_without_command

COMMANDS = {
    "chat": LazyCommand(
        "hermes_sessions.cli.chat.command:chat",
        "Chat with a model; the same as hermes without a command.",
    ),
    "sessions": LazyCommand(
        "hermes_sessions.cli.sessions:sessions", "List, read and manage stored sessions."
    ),
    "workspaces": LazyCommand(
        "hermes_sessions.cli.workspaces:workspaces",
        "List and correct the projects that sessions belong to.",
    ),
    "insights": LazyCommand(
        "hermes_sessions.cli.insights:insights",
        "Show usage: models, tools, activity and cost.",
    ),
    "gateway": LazyCommand("hermes_sessions.cli.gateway:gateway", "Run the agent on messengers."),
    "status": LazyCommand(
        "hermes_sessions.cli.status:status",
        "Show the store's health, contents and backlog.",
    ),
    "doctor": LazyCommand(
        "hermes_sessions.cli.doctor:doctor",
        "Check the store for problems and say how to fix them.",
    ),
    "repair": LazyCommand(
        "hermes_sessions.cli.repair:repair", "Recover data from a damaged SQLite file."
    ),
    "forget": LazyCommand(
        "hermes_sessions.cli.forget:forget",
        "Erase all data about a user, a chat or a session.",
    ),
    "backup": LazyCommand("hermes_sessions.cli.backup:backup", "Back up and restore the store."),
    "completion": LazyCommand(
        "hermes_sessions.cli.completion:completion", "Print a shell completion script."
    ),
    "model": LazyCommand(
        "hermes_sessions.cli.model:model", "Show or install the model that answers in a chat."
    ),
    "sessiondb": LazyCommand(
        "hermes_sessions.cli.sessiondb:sessiondb",
        "Inspect, verify and migrate the database.",
    ),
    "adopt": LazyCommand(
        "hermes_sessions.cli.adopt:adopt", "Let hermes-agent in this environment use this store."
    ),
    "unadopt": LazyCommand("hermes_sessions.cli.adopt:unadopt", "Take back hermes-sessions adopt."),
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
    help="Print without colour, line drawing and progress bars, in a fixed layout.",
)
@click.pass_context
def hermes(context: click.Context, plain: bool) -> None:
    """Store, search and resume every conversation with an agent.

    Without a command, hermes starts a chat with a model. hermes -c continues the latest session,
    hermes -c NAME the session with that title, and hermes -q TEXT asks a single question; for
    more, see hermes chat --help.

    The store is in HERMES_HOME (default ~/.hermes); its settings are in config.yaml there.
    """
    if plain:
        context.obj = context.obj._replace(plain=True)
    show_help_without_command(context)
