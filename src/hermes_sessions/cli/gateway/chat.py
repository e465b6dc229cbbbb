"""``hermes gateway chat``."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator

import click

from hermes_sessions.cli.console import Console
from hermes_sessions.cli.options import pass_console
from hermes_sessions.config import load_settings
from hermes_sessions.errors import NotFound


@click.command(short_help="Chat with the agent of a running gateway.")
@click.option(
    "--chat", "name", default="main", show_default=True, help="The name of the conversation."
)
@pass_console
def chat(console: Console, *, name: str) -> None:
    """Chat with the agent through the socket of a gateway on this machine.

    Requires platforms.local.enabled. Reads lines from standard input; at its end (Ctrl-D), waits
    for the remaining answers and exits.
    """
    from hermes_sessions.gateway.platforms.local.settings import LocalSettings, require_short_path
    from hermes_sessions.gateway.platforms.local.socket_client import ConnectionRefused, converse
    from hermes_sessions.gateway.platforms.settings import read_settings

    if console.as_json:
        raise click.UsageError(
            "A chat cannot use --json. The socket itself speaks JSON: see docs/local.md"
        )
    settings = load_settings()
    platform = settings.platforms.get("local")
    extra = {} if platform is None else platform.extra
    home = settings.home / "gateway"
    socket = read_settings(LocalSettings, "platforms.local", extra, home).socket
    require_short_path(socket)

    def write(text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()

    try:
        asyncio.run(converse(socket, _lines(), write, chat=name, keep_trying=False))
    except (FileNotFoundError, ConnectionError) as error:
        raise NotFound(
            f"No gateway answers at {socket}. Enable platforms.local in config.yaml and start it: "
            f"hermes gateway run"
        ) from error
    except ConnectionRefused as error:
        raise NotFound(str(error)) from error


async def _lines() -> AsyncIterator[str]:
    while line := await asyncio.to_thread(sys.stdin.readline):
        yield line
