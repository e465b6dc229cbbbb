"""``hermes gateway stop`` and ``hermes gateway restart``."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from typing import NamedTuple

import click

from hermes_sessions.cli.console import Console
from hermes_sessions.cli.gateway.background import in_background, store_seconds
from hermes_sessions.cli.options import pass_console
from hermes_sessions.cli.store import open_for_reading
from hermes_sessions.config import load_settings
from hermes_sessions.config.settings import Settings
from hermes_sessions.errors import NotFound, StoreError
from hermes_sessions.gateway.overview import Gateways, find_gateways
from hermes_sessions.gateway.run_file import LocalGateway, local_gateways
from hermes_sessions.storage.host_processes import host_name, identify_process, send_signal
from hermes_sessions.storage.repositories.processes import Process

_LOOK_EVERY = 0.1
#: Beyond the time that turns may take.
_PATIENCE = 30.0
#: How long the system may take to end a process that was killed.
_KILLED_SECONDS = 10.0


class _Target(NamedTuple):
    """A gateway that was told to end."""

    process: Process
    #: That of its run file; None: it was found in the store.
    instance: str | None


@click.command(short_help="Let running turns finish, and stop.")
@click.option("--no-wait", is_flag=True, help="Do not wait until it has stopped.")
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=click.FloatRange(0),
    help="Kill it when it has not stopped by then.  [default: agent.restart_drain_timeout + 30]",
)
@pass_console
def stop(console: Console, *, no_wait: bool, timeout: float | None) -> None:
    """Have the gateways of this machine finish what they do and stop.

    What does not finish in time goes on at the next start: a gateway that has not stopped when the
    time is over is killed. Only a process that certainly is a gateway is signalled. Gateways of
    this home are found and stopped also while the database cannot be reached. Exit code 1 when
    none runs here.
    """
    _end(console, signal.SIGTERM, "stopped", wait=not no_wait, timeout=timeout)


@click.command(short_help="Let running turns finish, and start again.")
@pass_console
def restart(console: Console) -> None:
    """Have the gateways of this machine finish what they do and start again, with the
    configuration as it is then. Gateways of this home are found also while the database cannot be
    reached. Exit code 1 when none runs here.
    """
    _end(console, signal.SIGHUP, "restarted", wait=True, timeout=None)


def _end(
    console: Console, how: signal.Signals, done: str, *, wait: bool, timeout: float | None
) -> None:
    settings = load_settings()
    local = local_gateways(settings.home, settings.gateway.namespace)
    gateways = _in_store(console, settings, how, is_needed=not local)
    ended, left_alone = _signal(local, gateways, how)
    if not ended:
        raise NotFound(_why_none(gateways.living, left_alone))
    killed: list[int | None] = []
    if wait:
        limit = settings.agent.restart_drain_timeout + _PATIENCE if timeout is None else timeout
        if how is signal.SIGHUP:
            _wait_for_restart(console, settings, ended, limit)
        else:
            killed = _wait_for_end(ended, limit)
    pids = [target.process.pid for target in ended if target.process.pid not in killed]
    if console.as_json:
        told = {done if wait else "signalled": pids, "left_alone": list(left_alone)}
        console.print_json({**told, "killed": killed} if killed else told)
    else:
        words = done if wait else "told to stop"
        console.print([f"Process {pid} was {words}." for pid in pids])
        console.print(
            [
                f"Process {pid} did not stop in time and was killed. What it ran goes on at the "
                f"next start."
                for pid in killed
            ]
        )
    console.tell(list(left_alone.values()))


def _in_store(
    console: Console, settings: Settings, how: signal.Signals, *, is_needed: bool
) -> Gateways:
    """Return the gateways that the store knows. Unless that *is_needed*, a database that does not
    answer is not waited for.
    """

    def look() -> Gateways:
        with open_for_reading(console) as db:
            return find_gateways(
                db.store, settings.gateway.namespace, settings.gateway.lease_seconds
            )

    try:
        return in_background(look).result(None if is_needed else store_seconds(settings))
    except (StoreError, TimeoutError):
        if is_needed:
            console.tell(
                f"No gateway runs in {settings.home}, and those of other homes are in the store. "
                f"If you know the number of one, `kill -{how.name[3:]} NUMBER` tells it the same."
            )
            raise
    console.tell("The database does not answer: only gateways of this home were found.")
    return Gateways([], [])


def _signal(
    local: list[LocalGateway], gateways: Gateways, how: signal.Signals
) -> tuple[list[_Target], dict[int, str]]:
    """Signal the gateways of this machine; return them, and the numbers that were left alone with
    what is to be said of each.
    """
    ended: list[_Target] = []
    left_alone: dict[int, str] = {}
    instances = {each.process.pid: each.instance for each in local}
    processes = [(each.process.pid or 0, each.process) for each in local]
    processes += [one for one in _here(gateways.living) if one[0] not in instances]
    for pid, process in processes:
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
            ended.append(_Target(process, instances.get(pid)))
    for pid, process in _here(gateways.silent):
        if pid not in instances and identify_process(process) == "another":
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


def _why_none(living: list[Process], left_alone: dict[int, str]) -> str:
    here = _here(living)
    words = ["No gateway was signalled." if here else "No gateway runs on this machine."]
    words += left_alone.values()
    if living and not here:
        words.append(
            f"It runs on: {', '.join((each.host or '').partition('#')[0] for each in living)}."
        )
    return " ".join([*words, "See: hermes gateway status"])


def _wait_for_end(ended: list[_Target], limit: float) -> list[int | None]:
    """Wait until all have ended; return the numbers of those that had to be killed.

    Raises:
        NotFound: one did not even end then.
    """

    def is_over(target: _Target) -> bool:
        return identify_process(target.process) != "it"

    left = _left_after(ended, is_over, limit)
    for target in left:
        send_signal(target.process, signal.SIGKILL)
    if _left_after(left, is_over, _KILLED_SECONDS):
        raise NotFound("It was killed and did not end. See: hermes gateway status")
    return [target.process.pid for target in left]


def _wait_for_restart(
    console: Console, settings: Settings, ended: list[_Target], limit: float
) -> None:
    """Wait until all have started again.

    Raises:
        NotFound: one did not.
    """

    def is_over(target: _Target) -> bool:
        if target.instance is None:
            living = _in_store(console, settings, signal.SIGHUP, is_needed=True).living
            return target.process.id not in {each.id for each in living}
        if identify_process(target.process) != "it":
            raise NotFound(
                f"Process {target.process.pid} ended and did not start again. Its log says why; "
                f"start it with: hermes gateway run"
            )
        return any(
            each.process.pid == target.process.pid and each.instance != target.instance
            for each in local_gateways(settings.home, settings.gateway.namespace)
        )

    if _left_after(ended, is_over, limit):
        raise NotFound(f"It did not restart within {limit:.0f} s. See: hermes gateway status")


def _left_after(
    targets: list[_Target], is_over: Callable[[_Target], bool], limit: float
) -> list[_Target]:
    """Return those that are not over when so many seconds have passed, at once when all are."""
    until = time.monotonic() + limit
    left = targets
    while left := [target for target in left if not is_over(target)]:
        if time.monotonic() > until:
            break
        time.sleep(_LOOK_EVERY)
    return left
