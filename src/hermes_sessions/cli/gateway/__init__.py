"""``hermes gateway``: an agent on messengers."""

from __future__ import annotations

import click

from hermes_sessions.cli.lazy_group import LazyCommand, LazyGroup, show_help_without_command

# The ``hermes gateway`` group: which commands there are, and where they live.


_HERE = "hermes_sessions.cli.gateway"


COMMANDS = {
    "setup": LazyCommand(
        f"{_HERE}.setup:setup",
        "Connect a messenger: ask, check, and write the configuration.",
    ),
    "run": LazyCommand(f"{_HERE}.run:run", "Connect the agent to the messengers enabled."),
    "chat": LazyCommand(f"{_HERE}.chat:chat", "Talk to the agent of a running gateway."),
    "status": LazyCommand(f"{_HERE}.status:status", "Show who runs, what waits and what failed."),
    "stop": LazyCommand(f"{_HERE}.stop_restart:stop", "Let running turns finish, and stop."),
    "restart": LazyCommand(
        f"{_HERE}.stop_restart:restart", "Let running turns finish, and start again."
    ),
    "queue": LazyCommand(f"{_HERE}.queue:queue", "Show messages that wait and replies not sent."),
    "pair": LazyCommand(f"{_HERE}.pair:pair", "Let somebody talk to the agent."),
    "explain": LazyCommand(
        "hermes_sessions.cli.sessions.explain:explain",
        "Explain why a conversation uses its current session.",
    ),
}


@click.group(cls=LazyGroup, lazy_commands=COMMANDS, invoke_without_command=True)
@click.pass_context
def gateway(context: click.Context) -> None:
    """Run the agent on messengers.

    Platforms are enabled in config.yaml, which setup writes: see docs/gateway.md.
    """
    show_help_without_command(context)
