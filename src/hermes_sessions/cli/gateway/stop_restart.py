"""``hermes gateway stop`` and ``hermes gateway restart``."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from typing import NamedTuple

import click

from hermes_sessions.cli.console import Console
from hermes_sessions.cli.gateway.background import in_background, required_answer, store_seconds
from hermes_sessions.cli.options import pass_console
from hermes_sessions.cli.store import open_for_reading
from hermes_sessions.config import load_settings
from hermes_sessions.config.settings import Settings
from hermes_sessions.errors import NotFound, StoreError
from hermes_sessions.gateway.overview import Gateways, find_gateways
from hermes_sessions.gateway.run_file import LocalGateway, local_gateways
from hermes_sessions.storage.host_processes import host_name, identify_process, send_signal
from hermes_sessions.storage.repositories.processes import Process

_POLL_SECONDS = 0.1
#: Added to the time that running turns may take.
_GRACE_SECONDS = 30.0
#: How long the operating system may take to end a killed process.
_KILLED_SECONDS = 10.0


class _Target(NamedTuple):
    """A gateway that was signalled."""

    process: Process
    #: From its run file; None if it was found in the store.
    instance: str | None


@click.command(short_help="Finish running turns and stop.")
@click.option("--no-wait", is_flag=True, help="Do not wait for the gateway to stop.")
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=click.FloatRange(0),
    help="Kill it if it has not stopped by then.  [default: agent.restart_drain_timeout + 30]",
)
@pass_console
def stop(console: Console, *, no_wait: bool, timeout: float | None) -> None:
    """Let the gateways on this machine finish their running turns, and stop them.

    A gateway that has not stopped in time is killed; unfinished turns continue at the next start.
    Only a process that is certainly a gateway is signalled. Stopping gateways of this home does
    not need the database. Exits with 1 if no gateway is running here.
    """
    _end(console, signal.SIGTERM, "stopped", wait=not no_wait, timeout=timeout)


@click.command(short_help="Finish running turns and restart.")
@pass_console
def restart(console: Console) -> None:
    """Let the gateways on this machine finish their running turns, and restart them.

    They read the configuration again. Restarting gateways of this home does not need the database.
    Exits with 1 if no gateway is running here.
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
        limit = (
            settings.agent.restart_drain_timeout + _GRACE_SECONDS if timeout is None else timeout
        )
        if how is signal.SIGHUP:
            _wait_for_restart(console, settings, ended, limit)
        else:
            killed = _wait_for_end(ended, limit)
    pids = [target.process.pid for target in ended if target.process.pid not in killed]
    if console.as_json:
        document = {done if wait else "signalled": pids, "left_alone": list(left_alone)}
        console.print_json({**document, "killed": killed} if killed else document)
    else:
        result = done if wait else "told to stop"
        console.print([f"Process {pid} was {result}." for pid in pids])
        console.print(
            [
                f"Process {pid} did not stop in time and was killed. Unfinished turns continue at "
                f"the next start."
                for pid in killed
            ]
        )
    console.tell(list(left_alone.values()))


def _in_store(
    console: Console, settings: Settings, how: signal.Signals, *, is_needed: bool
) -> Gateways:
    """Return the gateways registered in the store.

    Unless the answer *is_needed*, does not wait for a database that does not answer.
    """

    def look() -> Gateways:
        with open_for_reading(console) as db:
            return find_gateways(
                db.store, settings.gateway.namespace, settings.gateway.lease_seconds
            )

    looking = in_background(look)
    if is_needed:

        def tell_waiting() -> None:
            console.tell("No gateway is running in this home. Waiting for the database …")

        try:
            return required_answer(looking, settings, tell_waiting)
        except StoreError:
            console.tell(
                f"No gateway is running in {settings.home}; gateways of other homes are listed "
                f"only in the store. If you know the pid of one, run: kill -{how.name[3:]} PID"
            )
            raise
    try:
        return looking.result(store_seconds(settings))
    except (StoreError, TimeoutError):
        pass
    console.tell("The database does not answer, so only gateways of this home were found.")
    return Gateways([], [])


def _signal(
    local: list[LocalGateway], gateways: Gateways, how: signal.Signals
) -> tuple[list[_Target], dict[int, str]]:
    """Signal the gateways on this machine.

    Returns the signalled ones, and a message for each pid that was left alone.
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
            left_alone[pid] = f"Process {pid} is a gateway of another user and was left alone."
            continue
        if found == "another":
            left_alone[pid] = _is_another(pid)
        elif found == "unknown":
            left_alone[pid] = (
                f"Process {pid} was left alone, because it may not be the gateway. "
                f"If you know that it is, run `kill -{how.name[3:]} {pid}`."
            )
        else:
            # A process that is already gone has ended, too.
            ended.append(_Target(process, instances.get(pid)))
    for pid, process in _here(gateways.silent):
        if pid not in instances and identify_process(process) == "another":
            left_alone.setdefault(pid, _is_another(pid))
    return ended, left_alone


def _is_another(pid: int) -> str:
    return (
        f"Process {pid} is now another program and was left alone: the gateway that had this "
        f"pid is gone."
    )


def _here(processes: list[Process]) -> list[tuple[int, Process]]:
    host = host_name()
    return [(each.pid, each) for each in processes if each.host == host and each.pid]


def _why_none(living: list[Process], left_alone: dict[int, str]) -> str:
    here = _here(living)
    sentences = ["No gateway was signalled." if here else "No gateway is running on this machine."]
    sentences += left_alone.values()
    if living and not here:
        sentences.append(
            f"Running on: {', '.join((each.host or '').partition('#')[0] for each in living)}."
        )
    return " ".join([*sentences, "For details, run: hermes gateway status"])


def _wait_for_end(ended: list[_Target], limit: float) -> list[int | None]:
    """Wait until all have ended; kill the others and return their pids.

    Raises:
        NotFound: a killed process did not end.
    """

    def is_over(target: _Target) -> bool:
        return identify_process(target.process) != "it"

    left = _left_after(ended, is_over, limit)
    for target in left:
        send_signal(target.process, signal.SIGKILL)
    if _left_after(left, is_over, _KILLED_SECONDS):
        raise NotFound(
            "The gateway was killed but did not end. For details, run: hermes gateway status"
        )
    return [target.process.pid for target in left]


def _wait_for_restart(
    console: Console, settings: Settings, ended: list[_Target], limit: float
) -> None:
    """Wait until all have restarted.

    Raises:
        NotFound: one of them did not.
    """

    def is_over(target: _Target) -> bool:
        if target.instance is None:
            living = _in_store(console, settings, signal.SIGHUP, is_needed=True).living
            return target.process.id not in {each.id for each in living}
        if identify_process(target.process) != "it":
            raise NotFound(
                f"Process {target.process.pid} ended and did not restart. Its log says why. "
                f"To start it, run: hermes gateway run"
            )
        return any(
            each.process.pid == target.process.pid and each.instance != target.instance
            for each in local_gateways(settings.home, settings.gateway.namespace)
        )

    if _left_after(ended, is_over, limit):
        raise NotFound(
            f"The gateway did not restart within {limit:.0f} s. "
            f"For details, run: hermes gateway status"
        )


def _left_after(
    targets: list[_Target], is_over: Callable[[_Target], bool], limit: float
) -> list[_Target]:
    """Wait at most *limit* seconds; return the targets that are not over by then."""
    until = time.monotonic() + limit
    left = targets
    while left := [target for target in left if not is_over(target)]:
        if time.monotonic() > until:
            break
        time.sleep(_POLL_SECONDS)
    return left
