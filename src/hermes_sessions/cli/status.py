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

_ALIVE: Final = 60.0


@click.command(short_help="Show how the store is, what it holds and what waits.")
@pass_console
def status(console: Console) -> None:
    """Show how the store is, what it holds, and what waits to be stored.

    The store is healthy, degraded (it works, and something should be seen to), read-only or down.
    Nothing is changed, and nobody is waited for. Exit code 1 when it is not healthy.
    """
    show_warnings(console)
    with opened(subject(console)) as looked_at:
        found = run_checks(looked_at, QUICK)
        contents, met = _contents(looked_at)
        health = worst([found.health, met])
        document = {
            "state": health.state.value,
            "why": health.why,
            "provider": found.provider,
            "location": found.location,
            "exists": not looked_at.is_missing,
            **contents,
            "backups": _backups(looked_at),
            "waiting": {
                "chat": _waiting(chat_spool_root(looked_at.settings.home)),
                "gateway": _waiting(spool_directory(looked_at.settings.home)),
            },
        }
    if console.as_json:
        console.print_json(document)
    else:
        console.print(_lines(document, console.clock()))
    if not health.is_healthy:
        raise click.exceptions.Exit(1)


def _contents(looked_at: ExaminedStore) -> tuple[dict[str, Any], Health]:
    """Return what the tables say, None for what could not be found out; and whether that was
    because they are damaged.
    """
    found: dict[str, Any] = dict.fromkeys(
        ("sessions", "messages", "size_bytes", "index_pending", "gateways")
    )
    if looked_at.opened is None or not looked_at.has_our_tables:
        return found, HEALTHY
    try:
        found["size_bytes"] = _size(looked_at)
        with looked_at.read() as tx:
            row = tx.one(
                "SELECT COUNT(*), SUM(message_count) FROM sessions WHERE trashed_at IS NULL"
            )
            found["sessions"], found["messages"] = (int(number or 0) for number in row or (0, 0))
            found["index_pending"] = pending(tx, has_mark=looked_at.is_file)
            row = tx.one(
                "SELECT COUNT(*) FROM processes WHERE ended_at IS NULL AND heartbeat_at > ?",
                (looked_at.clock() - _ALIVE,),
            )
            found["gateways"] = int(row[0]) if row else 0
    except StoreCorrupt as error:
        return found, Health(State.DEGRADED, str(error))
    except HermesSessionsError:
        return found, HEALTHY  # A table that is missing is the doctor's to report.
    return found, HEALTHY


def _size(looked_at: ExaminedStore) -> int:
    if isinstance(looked_at.opened, SessionDBProvider):
        return looked_at.opened.size_bytes()
    files = (looked_at.path, Path(f"{looked_at.path}-wal"))
    return sum(file.stat().st_size for file in files if file.exists())


def _backups(looked_at: ExaminedStore) -> dict[str, Any] | None:
    try:
        kept = summarize_backups(looked_at)
    except HermesSessionsError:
        return None
    return {"count": kept.number, "newest": kept.newest}


def _waiting(place: Path) -> int | None:
    try:
        return spool_status(place).entries
    except OSError:
        return None  # The doctor says why.


def _lines(document: Mapping[str, Any], now: float) -> Iterator[str]:
    yield f"Store: {one_line(document['location'])} ({document['provider']})"
    why = f": {one_line(document['why'])}" if document["why"] else ""
    yield f"State: {document['state']}{why}"
    if not document["exists"]:
        yield "There is no store yet; the first conversation makes it."
    if document["sessions"] is not None:
        messages = counted(document["messages"], "message")
        yield f"Sessions: {document['sessions']}, with {messages}"
        yield f"Size: {size(document['size_bytes'])}"
        waiting = document["index_pending"]
        behind = f"{counted(waiting, 'message')} waiting" if waiting else "complete"
        yield f"Search index: {behind}"
    if document["backups"] is not None:
        newest = document["backups"]["newest"]
        age = f", the newest {relative_time(newest, now)}" if newest is not None else ""
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
        yield f"Waiting to be stored: {chat} said in chats, {gateway} from messengers"
    if document["state"] != "healthy":
        yield "See what to do: hermes doctor"
