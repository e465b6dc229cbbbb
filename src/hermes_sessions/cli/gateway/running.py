"""``hermes gateway run``."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from traceback import format_tb
from types import TracebackType
from typing import TYPE_CHECKING

import click

from hermes_sessions.cli.console import Console
from hermes_sessions.cli.options import speaks_to_console
from hermes_sessions.cli.store import open_for_writing
from hermes_sessions.config import load_settings
from hermes_sessions.errors import ConfigError
from hermes_sessions.storage.logs import warnings_logged

if TYPE_CHECKING:
    from hermes_sessions.config.settings import Settings
    from hermes_sessions.gateway.runner import Gateway
    from hermes_sessions.storage.sessiondb import SessionDB

ExceptionInfo = (
    tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
)

_LEVELS = ("debug", "info", "warning", "error")


@click.command(short_help="Connect the agent to the messengers enabled.")
@click.option(
    "--log-level",
    type=click.Choice(_LEVELS),
    default="info",
    show_default=True,
    help="What is written to standard error.",
)
@speaks_to_console
def run(console: Console, *, log_level: str) -> None:
    """Connect the agent to the messengers that are enabled in config.yaml, until it is stopped.

    SIGTERM and Ctrl-C let running turns finish first, as long as agent.restart_drain_timeout says;
    a second Ctrl-C does not wait. SIGHUP restarts. With --json, the log is a JSON object a line.
    What people write is never logged.
    """
    with _log(log_level, as_json=console.as_json):
        settings = load_settings()
        with open_for_writing(console) as db, warnings_logged():
            wants_restart = asyncio.run(_serve(settings, db, console))
    if wants_restart:
        sys.stdout.flush()
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - ourselves


async def _serve(settings: Settings, db: SessionDB, console: Console) -> bool:
    """Run a gateway to its end; return whether it is to be started again."""
    from importlib.metadata import version

    try:
        from hermes_sessions.gateway.application import gateway
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("hermes_sessions"):
            raise
        raise ConfigError(
            f"The gateway needs the package {error.name}: pip install 'hermes-sessions[gateway]'"
        ) from error

    with gateway(settings, db, version=version("hermes-sessions"), environ=console.environ) as made:
        _obey_signals(made)
        made.on_ready = lambda: logging.getLogger(__name__).info(_ready(made))
        clean = await made.run()
    log = logging.getLogger(__name__)
    log.info("stopped" if clean else "stopped; what was not finished goes on at the next start")
    return made.wants_restart


def _obey_signals(made: Gateway) -> None:
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, made.end, "shutdown")
    loop.add_signal_handler(signal.SIGHUP, made.end, "restart")

    def interrupt() -> None:
        made.end("shutdown")
        # Whoever asks again does not want to wait.
        loop.remove_signal_handler(signal.SIGINT)

    loop.add_signal_handler(signal.SIGINT, interrupt)


def _ready(made: Gateway) -> str:
    connected = [name for name, adapter in made.adapters.items() if adapter.is_connected]
    waiting = [name for name in made.adapters if name not in connected]
    words = f"ready: {', '.join(connected) or 'no platform is connected yet'}"
    return f"{words}; not connected: {', '.join(waiting)}" if waiting else words


class _Lines(logging.Formatter):
    """Lines for people. Of errors they have the class and the way there, not the text: that may
    hold what somebody wrote.
    """

    def formatException(self, ei: ExceptionInfo) -> str:  # noqa: N802 - the name of `logging`
        """Return where an error came from."""
        kind, _, way = ei
        return "".join(format_tb(way)) + (kind.__name__ if kind is not None else "")


class _JsonLines(_Lines):
    """A JSON object for each record."""

    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created))
        values = {
            "at": moment,
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            values["error"] = self.formatException(record.exc_info)
        return json.dumps(values, ensure_ascii=False)


@contextmanager
def _log(level: str, *, as_json: bool) -> Iterator[None]:
    """Write the log to standard error inside the block, in one form."""
    log = logging.getLogger("hermes_sessions")
    level_before = log.level
    before = (log.handlers[:], log.propagate, logging.lastResort)
    log.handlers[:] = [_handler(logging.NOTSET, as_json=as_json)]
    log.setLevel(level.upper())
    log.propagate = False
    # What other packages warn of, in the same form.
    logging.lastResort = _handler(logging.WARNING, as_json=as_json)
    try:
        yield
    finally:
        log.setLevel(level_before)
        log.handlers[:], log.propagate, logging.lastResort = before


def _handler(level: int, *, as_json: bool) -> logging.Handler:
    handler = logging.StreamHandler(sys.stderr)
    handler.setLevel(level)
    handler.setFormatter(
        _JsonLines() if as_json else _Lines("%(asctime)s %(levelname)s %(message)s")
    )
    return handler
