"""The directory of backups: its contents, and the lock for changing it."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from hermes_sessions.errors import (
    BackupDamaged,
    BackupRefused,
    DiskFull,
    StoreError,
    StoreIOError,
    StoreLocked,
)
from hermes_sessions.storage.care.backups.container import Container, opened

# Disk space: checked before writing, and the errors when there is none.


_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_SPARE_BYTES: Final = 1024 * 1024


def require_free_space(directory: Path, needed: int) -> None:
    """Refuse to begin without enough disk space.

    Raises:
        DiskFull: fewer bytes are free than *needed*.
    """
    free = shutil.disk_usage(directory).free
    if free < needed + _SPARE_BYTES:
        raise DiskFull(
            f"{directory} has {megabytes(free)} MB free, but about {megabytes(needed)} MB are "
            f"needed. Free some space, or choose another directory; nothing was changed."
        )


def megabytes(count: int) -> str:
    """Return a number of bytes in megabytes."""
    return f"{count / 1_000_000:,.1f}"


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Translate system errors about a file that is being written."""
    try:
        yield
    except StoreError:
        raise
    except OSError as error:
        if error.errno in _NO_ROOM:
            raise DiskFull(
                f"{path} could not be written: {error.strerror}. Free some space, or choose "
                f"another directory; nothing was changed."
            ) from error
        raise StoreIOError(f"{path} could not be written: {error.strerror or error}.") from error


SUFFIX: Final = ".hsb"
#: The suffix of unfinished backups; their names start with a dot.
UNFINISHED: Final = ".unfinished"
#: The suffix of directories in which a backup is temporarily unpacked.
UNPACKED: Final = ".unpacked"
_LOCK: Final = ".lock"
_NAP: Final = 0.05

Kind = Literal["image", "portable"]
Reason = Literal["asked", "before migration"]
#: ``damaged`` and ``newer`` backups are listed, but never used or removed by rotation.
State = Literal["complete", "damaged", "newer"]


class Backup(NamedTuple):
    """A backup as described by its manifest. Its file was verified before it got its name."""

    path: Path
    state: State
    size: int
    #: Seconds since the epoch; the time of the file if the manifest cannot be read.
    created: float
    kind: Kind | None = None
    reason: Reason | None = None
    #: The database it came from, and its location; never a secret.
    provider: str = ""
    store: str = ""
    #: The version of this program that created it.
    product: str = ""
    #: The migrations applied to the store.
    steps: tuple[str, ...] = ()
    #: Rows by table.
    counts: dict[str, int] = {}  # noqa: RUF012 - never changed
    #: Rows that belong to no session, which only an image can contain.
    left_out: dict[str, int] = {}  # noqa: RUF012
    #: Sessions with values that only SQLite can store; they have no checksum.
    unsummed: int = 0
    #: What is wrong with a backup that is not complete.
    problem: str = ""

    @property
    def name(self) -> str:
        """The name of its file."""
        return self.path.name

    @property
    def sessions(self) -> int:
        """The number of sessions."""
        return self.counts.get("sessions", 0)

    @property
    def messages(self) -> int:
        """The number of messages."""
        return self.counts.get("messages", 0)


def described(container: Container) -> Backup:
    """Return the backup that a manifest describes.

    Raises:
        BackupDamaged: the manifest is incomplete.
    """
    manifest = container.manifest
    wanted: dict[str, Any] = {
        "kind": str,
        "reason": str,
        "provider": str,
        "store": str,
        "product": str,
        "created": float,
        "steps": list,
        "counts": dict,
        "left_out": dict,
        "unsummed": int,
    }
    for name, kind in wanted.items():
        if type(manifest.get(name)) is not kind:
            raise container.damaged(f"its manifest lacks {name!r}")
    if manifest["kind"] not in ("image", "portable"):
        raise container.damaged("its manifest has an unknown kind")
    for table in ("counts", "left_out"):
        if not all(type(number) is int and number >= 0 for number in manifest[table].values()):
            raise container.damaged(f"its manifest lacks {table!r}")
    found = {name: manifest[name] for name in wanted}
    found["steps"] = tuple(str(step) for step in manifest["steps"])
    return Backup(container.path, "complete", container.size, **found)


def read_manifest(path: Path) -> Backup:
    """Return a backup's description; its sections are not read.

    Raises:
        BackupDamaged: its head or end is damaged.
        BackupRefused: it cannot be read, or a later version wrote it.
    """
    with opened(path) as container:
        return described(container)


