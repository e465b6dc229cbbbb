"""``hermes gateway status``."""

from __future__ import annotations

from pathlib import Path

import click

from hermes_sessions.cli.console import Console
from hermes_sessions.cli.options import speaks_to_console
from hermes_sessions.cli.render.age import relative_time
from hermes_sessions.cli.store import open_for_reading
from hermes_sessions.config import load_settings
from hermes_sessions.errors import StoreError
from hermes_sessions.gateway.overview import Overview, overview
from hermes_sessions.gateway.spool import NEXT_STEP, spool_directory
from hermes_sessions.storage.host_processes import find_out, host_name
from hermes_sessions.storage.repositories.processes import Process
from hermes_sessions.storage.spool import Waiting, waiting_below


@click.command(short_help="Show who runs, what waits and what failed.")
@speaks_to_console
def status(console: Console) -> None:
    """Show which gateways run, what waits for an answer, and what could not be delivered.

    Exit code 1 when no gateway runs. When the store cannot be read, what is kept in files of this
    machine until it is back is told all the same.
    """
    settings = load_settings()
    place = spool_directory(settings.home)
    kept = _spooled(place)
    try:
        with open_for_reading(console) as db:
            found = overview(
                db.store, settings.gateway.namespace, dead_after=settings.gateway.lease_seconds
            )
    except StoreError:
        console.tell(_kept(kept, place))
        raise
    if console.as_json:
        console.print_json(
            {
                **found._asdict(),
                "living": [process._asdict() for process in found.living],
                "silent": [process._asdict() for process in found.silent],
                "spooled": kept and kept.entries,
                "put_aside": kept and kept.put_aside,
            }
        )
    else:
        console.print([*_lines(found, console.clock()), *_kept(kept, place)])
    if not found.living:
        raise click.exceptions.Exit(1)


def _lines(found: Overview, now: float) -> list[str]:
    lines = []
    for process in found.living:
        host = (process.host or "").partition("#")[0]
        age = relative_time(process.started_at, now)
        lines.append(f"Running: process {process.pid} on {host}, started {age}")
        platforms = found.platforms.get(process.id, {})
        lines += [f"  {name}: {state}" for name, state in sorted(platforms.items())]
    if not found.living:
        lines.append("Not running. Start it with: hermes gateway run")
    lines += [_silent(process, now) for process in found.silent]
    lines += [
        f"Conversations: {_counts(found.lanes)}",
        f"Messages: {_counts(found.mailbox)}",
        f"Replies: {_counts(found.outbox)}",
    ]
    if found.outbox.get("dead"):
        lines.append("Some replies could not be delivered: hermes gateway queue --dead")
    if found.pending_senders:
        lines.append(f"{found.pending_senders} wait to be let in: hermes gateway pair --list")
    return lines


def _spooled(place: Path) -> Waiting | None:
    """Return what is in files; None when nobody may look."""
    try:
        return waiting_below(place)
    except OSError:
        return None


def _kept(kept: Waiting | None, place: Path) -> list[str]:
    """Return what is to be said of messages that are not in the store."""
    if kept is None:
        return [f"{place} cannot be read: it is not known whether messages wait there"]
    lines = []
    if kept.entries:
        lines.append(
            f"Messages that wait for the database in {place}: {kept.entries}; "
            f"a gateway stores and answers them when it is back"
        )
    if kept.put_aside:
        lines.append(kept.words_about_put_aside(place, NEXT_STEP))
    return lines


def _silent(process: Process, now: float) -> str:
    heard = f"last heard of {relative_time(process.heartbeat_at, now)}"
    if process.host == host_name() and find_out(process) == "another":
        heard += ", is another program now"
    return f"Silent: process {process.pid}, {heard}; what it ran goes on when a gateway starts"


def _counts(by_status: dict[str, int]) -> str:
    shown = (f"{count} {status.replace('_', ' ')}" for status, count in sorted(by_status.items()))
    return ", ".join(shown) or "none"
