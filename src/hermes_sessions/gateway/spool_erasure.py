"""Erasure of a user's messages from the gateway's spools."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from hermes_sessions.gateway.events import Inbound
from hermes_sessions.gateway.inbound_spool import spool_directory
from hermes_sessions.storage.care.erasure.receipts import ErasureReceipts
from hermes_sessions.storage.care.erasure.spool_place import SpoolPlace, is_about
from hermes_sessions.storage.store_context import StoreContext

#: Files in the gateway's directory in which adapters keep received messages, one per line:
#: ``<platform>-received.jsonl``. Found by name, because the package of the adapter that wrote one
#: may be uninstalled by now.
_JOURNALS: Final = ("*-received.jsonl", "*-received.unreadable")
#: A process without a heartbeat for this many seconds does not write any more.
_SILENT: Final = 120.0


def spools_of(home: Path, store: StoreContext, others: Sequence[Path] = ()) -> SpoolPlace:
    """Return the spools of a home's gateways, and those in *other* directories, as a place to erase
    from.
    """
    folder = home / "gateway"
    return SpoolPlace(
        [spool_directory(home), *others],
        [journal for pattern in _JOURNALS for journal in sorted(folder.glob(pattern))],
        lambda: _is_running(store),
    )


def _is_running(store: StoreContext) -> bool:
    with store.provider.read() as tx:
        row = tx.one(
            "SELECT 1 FROM processes WHERE ended_at IS NULL AND heartbeat_at > ?",
            (store.clock() - _SILENT,),
        )
    return row is not None


class ErasureFilter:
    """Tells whether a spooled message belongs to a user who was erased meanwhile."""

    def __init__(self, store: StoreContext) -> None:
        self._receipts = ErasureReceipts(store)

    def __call__(self, inbound: Inbound) -> bool:
        """Return whether it must not be stored because it was sent before the erasure, by the
        platform's time. Raises as reading from the store does.
        """
        if inbound.sent_at is None:
            return False
        values = inbound.to_dict()
        return any(
            inbound.sent_at <= targets.requested_at and is_about(targets, values)
            for targets in self._receipts.pending_targets()
        )
