"""``hermes gateway stop`` and ``hermes gateway restart``."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from functools import partial

import click

from hermes_sessions.cli.console import Console
from hermes_sessions.cli.options import speaks_to_console
from hermes_sessions.cli.store import open_for_reading
from hermes_sessions.config import load_settings
from hermes_sessions.errors import NotFound, StoreError
from hermes_sessions.gateway.overview import Gateways, find_gateways
from hermes_sessions.storage.host_processes import find_out, host_name, send_signal
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

    What does not finish in time goes on at the next start. Only a process that certainly is a
    gateway is signalled. Exit code 1 when none runs here.
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
    with _opened(console, how) as db:
        look = partial(
            find_gateways, db.store, settings.gateway.namespace, settings.gateway.lease_seconds
        )
        gateways = look()
        ended, left_alone = _signal(gateways, how)
        if not ended:
            raise NotFound(_why_nobody(gateways.living, left_alone))
        if wait:
            limit = settings.agent.restart_drain_timeout + _PATIENCE
            _wait_for_end(look, ended, limit)
    pids = [process.pid for process in ended]
    if console.as_json:
        console.print_json({done if wait else "signalled": pids, "left_alone": list(left_alone)})
    else:
        words = done if wait else "told to stop"
        console.print([f"Process {pid} was {words}." for pid in pids])
    console.tell(list(left_alone.values()))


def _opened(console: Console, how: signal.Signals) -> SessionDB:
    """Open the store, in which gateways are found."""
    try:
        return open_for_reading(console)
    except StoreError:
        console.tell(
            f"Which processes are gateways is in the store. If you know the number of one, "
            f"`kill -{how.name[3:]} NUMBER` tells it the same."
        )
        raise


def _signal(gateways: Gateways, how: signal.Signals) -> tuple[list[Process], dict[int, str]]:
    """Signal the gateways of this machine; return them, and the numbers that were left alone with
    what is to be said of each.
    """
    ended: list[Process] = []
    left_alone: dict[int, str] = {}
    for pid, process in _here(gateways.living):
        try:
            found = send_signal(process, how)
        except PermissionError:
            left_alone[pid] = f"Process {pid} is the gateway of another user and was left alone."
            continue
        if found == "another":
            left_alone[pid] = _is_another(pid)
        elif found == "unknown":
            left_alone[pid] = (
                f"Process {pid} was left alone, because it cannot be told whether it is the "
                f"gateway. If you know that it is, run `kill -{how.name[3:]} {pid}`."
            )
        else:
            # One that is gone by now has ended, too.
            ended.append(process)
    for pid, process in _here(gateways.silent):
        if find_out(process) == "another":
            left_alone.setdefault(pid, _is_another(pid))
    return ended, left_alone


def _is_another(pid: int) -> str:
    return (
        f"Process {pid} is another program now and was left alone: the gateway that had this "
        f"number is gone."
    )


def _here(processes: list[Process]) -> list[tuple[int, Process]]:
    host = host_name()
    return [(each.pid, each) for each in processes if each.host == host and each.pid]


def _why_nobody(living: list[Process], left_alone: dict[int, str]) -> str:
    here = _here(living)
    words = ["No gateway was signalled." if here else "No gateway runs on this machine."]
    words += left_alone.values()
    if living and not here:
        words.append(
            f"It runs on: {', '.join((each.host or '').partition('#')[0] for each in living)}."
        )
    return " ".join([*words, "See: hermes gateway status"])


def _wait_for_end(look: Callable[[], Gateways], ended: list[Process], limit: float) -> None:
    wanted = {process.id for process in ended}
    until = time.monotonic() + limit
    while wanted & {each.id for each in look().living}:
        if time.monotonic() > until:
            raise NotFound(f"It did not stop within {limit:.0f} s. See: hermes gateway status")
        time.sleep(_LOOK_EVERY)
