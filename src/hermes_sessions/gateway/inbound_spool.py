"""The spool of incoming messages: a local file, used while the database is unavailable.

A message is confirmed to its platform when it is on disk here. When the database is back, the file
is replayed from its beginning, and the mailbox recognises messages that it has stored already; see
``storage.spool``.
"""

from __future__ import annotations

import secrets
from dataclasses import replace
from pathlib import Path
from typing import Final

from hermes_sessions.gateway.events import Inbound
from hermes_sessions.storage import spool

#: The next step for messages that were set aside.
NEXT_STEP: Final = (
    "To list them: hermes gateway queue --kept. To have them answered: "
    "hermes gateway queue --redeliver"
)
_FORM: Final = spool.EntryFormat(Inbound.to_dict, Inbound.from_dict)


class Spool(spool.Spool[Inbound]):
    """The spool of one gateway, in *directory*."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, _FORM)

    def _append(self, entry: Inbound) -> None:
        if entry.message_id is None:
            # The mailbox recognises a message that is replayed twice by this id.
            entry = replace(entry, message_id=f"spool-{secrets.token_hex(16)}")
        super()._append(entry)


def spool_directory(home: Path) -> Path:
    """Return the spool directory of the gateways of a home."""
    return home / "gateway" / "spool"
