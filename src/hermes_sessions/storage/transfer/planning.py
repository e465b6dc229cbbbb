"""What a run would do, and whether it may begin; nothing is written here."""

from __future__ import annotations

from dataclasses import dataclass, field

from hermes_sessions.errors import TransferRefused
from hermes_sessions.storage.provider import SessionDBProvider
from hermes_sessions.storage.transfer.comparison import Difference, Verdict, judge
from hermes_sessions.storage.transfer.copy_ledger import Ledger, identity
from hermes_sessions.storage.transfer.reader import Summed, pages, sum_sessions
from hermes_sessions.storage.transfer.side_tables import Merge


@dataclass(slots=True)
class Plan:
    """What a run would do."""

    source: str
    target: str
    copied: int = 0
    copied_messages: int = 0
    overwritten: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)


def plan(
    source: SessionDBProvider,
    target: SessionDBProvider | None,
    *,
    merge: Merge | None = None,
    since: float | None = None,
) -> Plan:
    """Return what a `Transfer` would do; without a *target*, there is no store yet."""
    found_plan = Plan(identity(source), identity(target) if target else "")
    ledger = Ledger(found_plan.source, source.dialect)
    if target is not None:
        require_different(found_plan.source, found_plan.target)
        require_room(target, ledger, merge)
    for page in pages(source, since):
        with source.read() as tx:
            wanted = sum_sessions(tx, page)
        found: dict[str, Summed] = {}
        entries: dict[str, str] = {}
        if target is not None:
            with target.read() as tx:
                found = sum_sessions(tx, page)
                entries = ledger.entries(tx, "session", page)
        for session_id, summed in wanted.items():
            verdict, reason = judge(summed, found.get(session_id), entries.get(session_id), merge)
            if verdict is Verdict.COPY:
                found_plan.copied += 1
                found_plan.copied_messages += summed.messages
                if reason:
                    found_plan.overwritten.append(session_id)
            elif verdict is Verdict.SKIP:
                found_plan.skipped.append(session_id)
            elif verdict is Verdict.CONFLICT:
                found_plan.differences.append(Difference(session_id, reason))
    return found_plan


def require_different(source: str, target: str) -> None:
    """Raise `TransferRefused` for two names of one store."""
    if source == target:
        raise TransferRefused(f"Source and target are the same store: {source}.")


def require_room(target: SessionDBProvider, ledger: Ledger, merge: Merge | None) -> None:
    """Raise `TransferRefused` for a target with other sessions, unless they are to be merged."""
    if merge is not None:
        return
    with target.read() as tx:
        others = ledger.sessions_from_elsewhere(tx)
    if others:
        raise TransferRefused(
            f"{identity(target)} holds {number_of_sessions(others)} that did not come from "
            f"{ledger.origin}. To copy all the same, choose what happens to sessions that are in "
            f"both: --merge skip leaves them as they are, --merge overwrite replaces them."
        )


def number_of_sessions(number: int) -> str:
    """Return ``1 session``, ``2 sessions``."""
    return f"{number} session{'' if number == 1 else 's'}"
