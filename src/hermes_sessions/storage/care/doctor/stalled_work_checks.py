"""Checks of the stored rows: wrong clocks, stalled work, a removed write-ahead log."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable
from functools import partial
from typing import Final

from hermes_sessions.storage.care.doctor.check_runner import Check, ExaminedStore
from hermes_sessions.storage.care.doctor.report import Finding, OpenStore
from hermes_sessions.storage.codec import from_json
from hermes_sessions.storage.provider_registry import file_care
from hermes_sessions.storage.repositories.leases import Lease, Leases

#: Seconds by which clocks may differ without harm.
_SKEW: Final = 10.0
#: Seconds in the future that rounding cannot explain.
_JUMP: Final = 300.0
#: How many of the newest messages are checked.
_NEWEST: Final = 1000
#: Seconds after which an unhandled message is stuck, an expired lease is dead, and a process is
#: dead that sends no heartbeat.
_STUCK: Final = 600.0
_EXPIRED: Final = 60.0
_SILENT: Final = 60.0


# ── clocks ────────────────────────────────────────────────────────────────────────────────────


def _jumps(subject: ExaminedStore) -> Iterable[Finding]:
    limit = subject.clock() + _JUMP
    with subject.read() as tx:
        sessions = tx.one(
            "SELECT COUNT(*), MAX(last_active) FROM sessions "
            "WHERE last_active > ? OR started_at > ?",
            (limit, limit),
        )
        newest = tx.one("SELECT MAX(id) FROM messages")
        messages = tx.one(
            "SELECT COUNT(*), MAX(timestamp) FROM messages WHERE id > ? AND timestamp > ?",
            (int((newest and newest[0]) or 0) - _NEWEST, limit),
        )
        # Only this machine's processes: they wrote with the clock they are compared to.
        processes = tx.one(
            "SELECT COUNT(*), MAX(heartbeat_at) FROM processes "
            "WHERE ended_at IS NULL AND heartbeat_at > ? AND host LIKE ?",
            (limit, f"{socket.gethostname()}%"),
        )
    found = {
        ("session", "sessions"): sessions,
        ("message", "messages"): messages,
        ("process", "processes"): processes,
    }
    parts = [
        f"{row[0]} {one if row[0] == 1 else many}"
        for (one, many), row in found.items()
        if row and row[0]
    ]
    if parts:
        latest = max(float(row[1]) for row in found.values() if row and row[0] and row[1])
        yield Finding.of("clock-jump", f"{', '.join(parts)}, dated up to {_utc(latest)}.")


def _utc(moment: float) -> str:
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(moment))
    except (OverflowError, ValueError, OSError):
        # The store accepts any number as a time; calendars do not.
        return "an impossible date"


def _skew(subject: ExaminedStore) -> Iterable[Finding]:
    if subject.server is not None:
        with subject.read() as tx:
            before = subject.clock()
            row = tx.one(subject.server.clock)
            after = subject.clock()
        theirs = float(row[0]) if row else before
        if not before - _SKEW <= theirs <= after + _SKEW:
            ahead = theirs - after
            yield Finding.of(
                "clock-skew",
                f"The server's clock is {abs(ahead):,.0f} s "
                f"{'ahead of' if ahead > 0 else 'behind'} this machine's.",
            )
    with subject.read() as tx:
        ahead_hosts = tx.all(
            "SELECT host, MAX(heartbeat_at) FROM processes WHERE ended_at IS NULL "
            "AND heartbeat_at > ? AND host NOT LIKE ? GROUP BY host ORDER BY host",
            (subject.clock() + _SKEW, f"{socket.gethostname()}%"),
        )
    for host, beat in ahead_hosts:
        name = str(host or "another machine").partition("#")[0]
        seconds = float(beat) - subject.clock()
        yield Finding.of(
            "clock-skew", f"The clock of {name} is {seconds:,.0f} s ahead of this machine's."
        )


# ── leases and queues ────────────────────────────────────────────────────────────────────────


def _leases(subject: ExaminedStore) -> Iterable[Finding]:
    with subject.read() as tx:
        rows = tx.all(
            "SELECT chain_id, token, holder, process_id, expires_at FROM leases "
            "WHERE holder IS NOT NULL AND expires_at < ? ORDER BY expires_at",
            (subject.clock() - _EXPIRED,),
        )
    if rows:
        leases = [Lease(chain, chain, int(token), *rest) for chain, token, *rest in rows]
        first = leases[0].holder
        more = f" and {len(rows) - 1} more" if len(rows) > 1 else ""
        yield Finding.of(
            "dead-leases", f"Held by {first}{more}, without a heartbeat.", partial(_release, leases)
        )


def _release(found: list[Lease], open_store: OpenStore) -> str:
    with open_store() as db:
        leases = Leases(db.store)
        for lease in found:
            # By its token: a process that took the conversation since then keeps it.
            leases.release(lease)
    return f"Released {len(found)} conversation{'s' if len(found) != 1 else ''}."


def _mailbox(subject: ExaminedStore) -> Iterable[Finding]:
    now = subject.clock()
    with subject.read() as tx:
        alive = tx.one(
            "SELECT COUNT(*) FROM processes WHERE ended_at IS NULL AND heartbeat_at > ?",
            (now - _SILENT,),
        )
        at_work = (
            " AND NOT EXISTS (SELECT 1 FROM mailbox other "
            "WHERE other.lane_id = mailbox.lane_id AND other.status = 'running')"
            if alive and alive[0]
            else ""
        )
        statuses = "('waiting')" if at_work else "('waiting', 'running')"
        row = tx.one(
            f"SELECT COUNT(*), MIN(received_at) FROM mailbox "
            f"WHERE status IN {statuses} AND received_at < ?{at_work}",
            (now - _STUCK,),
        )
    if row and row[0]:
        minutes = (now - float(row[1])) / 60
        who = "" if at_work else "; no gateway is running"
        yield Finding.of(
            "stuck-mailbox", f"{row[0]} waiting, the oldest for {minutes:,.0f} minutes{who}."
        )


def _dead_letters(subject: ExaminedStore) -> Iterable[Finding]:
    with subject.read() as tx:
        rows = tx.all(
            "SELECT platform, COUNT(*) FROM outbox WHERE status = 'dead' "
            "GROUP BY platform ORDER BY platform"
        )
    if rows:
        yield Finding.of(
            "dead-letters", f"{', '.join(f'{count} on {name}' for name, count in rows)}."
        )


# ── the log ───────────────────────────────────────────────────────────────────────────────────


def _removed_logs(subject: ExaminedStore) -> Iterable[Finding]:
    with subject.read() as tx:
        row = tx.one(
            'SELECT value FROM state_meta WHERE "key" = ?', (file_care().removed_logs_key,)
        )
    match from_json(row[0] if row else None, None):
        case {"count": int(count), "last": float(last)}:
            times = "once" if count == 1 else f"{count:,} times"
            yield Finding.of(
                "removed-log",
                f"{subject.path}-wal was removed while in use {times}, last on {_utc(last)}.",
                partial(_acknowledge, row[0] if row else None),
            )


def _acknowledge(note: str | None, open_store: OpenStore) -> str:
    # Only this note: one written since then is not known to the user yet.
    sql = 'DELETE FROM state_meta WHERE "key" = ? AND value = ?'
    key = file_care().removed_logs_key
    with open_store() as db:
        db.store.provider.write(lambda tx: tx.run(sql, (key, note)))
    return "Acknowledged. The doctor reports it if it happens again."


ACTIVITY_CHECKS: Final = (
    Check(("clock-jump",), _jumps),
    Check(("clock-skew",), _skew),
    Check(("dead-leases",), _leases),
    Check(("stuck-mailbox",), _mailbox),
    Check(("dead-letters",), _dead_letters),
    Check(("removed-log",), _removed_logs),
)
