"""``hermes gateway run``."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from traceback import format_tb
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NoReturn

import click

from hermes_sessions.cli.console import Console
from hermes_sessions.cli.gateway.background import in_background
from hermes_sessions.cli.options import pass_console
from hermes_sessions.cli.store import show_warnings
from hermes_sessions.config import load_settings
from hermes_sessions.errors import ConfigError, StoreError
from hermes_sessions.gateway.run_file import RunFile
from hermes_sessions.storage.care.health import State
from hermes_sessions.storage.logs import warnings_logged
from hermes_sessions.storage.sessiondb import SessionDB

if TYPE_CHECKING:
    from hermes_sessions.config.settings import Settings
    from hermes_sessions.gateway.platforms.port import Adapter
    from hermes_sessions.gateway.runner import EndReason, Gateway

ExceptionInfo = (
    tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
)

_LEVELS = ("debug", "info", "warning", "error")
#: If opening the database takes longer, health probes report it as unavailable.
_OPEN_SECONDS: Final = 1.0


@click.command(short_help="Connect the agent to the enabled messengers.")
@click.option(
    "--log-level",
    type=click.Choice(_LEVELS),
    default="info",
    show_default=True,
    help="The least severe messages to write to standard error.",
)
@click.option("--no-wait", is_flag=True, help="Exit with an error if the database is unavailable.")
@pass_console
def run(console: Console, *, log_level: str, no_wait: bool) -> None:
    """Connect the agent to the messengers that are enabled in config.yaml, and run until stopped.

    If the database server is unavailable at the start, the gateway waits for it. Meanwhile the
    HTTP API answers /healthz with 200 and /readyz with 503.

    On SIGTERM or Ctrl-C, running turns may finish within agent.restart_drain_timeout; a second
    Ctrl-C stops at once. SIGHUP restarts. With --json, the log has one JSON object per line. The
    text of messages is never logged.
    """
    from importlib.metadata import version

    with _log(log_level, as_json=console.as_json), warnings_logged():
        settings = load_settings()
        start = _Start(console, settings, version("hermes-sessions"))
        wants_restart = asyncio.run(start.run(waits=not no_wait))
    if wants_restart:
        _leave(wants_restart=True)


def _leave(*, wants_restart: bool) -> NoReturn:
    """Exit at once without waiting for threads, or replace the process by a new gateway."""
    sys.stdout.flush()
    sys.stderr.flush()
    if wants_restart:
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - this program
    os._exit(0)


class _Start:
    """Runs one gateway, and waits for its database first."""

    def __init__(self, console: Console, settings: Settings, version: str) -> None:
        self._console = console
        self._settings = settings
        self._run_file = RunFile(settings.home, settings.gateway.namespace, version)
        self._version = version
        self._signals = _Signals()

    async def run(self, *, waits: bool) -> bool:
        """Run a gateway until it is stopped; return whether to start it again.

        Raises:
            StoreError: the database is unusable, and waiting is off or would not help.
        """
        self._signals.install()
        _require_packages()
        from hermes_sessions.gateway.builder import enabled_adapters

        show_warnings(self._console)
        adapters = enabled_adapters(self._settings)
        # `hermes gateway restart` reads the run file as a successful start. So write it only after
        # signal handlers are installed and the configuration is known to be valid.
        with self._run_file:
            return await self._run(adapters, waits=waits)

    async def _run(self, adapters: Mapping[str, Adapter], *, waits: bool) -> bool:
        from hermes_sessions.gateway.database_wait import WaitingGateway, should_wait

        waiting = WaitingGateway(adapters)
        self._run_file.look = waiting.status
        while not self._signals.received.is_set():
            try:
                opening = asyncio.wrap_future(
                    in_background(partial(SessionDB, clock=self._console.clock))
                )
                if waits and not await self._signals.or_done(opening, _OPEN_SECONDS):
                    await waiting.begin()
                if not await self._signals.or_done(opening):
                    break
                with await opening as db:
                    await waiting.end()
                    return await self._serve(db, adapters)
            except StoreError as error:
                if not waits or not should_wait(error, self._settings):
                    raise
                self._run_file.look = waiting.status
                pause = asyncio.create_task(asyncio.sleep(waiting.failed(error)))
                await waiting.begin()
                await self._signals.or_done(pause)
        await waiting.end()
        _logger().info("stopped before the database became available")
        return self._signals.reason == "restart"

    async def _serve(self, db: SessionDB, adapters: Mapping[str, Adapter]) -> bool:
        from hermes_sessions.gateway.builder import gateway

        with gateway(
            self._settings,
            db,
            adapters=adapters,
            version=self._version,
            environ=self._console.environ,
        ) as made:
            self._signals.end = made.end
            self._run_file.look = made.status
            made.on_ready = lambda: _logger().info(_ready(made))
            clean = await made.run()
            _logger().info(
                "stopped" if clean else "stopped; unfinished turns continue at the next start"
            )
            if made.gateway_metrics.store().state is State.DOWN:
                # Threads that wait for the database would keep the process alive.
                self._run_file.remove()
                _leave(wants_restart=made.wants_restart)
        return made.wants_restart


def _logger() -> logging.Logger:
    return logging.getLogger(__name__)


def _require_packages() -> None:
    try:
        import hermes_sessions.gateway.builder  # noqa: F401
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("hermes_sessions"):
            raise
        raise ConfigError(
            f"The gateway needs the package {error.name}: pip install 'hermes-sessions[gateway]'"
        ) from error


class _Signals:
    """Remembers signals that arrive before the gateway exists, and forwards later ones to it."""

    def __init__(self) -> None:
        self.received = asyncio.Event()
        self.reason: EndReason = "shutdown"
        self.end: Callable[[EndReason], None] = lambda _reason: None

    def install(self) -> None:
        """Install the signal handlers on the running event loop."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._receive, "shutdown")
        loop.add_signal_handler(signal.SIGHUP, self._receive, "restart")

        def interrupt() -> None:
            self._receive("shutdown")
            # A second Ctrl-C interrupts at once.
            loop.remove_signal_handler(signal.SIGINT)

        loop.add_signal_handler(signal.SIGINT, interrupt)

    def _receive(self, reason: EndReason) -> None:
        self.reason = reason
        self.received.set()
        self.end(reason)

    async def or_done(self, work: asyncio.Future[Any], seconds: float | None = None) -> bool:
        """Wait for *work*, a signal or the timeout; return whether *work* is done."""
        received = asyncio.create_task(self.received.wait())
        await asyncio.wait({work, received}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        received.cancel()
        return work.done()


def _ready(made: Gateway) -> str:
    connected = [name for name, adapter in made.adapters.items() if adapter.is_connected]
    waiting = [name for name in made.adapters if name not in connected]
    text = f"ready: {', '.join(connected) or 'no platform is connected yet'}"
    return f"{text}; not connected: {', '.join(waiting)}" if waiting else text


class _Lines(logging.Formatter):
    """Formats log records as text.

    Errors show their class and traceback but not their message, which may contain what a user
    wrote.
    """

    def formatException(self, ei: ExceptionInfo) -> str:  # noqa: N802 - the name of `logging`
        """Return the traceback and the class of an error."""
        kind, _, traceback = ei
        return "".join(format_tb(traceback)) + (kind.__name__ if kind is not None else "")


class _JsonLines(_Lines):
    """Formats each log record as a JSON object."""

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
    """Write the log to standard error inside the block, all of it in the same format."""
    log = logging.getLogger("hermes_sessions")
    level_before = log.level
    before = (log.handlers[:], log.propagate, logging.lastResort)
    log.handlers[:] = [_handler(logging.NOTSET, as_json=as_json)]
    log.setLevel(level.upper())
    log.propagate = False
    # Warnings of other packages get the same format.
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