def list_backups(directory: Path) -> list[Backup]:
    """Return the backups in a directory, newest first, including unusable ones.

    Raises:
        BackupRefused: the directory cannot be read. A missing one counts as empty.
    """
    try:
        paths = sorted(directory.iterdir())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise BackupRefused(f"{directory} cannot be read: {error.strerror}.") from error
    found = []
    for path in paths:
        if not path.name.endswith(SUFFIX) or path.name.startswith("."):
            continue
        try:
            facts = path.lstat()
        except FileNotFoundError:
            continue  # Removed meanwhile.
        # Links are ignored: we never create them, and they may lead anywhere.
        if stat.S_ISREG(facts.st_mode):
            found.append(_seen(path, facts))
    return sorted(found, key=lambda backup: (backup.created, backup.name), reverse=True)


def _seen(path: Path, facts: os.stat_result) -> Backup:
    try:
        return read_manifest(path)
    except BackupRefused as error:
        state: State = "damaged" if isinstance(error, BackupDamaged) else "newer"
        return Backup(path, state, facts.st_size, facts.st_mtime, problem=str(error))


def find_backup(
    place: str | Path, directory: Path, *, is_own: Callable[[Backup], bool] | None = None
) -> Path:
    """Return the file that *place* names: a path, a name in the directory, or ``latest``.

    With *is_own*, ``latest`` only considers those, so that it never picks another store's backup.

    Raises:
        BackupRefused: it does not exist, or ``latest`` is ambiguous.
    """
    text = str(place)
    if text == "latest":
        return _latest(directory, is_own)
    if os.sep not in text:
        for name in (text, text + SUFFIX):
            if (directory / name).is_file():
                return directory / name
    if Path(text).is_file():
        return Path(text)
    raise BackupRefused(
        f"There is no backup {text!r}, neither in {directory} nor as a file. To list backups: "
        f"hermes backup list"
    )


def _latest(directory: Path, is_own: Callable[[Backup], bool] | None) -> Path:
    whole = [backup for backup in list_backups(directory) if backup.state == "complete"]
    if not whole:
        raise BackupRefused(
            f"There is no backup in {directory}. To create one: hermes backup create"
        )
    if is_own is None:
        return whole[0].path
    whole = [backup for backup in whole if is_own(backup)] or whole
    stores = sorted({backup.store for backup in whole})
    if len(stores) > 1:
        raise BackupRefused(
            f"{directory} has backups of several stores ({', '.join(stores)}), so the latest "
            f"may be of another one. Name the backup instead; hermes backup list "
            f"shows the store of each. Nothing was changed."
        )
    return whole[0].path


@contextmanager
def lock_backup_directory(directory: Path, patience: float) -> Iterator[None]:
    """Let one process at a time create or remove backups in a directory; creates it if needed.

    Unfinished files of killed processes are removed.

    Raises:
        StoreLocked: another process held the lock for longer than *patience* seconds.
        BackupRefused: the directory cannot be used.
    """
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(
            directory / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
        )
    except OSError as error:
        raise BackupRefused(
            f"{directory} cannot be used for backups: {error.strerror}. Choose another directory "
            f"with --to, or backups.directory in config.yaml."
        ) from error
    try:
        _take(descriptor, directory, time.monotonic() + patience)
        _clear(directory)
        yield
    finally:
        os.close(descriptor)  # Releases the lock, as the death of the process does.


def _clear(directory: Path) -> None:
    """Remove the unfinished files of killed processes."""
    for path in list(directory.iterdir()):
        # Including SQLite's companion files.
        if path.name.startswith(".") and UNFINISHED in path.name:
            path.unlink(missing_ok=True)
        elif path.name.endswith(UNPACKED) and path.is_dir() and not path.is_symlink():
            with suppress(OSError), lock_directory(path):
                shutil.rmtree(path)


@contextmanager
def lock_directory(directory: Path) -> Iterator[None]:
    """Lock a private directory, so that no process removes it as left behind.

    Raises:
        BlockingIOError: another process holds the lock.
    """
    descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def _take(descriptor: int, directory: Path, until: float) -> None:
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() >= until:
                raise StoreLocked(
                    f"Another process is creating or removing backups in {directory}. Wait until "
                    f"it is done, then try again."
                ) from error
            time.sleep(_NAP)
        else:
            return
