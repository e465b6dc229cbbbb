"""Files beside the database: backups, transcripts of older versions, and copies of the store."""

from __future__ import annotations

import glob
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from hermes_sessions.errors import BackupRefused, HermesSessionsError
from hermes_sessions.storage.care.backups.backup_contents import opened_as_store, rewrite_backup
from hermes_sessions.storage.care.backups.backup_directory import (
    Backup,
    list_backups,
    lock_backup_directory,
)
from hermes_sessions.storage.care.backups.creation import PATIENCE
from hermes_sessions.storage.care.erasure.discovery import count_rows, find
from hermes_sessions.storage.care.erasure.receipts import ErasureStep
from hermes_sessions.storage.care.erasure.row_removal import remove, scrub
from hermes_sessions.storage.care.erasure.targets import ErasureTargets
from hermes_sessions.storage.provider import SessionDBProvider
from hermes_sessions.storage.store_context import StoreContext

# Backups: the data is removed from each, so that the rest stays a valid backup.


NAME: Final = "backups"


class BackupPlace:
    """The backups of *store* in *directory*. See `ErasurePlace`.

    Backups older than the request are searched for the user, chat or session itself, because they
    may know more than the store does now. From later ones, only the data found by the request is
    removed. Backups of other stores are not changed, but named if they contain something. Waits
    *patience* seconds for processes that create or remove backups.
    """

    name = NAME
    needs_rows = False

    def __init__(self, directory: Path, store: str, *, patience: float = PATIENCE) -> None:
        self._directory = directory
        self._store = store
        self._patience = patience

    def count(self, targets: ErasureTargets) -> dict[str, int]:
        """See `ErasurePlace.count`."""
        counts = Counter[str]()
        for backup in list_backups(self._directory):
            try:
                if _backup_contains(backup, targets):
                    counts["backups" if self._is_ours(backup) else "backups of other stores"] += 1
            except (HermesSessionsError, OSError):
                counts["backups that cannot be read"] += 1
        return dict(counts)

    def remove(self, targets: ErasureTargets) -> ErasureStep:
        """See `ErasurePlace.remove`."""
        removed = 0
        problems: list[str] = []
        try:
            self._wait_for_others()
            backups = list_backups(self._directory)
        except HermesSessionsError as error:
            return ErasureStep(NAME, "pending", why=str(error))
        for backup in backups:
            try:
                if not _backup_contains(backup, targets):
                    continue
                if not self._is_ours(backup):
                    problems.append(_named(backup))
                    continue
                rewrite_backup(backup.path, partial(_erase, backup=backup, targets=targets))
                removed += 1
            except (HermesSessionsError, OSError) as error:
                problems.append(f"{backup.path}: {error}")
        if problems:
            why = " ".join(problems) + " Remove the files you do not need, then resume."
            return ErasureStep(NAME, "pending", {"backups": removed} if removed else {}, why)
        return ErasureStep(NAME, removed={"backups": removed} if removed else {})

    def _wait_for_others(self) -> None:
        """Wait for a running backup of an earlier state, and remove the unpacked remains of a
        killed one.

        A backup that starts later no longer finds the data in the store.

        Raises:
            StoreLocked: another process is still working there.
        """
        if self._directory.is_dir():
            # In an unwritable directory no process creates backups.
            with suppress(BackupRefused), lock_backup_directory(self._directory, self._patience):
                pass

    def _is_ours(self, backup: Backup) -> bool:
        """Tell whether it is of this store, or of an unknown one."""
        return backup.store in ("", self._store)


def _named(backup: Backup) -> str:
    return (
        f"{backup.path} is a backup of another store ({backup.store}) and was not changed: if that "
        f"store is in use, run hermes forget there, too."
    )


def _backup_contains(backup: Backup, targets: ErasureTargets) -> bool:
    with opened_as_store(backup.path) as provider:
        return _known(provider, backup, targets)


def _meant(provider: SessionDBProvider, backup: Backup, targets: ErasureTargets) -> ErasureTargets:
    """Return what to erase from a backup, with the lane ids of the backup."""
    with provider.read() as tx:
        if backup.created > targets.requested_at:
            # Lanes created since are new; the others existed when the backup was made.
            lanes = [
                row[0]
                for row in tx.all(
                    "SELECT id, session_key FROM lanes WHERE created_at <= ?",
                    (targets.requested_at,),
                )
                if row[1] in targets.session_keys
            ]
            return replace(targets, lanes=tuple(lanes))
        there = find(tx, targets.subject, targets.requested_at)
    return replace(
        there,
        ids=tuple(sorted({*there.ids, *targets.ids})),
        session_ids=tuple(sorted({*there.session_ids, *targets.session_ids})),
        rooms=tuple(sorted({*there.rooms, *targets.rooms})),
    )


