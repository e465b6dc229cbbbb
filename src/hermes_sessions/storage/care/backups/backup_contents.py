"""Read backups and remove sessions from them, for erasure.

A backup of any kind is opened as a store in a private directory beside it. The changed store is
packed again, verified, and replaces the old backup by a rename, with the same date and kind. So the
new backup is as good as any other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from hermes_sessions.errors import BackupRefused
from hermes_sessions.storage.care.backups.backup_directory import (
    UNFINISHED,
    Backup,
    described,
    list_backups,
    lock_backup_directory,
    read_manifest,
    require_free_space,
)
from hermes_sessions.storage.care.backups.container import Container, opened
from hermes_sessions.storage.care.backups.creation import PATIENCE, pack_image, publish_backup
from hermes_sessions.storage.care.backups.portable_format import read_rows, read_sums
from hermes_sessions.storage.care.backups.restore import fill_store
from hermes_sessions.storage.care.backups.verification import (
    SESSIONS,
    unpack_directory,
    unpack_image,
)
from hermes_sessions.storage.fsync import sync_directory
from hermes_sessions.storage.provider import SessionDBProvider
from hermes_sessions.storage.provider_registry import file_care


class BackupMatch(NamedTuple):
    """A backup, and which of the given sessions it contains."""

    backup: Backup
    sessions: tuple[str, ...]


def backups_containing(
    directory: Path, session_ids: Collection[str]
) -> tuple[list[BackupMatch], list[Backup]]:
    """Return the backups that contain any of these sessions, and the unreadable ones, which may.

    Only the lists of sessions are read, not the sessions.
    """
    wanted = frozenset(session_ids)
    found: list[BackupMatch] = []
    unknown: list[Backup] = []
    for backup in list_backups(directory):
        if backup.state != "complete":
            unknown.append(backup)
            continue
        try:
            with opened(backup.path) as container:
                held = tuple(
                    one.session_id
                    for one in read_sums(container, SESSIONS)
                    if one.session_id in wanted
                )
        except BackupRefused as error:
            unknown.append(backup._replace(state="damaged", problem=str(error)))
            continue
        if held:
            found.append(BackupMatch(backup, held))
    return found, unknown


@contextmanager
def opened_as_store(path: Path) -> Iterator[SessionDBProvider]:
    """Lend a backup as a store for reading; the backup itself is only read.

    Raises:
        BackupDamaged, BackupRefused: it cannot be used.
        DiskFull: there is no space to unpack it.
    """
    with opened(path) as container, _unpacked(container) as (_, provider):
        yield provider


@contextmanager
def _unpacked(container: Container) -> Iterator[tuple[Path, SessionDBProvider]]:
    backup = described(container)
    with unpack_directory(container.path.parent) as place:
        file = place / "store.db"
        require_free_space(
            place, sum(section.raw_length for section in container.sections.values())
        )
        if backup.kind == "image":
            unpack_image(container, file)
        provider = file_care().open_working_copy(file, back_up_first=False)
        try:
            if backup.kind == "portable":
                container.check_digests()
                fill_store(provider, partial(read_rows, container), at_once=False)
            yield file, provider
        finally:
            provider.close()


def rewrite_backup(path: Path, change: Callable[[SessionDBProvider], None]) -> Backup:
    """Let *change* modify a backup's store, and replace the backup by the result.

    The old file is replaced by a rename after the new one is verified; before that nothing is
    changed. Free pages are not copied, so deleted data is not in the new file. The bytes of the old
    file remain until the file system reuses them.

    Raises:
        BackupDamaged, BackupRefused: it cannot be read and therefore not be rewritten; see
            `remove_backup`.
        StoreLocked: another process creates or removes backups there.
        DiskFull, StoreError: nothing was changed.
    """
    with lock_backup_directory(path.parent, PATIENCE):
        partial = path.with_name(f".{path.name}{UNFINISHED}")
        try:
            with opened(path) as container:
                manifest = dict(container.manifest)
                with _unpacked(container) as (file, provider):
                    change(provider)
                    provider.reclaim()
                    manifest["steps"] = list(provider.steps().taken)
                    provider.close()
                    _pack(partial, manifest, file)
            publish_backup(partial, path)
        finally:
            partial.unlink(missing_ok=True)
        return read_manifest(path)


def _pack(partial: Path, manifest: dict[str, Any], file: Path) -> None:
    kept = ("product", "provider", "store", "steps", "created", "reason")
    facts = {name: manifest[name] for name in kept}
    portable = manifest["kind"] == "portable"
    pack_image(partial, {**facts, "left_out": {}, "unsummed": 0}, file, portable=portable)


def remove_backup(path: Path) -> None:
    """Delete a backup permanently, whatever its state.

    Raises:
        StoreLocked: another process creates or removes backups there.
        OSError: the system refused.
    """
    with lock_backup_directory(path.parent, PATIENCE):
        path.unlink()
        sync_directory(path.parent)
