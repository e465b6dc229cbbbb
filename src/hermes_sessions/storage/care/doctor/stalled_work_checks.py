"""Checks of stalled work: dead leases, a stuck mailbox, replies that cannot be delivered."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Final

from hermes_sessions.storage.care.doctor.check_runner import Check, ExaminedStore
from hermes_sessions.storage.care.doctor.report import Finding, OpenStore
from hermes_sessions.storage.repositories.leases import Lease, Leases

#: Seconds after which an unhandled message is stuck, an expired lease is dead, and a process is
#: dead that sends no heartbeat.
_STUCK: Final = 600.0
_EXPIRED: Final = 60.0
_SILENT: Final = 60.0


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


STALLED_WORK_CHECKS: Final = (
    Check(("dead-leases",), _leases),
    Check(("stuck-mailbox",), _mailbox),
    Check(("dead-letters",), _dead_letters),
)
