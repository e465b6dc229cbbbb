"""What a gateway has of people who are to be forgotten: its files, and what it replays of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from hermes_sessions.gateway.events import Inbound
from hermes_sessions.gateway.inbound_spool import spool_directory
from hermes_sessions.storage.care.erasure.receipts import Receipts
from hermes_sessions.storage.care.erasure.spool_place import SpoolPlace, is_about
from hermes_sessions.storage.store import Store

#: Files in which adapters keep what they received, a message in each line.
_JOURNALS: Final = ("signal-received.jsonl", "signal-received.unreadable")
#: A process that was not heard of for so many seconds writes nothing any more.
_SILENT: Final = 120.0


def spools_of(home: Path, store: Store, others: Sequence[Path] = ()) -> SpoolPlace:
    """Return the spools of the gateways of a home, and those in *other* directories, as a place
    where something may be erased.
    """
    folder = home / "gateway"
    return SpoolPlace(
        [spool_directory(home), *others],
        [folder / name for name in _JOURNALS],
        lambda: _is_running(store),
    )


def _is_running(store: Store) -> bool:
    with store.provider.read() as tx:
        row = tx.one(
            "SELECT 1 FROM processes WHERE ended_at IS NULL AND heartbeat_at > ?",
            (store.clock() - _SILENT,),
        )
    return row is not None


class ErasureFilter:
    """Tells whether a message that was spooled is about somebody who was forgotten meanwhile."""

    def __init__(self, store: Store) -> None:
        self._receipts = Receipts(store)

    def __call__(self, inbound: Inbound) -> bool:
        """Return whether it must not be stored: it was sent before the request, as its platform
        says. Raises as reading from the store does.
        """
        if inbound.sent_at is None:
            return False
        values = inbound.to_dict()
        return any(
            inbound.sent_at <= targets.requested_at and is_about(targets, values)
            for targets in self._receipts.pending_targets()
        )