def _known(provider: SessionDBProvider, backup: Backup, targets: ErasureTargets) -> bool:
    meant = _meant(provider, backup, targets)
    with provider.read() as tx:
        return bool(count_rows(tx, meant))


def _erase(provider: SessionDBProvider, backup: Backup, targets: ErasureTargets) -> None:
    store = StoreContext(provider, time.time)
    remove(store, _meant(provider, backup, targets))
    # A pending receipt in a backup contains the ids.
    provider.write(lambda tx: tx.run("UPDATE erasures SET targets = NULL"))
    scrub(store, rebuild=True)


TRANSCRIPTS: Final = "transcript files"
COPIES: Final = "copies of the store"
#: Suffixes of files beside a store in use; these are not copies of it.
_IN_USE: Final = ("-wal", "-shm", "-journal", ".gate")
_CHUNK: Final = 4 * 2**20
_LOOKED_FOR: Final = 200


class TranscriptPlace:
    """Transcript files of older versions in *directory*, one per session. See `ErasurePlace`."""

    name = TRANSCRIPTS
    needs_rows = False

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def count(self, targets: ErasureTargets) -> dict[str, int]:
        """See `ErasurePlace.count`."""
        return _counted(sum(1 for _ in self._files(targets)))

    def remove(self, targets: ErasureTargets) -> ErasureStep:
        """See `ErasurePlace.remove`."""
        removed = 0
        problems: list[str] = []
        for file in list(self._files(targets)):
            try:
                file.unlink(missing_ok=True)
                removed += 1
            except OSError as error:
                problems.append(f"{file} cannot be removed: {error.strerror}.")
        if problems:
            return ErasureStep(TRANSCRIPTS, "pending", _counted(removed), " ".join(problems))
        return ErasureStep(TRANSCRIPTS, removed=_counted(removed))

    def _files(self, targets: ErasureTargets) -> Iterator[Path]:
        for session_id in targets.session_ids:
            if "/" in session_id or "\\" in session_id or "\x00" in session_id:
                continue  # Such an id never was a file name of ours.
            names = (f"{session_id}.json", f"{session_id}.jsonl")
            yield from (file for name in names if (file := self._directory / name).is_file())
            yield from self._directory.glob(f"request_dump_{glob.escape(session_id)}_*.json")


class StoreCopyPlace:
    """Whole copies of a SQLite store beside it, from before an upgrade, a repair or a restore.

    They are not changed; those that contain something are named. See `ErasurePlace`.
    """

    name = COPIES
    needs_rows = False

    def __init__(self, store: Path) -> None:
        self._store = store

    def count(self, targets: ErasureTargets) -> dict[str, int]:
        """See `ErasurePlace.count`."""
        return _counted(len(self._holding(targets)))

    def remove(self, targets: ErasureTargets) -> ErasureStep:
        """See `ErasurePlace.remove`."""
        try:
            found = self._holding(targets)
        except OSError as error:
            return ErasureStep(COPIES, "pending", why=f"{error}.")
        if not found:
            return ErasureStep(COPIES)
        names = ", ".join(str(file) for file in found)
        why = f"Not changed: {names}. Remove the files you no longer need, then resume."
        return ErasureStep(COPIES, "pending", why=why)

    def _holding(self, targets: ErasureTargets) -> list[Path]:
        # A sample of many sessions is enough: a copy that has one of them has them all, or it is
        # from another time, and then it contains the user.
        sessions = targets.session_ids[:: len(targets.session_ids) // _LOOKED_FOR + 1]
        # Rooms are always included, because authors were not always recorded.
        wanted = (*targets.ids, *sessions, *targets.rooms)
        words = [word.encode("utf-8", "surrogatepass") for word in wanted]
        return [file for file in self._copies() if _holds(file, words)]

    def _copies(self) -> list[Path]:
        name = self._store.name
        if not self._store.parent.is_dir():
            return []
        beside = [
            file
            for file in self._store.parent.iterdir()
            if file.name.startswith(name)
            and file.name != name
            and file.name.removeprefix(name) not in _IN_USE
        ]
        # A killed repair leaves a directory.
        inside = [file for folder in beside if _is_folder(folder) for file in folder.iterdir()]
        return sorted(file for file in (*beside, *inside) if _is_file(file))


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _is_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _holds(file: Path, words: list[bytes]) -> bool:
    """Search a file for words, also across the boundaries of chunks."""
    longest = max(map(len, words), default=0)
    before = b""
    with file.open("rb") as reading:
        while piece := reading.read(_CHUNK):
            if any(word in before + piece for word in words):
                return True
            before = piece[-longest:] if longest else b""
    return False


def _counted(files: int) -> dict[str, int]:
    return {"files": files} if files else {}
