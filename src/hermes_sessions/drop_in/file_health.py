"""Check and repair of a store, as hermes-agent's doctor and ``sessions repair`` ask for it."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hermes_sessions.drop_in.store_location import locate_store
from hermes_sessions.errors import HermesSessionsError, StoreError
from hermes_sessions.storage.logs import Logger
from hermes_sessions.storage.provider import OpenOptions
from hermes_sessions.storage.provider_registry import file_care, open_configured

if TYPE_CHECKING:
    from hermes_sessions.config.settings import Settings

_MALFORMED_MARKERS: Final = ("malformed database schema", "database disk image is malformed")
_FINDINGS_SHOWN: Final = 3

logger = Logger(__name__)
_lock = threading.Lock()
#: Files that this process has tried to repair.
_repaired: Final[set[Path]] = set()


def is_malformed_db_error(exc: BaseException) -> bool:
    """Return whether an error says that a database file is damaged."""
    text = str(exc).lower()
    return isinstance(exc, sqlite3.DatabaseError) and any(
        marker in text for marker in _MALFORMED_MARKERS
    )


def db_opens_cleanly(path: Path) -> str | None:
    """Return None if the store that *path* stands for is sound, otherwise the reason.

    Nothing is changed.
    """
    try:
        location = locate_store(path)
        if location is not None and not location.is_file_the_store:
            return _reason_against_configured(location.settings)
        if path.exists() and path.stat().st_size == 0:
            return "no such table: sessions"
        report = file_care().check_store(path)
    except (HermesSessionsError, OSError) as error:
        return str(error)
    found = [": ".join(filter(None, (each.where, each.detail))) for each in report.findings]
    return "; ".join(found[:_FINDINGS_SHOWN]) or None


def repair_state_db_schema(path: Path, *, backup: bool = True) -> dict[str, Any]:
    """Repair the store that *path* stands for.

    Returns ``repaired``, ``strategy``, ``backup_path`` (the damaged file, which is kept even
    without *backup*) and ``error``. Rows that can be read are kept; see docs/repair.md.
    """
    del backup
    result: dict[str, Any] = {
        "repaired": False,
        "strategy": None,
        "backup_path": None,
        "error": None,
    }
    reason = db_opens_cleanly(path)
    if reason is None:
        return {**result, "repaired": True, "strategy": "already_healthy"}
    try:
        location = locate_store(path)
        if location is not None and not location.is_file_the_store:
            return {**result, "error": reason}
        return {**result, **_repair_file(path)}
    except (HermesSessionsError, OSError) as error:
        return {**result, "error": str(error)}


def repair_malformed_once(path: Path, error: StoreError) -> bool:
    """Repair a file that *error* calls malformed, at most once per process; return whether it was
    repaired. The damaged file is kept.
    """
    with _lock:
        if path in _repaired or not is_malformed_db_error(error):
            return False
        _repaired.add(path)
    try:
        result = _repair_file(path)
    except (HermesSessionsError, OSError) as failure:
        logger.warning("%s is damaged and could not be repaired: %s", path, failure)
        return False
    logger.warning(
        "%s was damaged (%s) and has been repaired (%s); the damaged file is kept as %s",
        path,
        error,
        result.get("strategy"),
        result.get("backup_path"),
    )
    return bool(result.get("repaired"))


def _repair_file(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {"error": f"{path} does not exist"}
    from hermes_sessions.storage.care.repair.report import RepairOptions

    report = file_care().repair_store(path, RepairOptions())
    kept = None if report.kept is None else str(path.with_name(report.kept))
    strategy = "rebuild_search" if report.state == "rebuilt" else "salvage"
    return {"repaired": True, "strategy": strategy, "backup_path": kept}


def _reason_against_configured(settings: Settings) -> str | None:
    from hermes_sessions.storage.sessiondb import SessionDB

    provider = open_configured(settings, OpenOptions(read_only=True)).provider
    with SessionDB(provider=provider) as db:
        db.session_count()
    return None
