"""What backups hold: taken out of each, so that the rest of it stays a backup."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from hermes_sessions.errors import BackupRefused, HermesSessionsError
from hermes_sessions.storage.care.backups.backup_contents import opened_as_store, rewrite_backup
from hermes_sessions.storage.care.backups.backup_directory import Backup, list_backups, sole_changer
from hermes_sessions.storage.care.backups.creation import PATIENCE
from hermes_sessions.storage.care.erasure.counting import count_rows
from hermes_sessions.storage.care.erasure.discovery import find
from hermes_sessions.storage.care.erasure.receipts import Step
from hermes_sessions.storage.care.erasure.row_removal import remove
from hermes_sessions.storage.care.erasure.scrubbing import scrub
from hermes_sessions.storage.care.erasure.targets import Targets
from hermes_sessions.storage.provider import SessionDBProvider
from hermes_sessions.storage.store import Store

NAME: Final = "backups"


class Backups:
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
                if _holds(backup, targets):
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
                if not _holds(backup, targets):
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
            with suppress(BackupRefused), sole_changer(self._directory, self._patience):
                pass

    def _is_ours(self, backup: Backup) -> bool:
        """Tell whether it is of this store, or does not say of which it is."""
        return backup.store in ("", self._store)


def _named(backup: Backup) -> str:
    return (
        f"{backup.path} is a backup of another store ({backup.store}) and was not changed: if that "
        f"is in use, forget there, too."
    )


def _holds(backup: Backup, targets: Targets) -> bool:
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
