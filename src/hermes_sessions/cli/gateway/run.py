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
#: A database that takes longer to open counts as away, as far as probes are asked.
_SOON: Final = 1.0


@click.command(short_help="Connect the agent to the messengers enabled.")
@click.option(
    "--log-level",
    type=click.Choice(_LEVELS),
    default="info",
    show_default=True,
    help="What is written to standard error.",
)
@click.option(
    "--no-wait", is_flag=True, help="End with an error when the database cannot be reached."
)
@pass_console
def run(console: Console, *, log_level: str, no_wait: bool) -> None:
    """Connect the agent to the messengers that are enabled in config.yaml, until it is stopped.

    A database server that cannot be reached at the start is waited for. Meanwhile the HTTP API
    answers /healthz, and /readyz with 503.

    SIGTERM and Ctrl-C let running turns finish first, as long as agent.restart_drain_timeout says;
    a second Ctrl-C does not wait. SIGHUP restarts. With --json, the log is a JSON object a line.
    What people write is never logged.
    """
    from importlib.metadata import version

    with _log(log_level, as_json=console.as_json), warnings_logged():
        settings = load_settings()
        start = _Start(console, settings, version("hermes-sessions"))
        wants_restart = asyncio.run(start.run(waits=not no_wait))
    if wants_restart:
        _leave(wants_restart=True)


def _leave(*, wants_restart: bool) -> NoReturn:
    """End the process at once, or start it again."""
    sys.stdout.flush()
    sys.stderr.flush()
    if wants_restart:
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - ourselves
    os._exit(0)


class _Start:
    """A gateway from the command to its end, also while its database is not there yet."""

    def __init__(self, console: Console, settings: Settings, version: str) -> None:
        self._console = console
        self._settings = settings
        self._run_file = RunFile(settings.home, settings.gateway.namespace, version)
        self._version = version
        self._signals = _Signals()

    async def run(self, *, waits: bool) -> bool:
        """Run a gateway to its end; return whether it is to be started again.

        Raises:
            StoreError: the database cannot be used, and is not waited for.
        """
        self._signals.obey()
        _require_packages()
        from hermes_sessions.gateway.builder import enabled_adapters

        show_warnings(self._console)
        adapters = enabled_adapters(self._settings)
        # Once signals are obeyed, and nothing is known to be wrong: `restart` takes it for a start.
        with self._run_file:
            return await self._run(adapters, waits=waits)

    async def _run(self, adapters: Mapping[str, Adapter], *, waits: bool) -> bool:
        from hermes_sessions.gateway.database_wait import WaitingGateway, should_wait

        waiting = WaitingGateway(adapters)
        self._run_file.look = waiting.status
        while not self._signals.told.is_set():
            try:
                opening = asyncio.wrap_future(
                    in_background(partial(SessionDB, clock=self._console.clock))
                )
                if waits and not await self._signals.or_done(opening, _SOON):
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
        _logger().info("stopped before the database could be reached")
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
                "stopped" if clean else "stopped; what was not finished goes on at the next start"
            )
            if made.gateway_metrics.store().state is State.DOWN:
                # Threads that wait for the database would keep the process.
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
    """What this process was told, before there is a gateway; then the gateway is told."""

    def __init__(self) -> None:
        self.told = asyncio.Event()
        self.reason: EndReason = "shutdown"
        self.end: Callable[[EndReason], None] = lambda _reason: None

    def obey(self) -> None:
        """Take signals, on the running event loop."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._tell, "shutdown")
        loop.add_signal_handler(signal.SIGHUP, self._tell, "restart")

        def interrupt() -> None:
            self._tell("shutdown")
            # A second one is not to wait.
            loop.remove_signal_handler(signal.SIGINT)

        loop.add_signal_handler(signal.SIGINT, interrupt)

    def _tell(self, reason: EndReason) -> None:
        self.reason = reason
        self.told.set()
        self.end(reason)

    async def or_done(self, work: asyncio.Future[Any], seconds: float | None = None) -> bool:
        """Wait until *work* is done, a signal came, or the seconds are over; return whether it is
        done.
        """
        told = asyncio.create_task(self.told.wait())
        await asyncio.wait({work, told}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        told.cancel()
        return work.done()


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
