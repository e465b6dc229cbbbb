"""One line at the end of hermes-agent's ``hermes doctor``: the store that is in use.

Its own check counts the sessions of the file ``state.db``, which on a server holds none.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from hermes_sessions.errors import HermesSessionsError


def is_doctor(arguments: Sequence[str]) -> bool:
    """Return whether *arguments*, as in ``sys.argv``, are those of ``hermes doctor``."""
    program, *rest = arguments or [""]
    command = next((each for each in rest if not each.startswith("-")), "")
    return "hermes" in program and command == "doctor"


def write_store_in_use() -> None:
    """Write which store hermes-agent uses, and how many sessions it has."""
    sys.stdout.write(f"\n◆ Session Store (hermes-sessions)\n  {_state()}\n")


def _state() -> str:
    from hermes_sessions.drop_in.session_db import SessionDB

    try:
        db = SessionDB(read_only=True)
        try:
            described = db.describe()
            where = described.get("path") or described.get("location")
            count = db.session_count(include_archived=True)
            return f"✓ {described['provider']}: {where} ({count} session{'s' * (count != 1)})"
        finally:
            db.close()
    except (HermesSessionsError, OSError) as error:
        return f"✗ {error}"
