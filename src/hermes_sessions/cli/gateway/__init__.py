"""``hermes gateway``: run the agent on messengers."""

from __future__ import annotations

import click

from hermes_sessions.cli.lazy_group import LazyCommand, LazyGroup, show_help_without_command

_HERE = "hermes_sessions.cli.gateway"

COMMANDS = {
    "setup": LazyCommand(
        f"{_HERE}.setup:setup",
        "Set up a messenger and write its configuration.",
    ),
    "run": LazyCommand(f"{_HERE}.run:run", "Connect the agent to the enabled messengers."),
    "chat": LazyCommand(f"{_HERE}.chat:chat", "Chat with the agent of a running gateway."),
    "status": LazyCommand(
        f"{_HERE}.status:status", "Show running gateways, queued messages and failures."
    ),
    "stop": LazyCommand(f"{_HERE}.stop_restart:stop", "Finish running turns and stop."),
    "restart": LazyCommand(f"{_HERE}.stop_restart:restart", "Finish running turns and restart."),
    "queue": LazyCommand(f"{_HERE}.queue:queue", "Show queued messages and unsent replies."),
    "pair": LazyCommand(f"{_HERE}.pair:pair", "Let a user talk to the agent."),
    "explain": LazyCommand(
        "hermes_sessions.cli.sessions.explain:explain",
        "Explain why a conversation uses its current session.",
    ),
}


@click.group(cls=LazyGroup, lazy_commands=COMMANDS, invoke_without_command=True)
@click.pass_context
def gateway(context: click.Context) -> None:
    """Run the agent on messengers.

    Enable platforms in config.yaml, or let hermes gateway setup do it: see docs/gateway.md.
    """
    show_help_without_command(context)
