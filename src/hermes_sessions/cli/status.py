"""``hermes status``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from hermes_sessions.agent.chat_spool import chat_spool_root
from hermes_sessions.cli.console import Console
from hermes_sessions.cli.doctor import subject
from hermes_sessions.cli.doctor.checks import QUICK
from hermes_sessions.cli.options import pass_console
from hermes_sessions.cli.render.humanize import counted, relative_time, size
from hermes_sessions.cli.render.safe_text import one_line
from hermes_sessions.cli.store import show_warnings
from hermes_sessions.errors import HermesSessionsError, StoreCorrupt
from hermes_sessions.gateway.inbound_spool import spool_directory
from hermes_sessions.storage.care.doctor.access_checks import opened
from hermes_sessions.storage.care.doctor.check_runner import run_checks
from hermes_sessions.storage.care.doctor.environment_checks import summarize_backups
from hermes_sessions.storage.care.doctor.integrity_checks import pending
from hermes_sessions.storage.care.health import HEALTHY, Health, State, worst
from hermes_sessions.storage.provider import SessionDBProvider
from hermes_sessions.storage.spool import spool_status

if TYPE_CHECKING:
    from hermes_sessions.storage.care.doctor.check_runner import ExaminedStore

#: Seconds since its last heartbeat within which a gateway counts as running.
_ALIVE: Final = 60.0


@click.command(short_help="Show the store's health, contents and backlog.")
@pass_console
def status(console: Console) -> None:
    """Show the store's health, what it contains, and what is waiting to be stored.

    The store is healthy, degraded (it works, but needs attention), read-only or down. Changes
    nothing and never waits for a lock. Exits with 1 when the store is not healthy.
    """
    show_warnings(console)
    with opened(subject(console)) as examined:
        found = run_checks(examined, QUICK)
        contents, contents_health = _contents(examined)
        health = worst([found.health, contents_health])
        document = {
            "state": health.state.value,
            "why": health.why,
            "provider": found.provider,
            "location": found.location,
            "exists": not examined.is_missing,
            **contents,
            "backups": _backups(examined),
            "waiting": {
                "chat": _waiting(chat_spool_root(examined.settings.home)),
                "gateway": _waiting(spool_directory(examined.settings.home)),
            },
        }
    if console.as_json:
        console.print_json(document)
    else:
        console.print(_lines(document, console.clock()))
    if not health.is_healthy:
        raise click.exceptions.Exit(1)


def _contents(examined: ExaminedStore) -> tuple[dict[str, Any], Health]:
    """Return the counts from the tables, None for each that could not be read, and the health
    that reading them revealed.
    """
    found: dict[str, Any] = dict.fromkeys(
        ("sessions", "messages", "size_bytes", "index_pending", "gateways")
    )
    if examined.opened is None or not examined.has_our_tables:
        return found, HEALTHY
    try:
        found["size_bytes"] = _size(examined)
        with examined.read() as tx:
            row = tx.one(
                "SELECT COUNT(*), SUM(message_count) FROM sessions WHERE trashed_at IS NULL"
            )
            found["sessions"], found["messages"] = (int(number or 0) for number in row or (0, 0))
            found["index_pending"] = pending(tx, has_mark=examined.is_file)
            row = tx.one(
                "SELECT COUNT(*) FROM processes WHERE ended_at IS NULL AND heartbeat_at > ?",
                (examined.clock() - _ALIVE,),
            )
            found["gateways"] = int(row[0]) if row else 0
    except StoreCorrupt as error:
        return found, Health(State.DEGRADED, str(error))
    except HermesSessionsError:
        return found, HEALTHY  # The doctor reports a missing table.
    return found, HEALTHY


def _size(examined: ExaminedStore) -> int:
    if isinstance(examined.opened, SessionDBProvider):
        return examined.opened.size_bytes()
    files = (examined.path, Path(f"{examined.path}-wal"))
    return sum(file.stat().st_size for file in files if file.exists())


def _backups(examined: ExaminedStore) -> dict[str, Any] | None:
    try:
        kept = summarize_backups(examined)
    except HermesSessionsError:
        return None
    return {"count": kept.number, "newest": kept.newest}


def _waiting(directory: Path) -> int | None:
    try:
        return spool_status(directory).entries
    except OSError:
        return None  # The doctor says why.


def _lines(document: Mapping[str, Any], now: float) -> Iterator[str]:
    yield f"Store: {one_line(document['location'])} ({document['provider']})"
    why = f": {one_line(document['why'])}" if document["why"] else ""
    yield f"State: {document['state']}{why}"
    if not document["exists"]:
        yield "There is no store yet; the first conversation creates it."
    if document["sessions"] is not None:
        messages = counted(document["messages"], "message")
        yield f"Sessions: {document['sessions']} ({messages})"
        yield f"Size: {size(document['size_bytes'])}"
        waiting = document["index_pending"]
        behind = f"{counted(waiting, 'message')} waiting" if waiting else "complete"
        yield f"Search index: {behind}"
    if document["backups"] is not None:
        newest = document["backups"]["newest"]
        age = f", newest {relative_time(newest, now)}" if newest is not None else ""
        yield f"Backups: {document['backups']['count'] or 'none'}{age}"
    if document["gateways"] is not None:
        number = document["gateways"]
        yield f"Gateway: {'not running' if not number else f'running ({number})'}"
    waiting_for_store = document["waiting"]
    if any(number != 0 for number in waiting_for_store.values()):
        chat, gateway = (
            "an unknown number" if waiting_for_store[name] is None else waiting_for_store[name]
            for name in ("chat", "gateway")
        )
        yield f"Waiting to be stored: {chat} from chats, {gateway} from messengers"
    if document["state"] != "healthy":
        yield "For details and next steps, run: hermes doctor"
