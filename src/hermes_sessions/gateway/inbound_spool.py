"""Messages that arrive while the database cannot be reached: a local file, in order.

A message is confirmed to its platform once it is on disk here. When the database is back, the file
is replayed from its beginning, and the mailbox recognises what it had stored already; see
``storage.spool``.
"""

from __future__ import annotations

import secrets
from dataclasses import replace
from pathlib import Path
from typing import Final

from hermes_sessions.gateway.events import Inbound
from hermes_sessions.storage import spool

#: What to do about messages that were put aside.
NEXT_STEP: Final = (
    "See them with: hermes gateway queue --kept; have them answered with: "
    "hermes gateway queue --redeliver"
)
_FORM: Final = spool.EntryFormat(Inbound.to_dict, Inbound.from_dict)


class Spool(spool.Spool[Inbound]):
    """The spool of one gateway, in *directory*."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, _FORM)

    def _append(self, entry: Inbound) -> None:
        if entry.message_id is None:
            # By this it is recognised if it is replayed twice.
            entry = replace(entry, message_id=f"spool-{secrets.token_hex(16)}")
        super()._append(entry)


def spool_directory(home: Path) -> Path:
    """Return where the gateways of a home keep theirs."""
    return home / "gateway" / "spool"
