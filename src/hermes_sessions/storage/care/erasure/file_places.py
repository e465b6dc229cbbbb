"""Files of sessions beside the database: older transcripts, and copies of the store itself."""

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
from hermes_sessions.storage.care.erasure.receipts import Step
from hermes_sessions.storage.care.erasure.row_removal import remove, scrub
from hermes_sessions.storage.care.erasure.targets import Targets
from hermes_sessions.storage.provider import SessionDBProvider
from hermes_sessions.storage.store import Store

# What backups hold: taken out of each, so that the rest of it stays a backup.


NAME: Final = "backups"


class BackupPlace:
    """The backups of *store* in *directory*. See `Place`.

    What was made before the request is searched for the person, chat or session itself, because it
    may know more of it than the store does by now. Of later ones, only what the request found goes.
    Backups of other stores are not ours to change: those that hold something are named.
    Whoever makes or removes backups meanwhile is waited for *patience* seconds.
    """

    name = NAME
    needs_rows = False

    def __init__(self, directory: Path, store: str, *, patience: float = PATIENCE) -> None:
        self._directory = directory
        self._store = store
        self._patience = patience

    def count(self, targets: Targets) -> dict[str, int]:
        """See `Place.count`."""
        counts = Counter[str]()
        for backup in list_backups(self._directory):
            try:
                if _backup_contains(backup, targets):
                    counts["backups" if self._is_ours(backup) else "backups of other stores"] += 1
            except (HermesSessionsError, OSError):
                counts["backups that cannot be read"] += 1
        return dict(counts)

    def remove(self, targets: Targets) -> Step:
        """See `Place.remove`."""
        removed = 0
        problems: list[str] = []
        try:
            self._wait_for_others()
            backups = list_backups(self._directory)
        except HermesSessionsError as error:
            return Step(NAME, "pending", why=str(error))
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
            why = " ".join(problems) + " Remove what nobody needs, then resume."
            return Step(NAME, "pending", {"backups": removed} if removed else {}, why)
        return Step(NAME, removed={"backups": removed} if removed else {})

    def _wait_for_others(self) -> None:
        """Let whoever makes a backup of an earlier state end, and clear what one who was killed
        has left unpacked. Whoever begins after this finds nothing in the store any more.

        Raises:
            StoreLocked: somebody is still at it.
        """
        if self._directory.is_dir():
            # Where nothing can be written, nobody makes one.
            with suppress(BackupRefused), lock_backup_directory(self._directory, self._patience):
                pass

    def _is_ours(self, backup: Backup) -> bool:
        """Tell whether it is of this store, or does not say of which it is."""
        return backup.store in ("", self._store)


def _named(backup: Backup) -> str:
    return (
        f"{backup.path} is a backup of another store ({backup.store}) and was not changed: if that "
        f"is in use, forget there, too."
    )


def _backup_contains(backup: Backup, targets: Targets) -> bool:
    with opened_as_store(backup.path) as provider:
        return _known(provider, backup, targets)


def _meant(provider: SessionDBProvider, backup: Backup, targets: Targets) -> Targets:
    """Return what is to go from a backup; numbers of lanes are those of the backup."""
    with provider.read() as tx:
        if backup.created > targets.requested_at:
            # Lanes that were made since are new; the others were there when it was made.
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


def _known(provider: SessionDBProvider, backup: Backup, targets: Targets) -> bool:
    meant = _meant(provider, backup, targets)
    with provider.read() as tx:
        return bool(count_rows(tx, meant))


def _erase(provider: SessionDBProvider, backup: Backup, targets: Targets) -> None:
    store = Store(provider, time.time)
    remove(store, _meant(provider, backup, targets))
    # A receipt in a backup says whom it is about as long as it is pending.
    provider.write(lambda tx: tx.run("UPDATE erasures SET targets = NULL"))
    scrub(store, rebuild=True)


TRANSCRIPTS: Final = "transcript files"
COPIES: Final = "copies of the store"
#: What SQLite and this program keep beside a store that is in use; no copies of it.
_IN_USE: Final = ("-wal", "-shm", "-journal", ".gate")
_CHUNK: Final = 4 * 2**20
_LOOKED_FOR: Final = 200


class TranscriptPlace:
    """What older versions wrote for each session into *directory*. See `Place`."""

    name = TRANSCRIPTS
    needs_rows = False

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def count(self, targets: Targets) -> dict[str, int]:
        """See `Place.count`."""
        return _counted(sum(1 for _ in self._files(targets)))

    def remove(self, targets: Targets) -> Step:
        """See `Place.remove`."""
        removed = 0
        problems: list[str] = []
        for file in list(self._files(targets)):
            try:
                file.unlink(missing_ok=True)
                removed += 1
            except OSError as error:
                problems.append(f"{file} cannot be removed: {error.strerror}.")
        if problems:
            return Step(TRANSCRIPTS, "pending", _counted(removed), " ".join(problems))
        return Step(TRANSCRIPTS, removed=_counted(removed))

    def _files(self, targets: Targets) -> Iterator[Path]:
        for session_id in targets.session_ids:
            if "/" in session_id or "\\" in session_id or "\x00" in session_id:
                continue  # Such an id never named a file of ours.
            names = (f"{session_id}.json", f"{session_id}.jsonl")
            yield from (file for name in names if (file := self._directory / name).is_file())
            yield from self._directory.glob(f"request_dump_{glob.escape(session_id)}_*.json")


class StoreCopyPlace:
    """Whole copies of a SQLite store that lie beside it, from before an upgrade, a repair or a
    restore. They are not ours to take apart: those that hold something are named. See `Place`.
    """

    name = COPIES
    needs_rows = False

    def __init__(self, store: Path) -> None:
        self._store = store

    def count(self, targets: Targets) -> dict[str, int]:
        """See `Place.count`."""
        return _counted(len(self._holding(targets)))

    def remove(self, targets: Targets) -> Step:
        """See `Place.remove`."""
        try:
            found = self._holding(targets)
        except OSError as error:
            return Step(COPIES, "pending", why=f"{error}.")
        if not found:
            return Step(COPIES)
        names = ", ".join(str(file) for file in found)
        why = f"Not changed: {names}. Remove what you do not need any more, then resume."
        return Step(COPIES, "pending", why=why)

    def _holding(self, targets: Targets) -> list[Path]:
        # Of many sessions, some will do: a copy that holds any of them holds them all, or it is
        # from another time, and then it holds the person.
        sessions = targets.session_ids[:: len(targets.session_ids) // _LOOKED_FOR + 1]
        # Of rooms nobody can tell: who wrote what was not always noted.
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
        # A repair that was killed has left a folder.
        inside = [file for folder in beside if _is_folder(folder) for file in folder.iterdir()]
        return sorted(file for file in (*beside, *inside) if _is_file(file))


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _is_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _holds(file: Path, words: list[bytes]) -> bool:
    """Look for words anywhere in a file, also where a piece of it ends."""
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
