"""Erasure of lanes from the files that a gateway writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from hermes_sessions.lifecycle.host_files import (
    RESTART_COUNTS,
    SESSIONS_JSON,
    HostFiles,
    write_atomically,
)
from hermes_sessions.storage.care.erasure.receipts import ErasureStep
from hermes_sessions.storage.care.erasure.row_removal import mentions, without_person
from hermes_sessions.storage.care.erasure.targets import ErasureTargets

NAME: Final = SESSIONS_JSON


class SessionsJsonEntries:
    """The entries of ``sessions.json`` in *directory*. See `ErasurePlace`.

    A gateway writes the file from the database, so it does not restore entries erased there.
    """

    name = NAME
    needs_rows = False

    def __init__(self, directory: Path) -> None:
        self._path = directory / SESSIONS_JSON

    def count(self, targets: ErasureTargets) -> dict[str, int]:
        """See `ErasurePlace.count`."""
        found = self._read()
        gone = len(found) - len(_kept(found, targets)) if isinstance(found, dict) else 0
        return {"entries": gone} if gone else {}

    def remove(self, targets: ErasureTargets) -> ErasureStep:
        """See `ErasurePlace.remove`."""
        try:
            found = self._read()
            if not isinstance(found, dict):
                text = f"{self._path} cannot be read. Repair it or remove it, then resume."
                return ErasureStep(NAME, "pending", why=text)
            kept = _kept(found, targets)
            if kept != found:
                write_atomically(self._path, json.dumps(kept, indent=2) + "\n")
        except OSError as error:
            return ErasureStep(NAME, "pending", why=f"{self._path}: {error.strerror}.")
        gone = len(found) - len(kept)
        return ErasureStep(NAME, removed={"entries": gone} if gone else {})

    def _read(self) -> Any:
        return _read(self._path)


class RestartCountEntries:
    """The lanes listed in ``restart_counts.json`` of a *home*. See `ErasurePlace`."""

    name = RESTART_COUNTS
    needs_rows = False

    def __init__(self, home: Path) -> None:
        self._path = home / RESTART_COUNTS

    def count(self, targets: ErasureTargets) -> dict[str, int]:
        """See `ErasurePlace.count`."""
        found = _read(self._path)
        gone = len(set(found) & set(targets.session_keys)) if isinstance(found, dict) else 0
        return {"entries": gone} if gone else {}

    def remove(self, targets: ErasureTargets) -> ErasureStep:
        """See `ErasurePlace.remove`."""
        gone = self.count(targets)
        try:
            found = _read(self._path)
            if not isinstance(found, dict):
                self._path.unlink(missing_ok=True)  # It only mirrors the database.
            elif gone:
                kept = {
                    key: value for key, value in found.items() if key not in targets.session_keys
                }
                HostFiles(self._path.parent).show_counts(kept)
        except OSError as error:
            return ErasureStep(self.name, "pending", why=f"{self._path}: {error.strerror}.")
        return ErasureStep(self.name, removed=gone)


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8-sig", errors="surrogateescape"))
    except FileNotFoundError:
        return {}
    except (ValueError, RecursionError):
        return None


def _kept(entries: dict[str, Any], targets: ErasureTargets) -> dict[str, Any]:
    """Return the entries to keep; those of shared rooms without the erased user."""
    meant = frozenset((*targets.session_ids, *targets.session_keys))
    stays = {
        key: entry
        for key, entry in entries.items()
        if key not in meant and not mentions(entry, meant)
    }
    for key, entry in stays.items():
        origin = entry.get("origin") if isinstance(entry, dict) else None
        if targets.subject.kind == "user":
            changed = without_person(origin, targets)
            stays[key] = entry if changed is None else {**entry, "origin": changed}
    return stays
