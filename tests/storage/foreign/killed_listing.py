"""A list in a process of its own that is killed while it works out derived columns.

python -m tests.storage.foreign.killed_listing sqlite:///a.db 3
"""

from __future__ import annotations

import os
import signal
import sys
from unittest import mock

from hermes_sessions import SessionDB
from hermes_sessions.storage.provider import WriteTransaction
from hermes_sessions.storage.repositories import derived_columns


def main(url: str, sessions: str) -> None:
    left = int(sessions)
    refresh = derived_columns.refresh_derived

    def refresh_or_die(tx: WriteTransaction, session_id: str) -> None:
        nonlocal left
        refresh(tx, session_id)
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    with (
        mock.patch.object(derived_columns, "refresh_derived", refresh_or_die),
        SessionDB.from_url(url) as db,
    ):
        db.list_sessions_rich()


if __name__ == "__main__":
    main(*sys.argv[1:])
