"""``hermes gateway stop`` and ``hermes gateway restart``."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import click

from hermes_sessions.cli.console import Console
from hermes_sessions.cli.options import speaks_to_console
from hermes_sessions.cli.store import open_for_reading
from hermes_sessions.config import load_settings
from hermes_sessions.errors import NotFound
from hermes_sessions.gateway.overview import find_gateways
from hermes_sessions.lifecycle.host_files import host_name
from hermes_sessions.storage.repositories.processes import Process
from hermes_sessions.storage.sessiondb import SessionDB

_LOOK_EVERY = 0.1
#: Beyond the time that turns may take.
_PATIENCE = 30.0


@click.command(short_help="Let running turns finish, and stop.")
@click.option("--no-wait", is_flag=True, help="Do not wait until it has stopped.")
@speaks_to_console
def stop(console: Console, *, no_wait: bool) -> None:
    """Have the gateways of this machine finish what they do and stop.

    What does not finish in time goes on at the next start. Exit code 1 when none runs here.
    """
    _end(console, signal.SIGTERM, "stopped", wait=not no_wait)


@click.command(short_help="Let running turns finish, and start again.")
@speaks_to_console
def restart(console: Console) -> None:
    """Have the gateways of this machine finish what they do and start again, with the
    configuration as it is then. Exit code 1 when none runs here.
    """
    _end(console, signal.SIGHUP, "restarted", wait=True)


def _end(console: Console, how: signal.Signals, done: str, *, wait: bool) -> None:
    settings = load_settings()
    with open_for_reading(console) as db:
        look = partial(_living, db, settings.gateway.namespace, settings.gateway.lease_seconds)
        here = _here(look())
        for process in here:
            # One that is gone by now has ended, too.
            with suppress(ProcessLookupError):
                os.kill(process.pid or 0, how)
        if wait:
            limit = settings.agent.restart_drain_timeout + _PATIENCE
            _wait_for_end(look, here, limit)
    ended = [process.pid for process in here]
    if console.as_json:
        console.print_json({done if wait else "signalled": ended})
    else:
        words = done if wait else "told to stop"
        console.print([f"Process {pid} was {words}." for pid in ended])


def _living(db: SessionDB, namespace: str, dead_after: float) -> list[Process]:
    return find_gateways(db.store, namespace, dead_after).living


def _here(living: list[Process]) -> list[Process]:
    here = [process for process in living if process.host == host_name() and process.pid]
    if not here:
        elsewhere = [f"{(each.host or '').partition('#')[0]}" for each in living]
        hint = f" It runs on: {', '.join(elsewhere)}." if elsewhere else ""
        raise NotFound(f"No gateway runs on this machine.{hint} See: hermes gateway status")
    return here


def _wait_for_end(look: Callable[[], list[Process]], ended: list[Process], limit: float) -> None:
    wanted = {process.id for process in ended}
    until = time.monotonic() + limit
    while wanted & {each.id for each in look()}:
        if time.monotonic() > until:
            raise NotFound(f"It did not stop within {limit:.0f} s. See: hermes gateway status")
        time.sleep(_LOOK_EVERY)
