"""``hermes gateway status``."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import click

from hermes_sessions.cli.console import Console
from hermes_sessions.cli.gateway.background import in_background, required_answer, store_seconds
from hermes_sessions.cli.options import pass_console
from hermes_sessions.cli.render.humanize import counted, relative_time
from hermes_sessions.cli.render.safe_text import one_line
from hermes_sessions.cli.store import open_for_reading
from hermes_sessions.config import load_settings
from hermes_sessions.errors import StoreError
from hermes_sessions.gateway.inbound_spool import NEXT_STEP, spool_directory
from hermes_sessions.gateway.overview import Overview, overview
from hermes_sessions.gateway.run_file import LocalGateway, local_gateways
from hermes_sessions.storage.host_processes import host_name, identify_process
from hermes_sessions.storage.repositories.processes import Process
from hermes_sessions.storage.spool import SpoolStatus, spool_status

#: How long to wait for the status of a gateway in this home.
_SOCKET_SECONDS = 0.5
_STATES = {
    "starting": "starting",
    "waiting": "waiting for the database",
    "stopping": "finishing running turns, then stops",
}

#: The status that a gateway of this home reports; None if it did not answer in time.
Answer = dict[str, Any] | None


@click.command(short_help="Show running gateways, queued messages and failures.")
@pass_console
def status(console: Console) -> None:
    """Show running gateways, messages that wait for an answer, and undelivered replies.

    Gateways of this home report their own state, and the state of the database at their last
    heartbeat. So the command answers within about two seconds even if the database does not. It
    also counts messages kept in files on this machine. Exits with 1 if no gateway is running.
    """
    settings = load_settings()
    directory = spool_directory(settings.home)
    kept = _spooled(directory)

    def look() -> Overview:
        with open_for_reading(console) as db:
            return overview(
                db.store, settings.gateway.namespace, dead_after=settings.gateway.lease_seconds
            )

    looking = in_background(look)
    asked = [
        (each, in_background(partial(each.ask, _SOCKET_SECONDS)))
        for each in local_gateways(settings.home, settings.gateway.namespace)
    ]
    local = [(each, asking.result()) for each, asking in asked]
    found = None
    if local:
        try:
            found = looking.result(store_seconds(settings))
        except TimeoutError:
            pass  # the lines below say so
        except StoreError as error:
            console.tell(str(error))
    else:

        def tell_waiting() -> None:
            console.tell("No gateway is running in this home. Waiting for the database …")

        try:
            found = required_answer(looking, settings, tell_waiting)
        except StoreError:
            console.tell(_kept(kept, directory))
            raise
    if console.as_json:
        console.print_json(
            {
                **(_document(found) if found else {"living": None}),
                "local": [
                    {"pid": each.process.pid, "answers": answer is not None, **(answer or {})}
                    for each, answer in local
                ],
                "spooled": kept and kept.entries,
                "put_aside": kept and kept.put_aside,
            }
        )
    else:
        console.print([*_lines(found, local, console.clock()), *_kept(kept, directory)])
    if not (local or (found and found.living)):
        raise click.exceptions.Exit(1)


def _document(found: Overview) -> dict[str, Any]:
    return {
        **found._asdict(),
        "living": [process._asdict() for process in found.living],
        "silent": [process._asdict() for process in found.silent],
    }


def _lines(
    found: Overview | None, local: list[tuple[LocalGateway, Answer]], now: float
) -> list[str]:
    lines = [line for each, answer in local for line in _local(each.process, answer, now)]
    if found is None:
        return [*lines, "The database does not answer, so gateways of other homes are not shown."]
    here = {(each.process.host, each.process.pid) for each, _ in local}
    for process in found.living:
        if (process.host, process.pid) not in here:
            platforms = found.platforms.get(process.id, {})
            lines += [_running(process, now), *_platforms(platforms)]
    if not lines:
        lines.append("Not running. To start a gateway, run: hermes gateway run")
    lines += [_silent(process, now) for process in found.silent]
    lines += [
        f"Conversations: {_counts(found.lanes)}",
        f"Messages: {_counts(found.mailbox)}",
        f"Replies: {_counts(found.outbox)}",
    ]
    if found.outbox.get("dead"):
        lines.append(
            "Some replies could not be delivered. To list them, run: hermes gateway queue --dead"
        )
    if found.pending_senders:
        users = counted(found.pending_senders, "user")
        lines.append(f"Waiting for approval: {users}. To list them: hermes gateway pair --list")
    return lines


def _local(process: Process, answer: Answer, now: float) -> list[str]:
    """Return the lines about a gateway of this home."""
    lines = [_running(process, now)]
    if answer is None:
        return [*lines, "  does not answer; if this persists, run: hermes gateway stop"]
    if (state := answer.get("state")) in _STATES:
        lines.append(f"  {_STATES[state]}")
    lines += _platforms(answer.get("platforms", {}))
    if "store" in answer:
        why = f": {one_line(answer['why'])}" if answer.get("why") else ""
        age = f"{answer['heartbeat_age']:.0f} s ago"
        lines.append(f"  database: {answer['store']} as of {age}{why}")
    return lines


def _running(process: Process, now: float) -> str:
    host = (process.host or "").partition("#")[0]
    age = relative_time(process.started_at, now)
    return f"Running: process {process.pid} on {host}, started {age}"


def _platforms(states: Mapping[str, str]) -> list[str]:
    return [f"  {name}: {one_line(state)}" for name, state in sorted(states.items())]


def _spooled(directory: Path) -> SpoolStatus | None:
    """Return how many messages are kept in files; None if the directory cannot be read."""
    try:
        return spool_status(directory)
    except OSError:
        return None


def _kept(kept: SpoolStatus | None, directory: Path) -> list[str]:
    """Return the lines about messages that are not in the store."""
    if kept is None:
        return [f"Cannot read {directory}: there may be messages in it"]
    lines = []
    if kept.entries:
        lines.append(
            f"Messages waiting for the database in {directory}: {kept.entries}; "
            f"a gateway will store and answer them when it is available"
        )
    if kept.put_aside:
        lines.append(kept.describe_set_aside(directory, NEXT_STEP))
    return lines


def _silent(process: Process, now: float) -> str:
    heartbeat = f"last heartbeat {relative_time(process.heartbeat_at, now)}"
    if process.host == host_name() and identify_process(process) == "another":
        heartbeat += ", its pid now belongs to another program"
    return f"Silent: process {process.pid}, {heartbeat}; its turns continue when a gateway starts"


def _counts(by_status: dict[str, int]) -> str:
    shown = (f"{count} {status.replace('_', ' ')}" for status, count in sorted(by_status.items()))
    return ", ".join(shown) or "none"
