"""The documented drop-in module: ``from hermes_state import SessionDB``.

It has every name that code for the documented system imports; `hermes_sessions.drop_in` implements
them. New code should import `hermes_sessions`, which has public methods for the same purposes.
"""

from __future__ import annotations

import atexit
import sys
from typing import TYPE_CHECKING, Any, Final

from hermes_sessions.drop_in import session_db
from hermes_sessions.drop_in.async_session_db import AsyncSessionDB
from hermes_sessions.drop_in.doctor_note import is_doctor, write_store_in_use
from hermes_sessions.drop_in.init_errors import (
    format_session_db_unavailable,
    get_last_init_error,
)
from hermes_sessions.drop_in.init_errors import set_last_init_error as _set_last_init_error
from hermes_sessions.drop_in.journal_mode import apply_wal_with_fallback
from hermes_sessions.drop_in.workspace import workspace_key

if TYPE_CHECKING:
    from pathlib import Path

    from hermes_sessions.drop_in.file_health import (
        db_opens_cleanly as _db_opens_cleanly,
    )
    from hermes_sessions.drop_in.file_health import (
        is_malformed_db_error,
        repair_state_db_schema,
    )
    from hermes_sessions.storage.sqlite.migrations import DOCUMENTED_VERSION as SCHEMA_VERSION

    SCHEMA_SQL: str
    #: Where the store is when nothing else is configured, as of the first use of this name.
    #: `SessionDB()` follows the environment and config.yaml at the time of the call, unless this
    #: name was set to another value.
    DEFAULT_DB_PATH: Path

__all__ = [
    "DEFAULT_DB_PATH",
    "FTS_SQL",
    "FTS_TRIGRAM_SQL",
    "SCHEMA_SQL",
    "SCHEMA_VERSION",
    "AsyncSessionDB",
    "SessionDB",
    "_db_opens_cleanly",
    "_set_last_init_error",
    "apply_wal_with_fallback",
    "format_session_db_unavailable",
    "get_last_init_error",
    "is_malformed_db_error",
    "repair_state_db_schema",
    "workspace_key",
]

#: The documented full-text tables, for code that sets up such tables of its own. The store does
#: not use them.
FTS_SQL: Final = "CREATE VIRTUAL TABLE IF NOT EXISTS messages_fts USING fts5(content);"
FTS_TRIGRAM_SQL: Final = (
    "CREATE VIRTUAL TABLE IF NOT EXISTS messages_fts_trigram "
    "USING fts5(content, tokenize='trigram');"
)

_default_at_first_use: Path | None = None


class SessionDB(session_db.SessionDB):
    """`hermes_sessions.SessionDB` as hermes-agent expects it."""

    def __init__(
        self, db_path: str | Path | None = None, read_only: bool = False, **options: Any
    ) -> None:
        if db_path is None:
            named = globals().get("DEFAULT_DB_PATH")
            db_path = None if named == _default_at_first_use else named
        super().__init__(db_path, read_only, **options)


if not TYPE_CHECKING:  # a type checker would take any name for an existing one

    def __getattr__(name: str) -> object:
        # What a store is opened with is loaded when one is opened.
        if name == "DEFAULT_DB_PATH":
            return _remembered_default()
        if name in {"_db_opens_cleanly", "is_malformed_db_error", "repair_state_db_schema"}:
            from hermes_sessions.drop_in import file_health

            return getattr(file_health, name.removeprefix("_"))
        from hermes_sessions.storage.sqlite import migrations

        if name == "SCHEMA_SQL":
            return migrations.script()
        if name == "SCHEMA_VERSION":
            return migrations.DOCUMENTED_VERSION
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


if is_doctor(sys.argv):
    atexit.register(write_store_in_use)


def _remembered_default() -> Path:
    from hermes_sessions.config import hermes_home

    global DEFAULT_DB_PATH, _default_at_first_use  # noqa: PLW0603 - others may replace the former
    DEFAULT_DB_PATH = _default_at_first_use = hermes_home() / "state.db"
    return DEFAULT_DB_PATH
