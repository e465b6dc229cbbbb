"""The directory of backups: what is in it, and who may change it."""

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

# Room on the disk: asked for before writing, and what is said when there is none.


_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


_SPARE_BYTES: Final = 1024 * 1024


def require_free_space(directory: Path, needed: int) -> None:
    """Refuse to begin what cannot end.

    Raises:
        DiskFull: fewer bytes are free than *needed*.
    """
    free = shutil.disk_usage(directory).free
    if free < needed + _SPARE_BYTES:
        raise DiskFull(
            f"{directory} has {megabytes(free)} MB free, and about {megabytes(needed)} MB are "
            f"needed. Free some space, or choose another directory; nothing was changed."
        )


def megabytes(count: int) -> str:
    """Return a number of bytes in megabytes."""
    return f"{count / 1_000_000:,.1f}"


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn what the system says about a file that is being written into our errors."""
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
#: Ends the names of what is not a backup yet; they begin with a dot.
UNFINISHED: Final = ".unfinished"
#: Ends the names of directories in which a backup is unpacked for a while.
UNPACKED: Final = ".unpacked"
_LOCK: Final = ".lock"
_NAP: Final = 0.05

Kind = Literal["image", "portable"]
Reason = Literal["asked", "before migration"]
#: ``damaged`` and ``newer`` ones are shown, and never used or removed by rotation.
State = Literal["complete", "damaged", "newer"]


class Backup(NamedTuple):
    """What is known of a backup by its manifest. Its file was verified when it got its name."""

    path: Path
    state: State
    size: int
    #: Seconds since the epoch; when the file was written, where the manifest cannot be read.
    created: float
    kind: Kind | None = None
    reason: Reason | None = None
    #: The database it came from, and where that was; never a secret.
    provider: str = ""
    store: str = ""
    #: The version of this program that made it.
    product: str = ""
    #: The steps that the store's tables had taken.
    steps: tuple[str, ...] = ()
    #: Rows by table.
    counts: dict[str, int] = {}  # noqa: RUF012 - never changed
    #: Rows that belong to no session, so that only an image holds them.
    left_out: dict[str, int] = {}  # noqa: RUF012
    #: Sessions with values that only SQLite keeps: there is no checksum of them.
    unsummed: int = 0
    #: What is wrong with one that is not complete.
    problem: str = ""

    @property
    def name(self) -> str:
        """The name of its file."""
        return self.path.name

    @property
    def sessions(self) -> int:
        """How many sessions it holds."""
        return self.counts.get("sessions", 0)

    @property
    def messages(self) -> int:
        """How many messages it holds."""
        return self.counts.get("messages", 0)


def described(container: Container) -> Backup:
    """Return what a manifest says.

    Raises:
        BackupDamaged: it does not say what every manifest says.
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
            raise container.damaged(f"its manifest does not say {name!r}")
    if manifest["kind"] not in ("image", "portable"):
        raise container.damaged("its manifest says an unknown kind")
    for table in ("counts", "left_out"):
        if not all(type(number) is int and number >= 0 for number in manifest[table].values()):
            raise container.damaged(f"its manifest does not say {table!r}")
    found = {name: manifest[name] for name in wanted}
    found["steps"] = tuple(str(step) for step in manifest["steps"])
    return Backup(container.path, "complete", container.size, **found)


def read_manifest(path: Path) -> Backup:
    """Return what a backup is; its sections are not looked at.

    Raises:
        BackupDamaged: it is not whole, as far as that shows at its head and end.
        BackupRefused: it cannot be read, or a later version wrote it.
    """
    with opened(path) as container:
        return described(container)


def list_backups(directory: Path) -> list[Backup]:
    """Return the backups in a directory, newest first; those that cannot be used, too.

    Raises:
        BackupRefused: the directory cannot be read. One that is not there is empty.
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
        # A link may lead anywhere; what is behind it was not put there by us.
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
    """Return the file that *place* names: a path, a name in the directory, or ``latest``. With
    *is_own*, the latest of those, and never one of several stores by chance.

    Raises:
        BackupRefused: there is none, or which one is meant cannot be told.
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
        f"There is no backup {text!r}, neither in {directory} nor as a file. Those that there are: "
        f"hermes backup list"
    )


def _latest(directory: Path, is_own: Callable[[Backup], bool] | None) -> Path:
    whole = [backup for backup in list_backups(directory) if backup.state == "complete"]
    if not whole:
        raise BackupRefused(f"There is no backup in {directory}. Make one: hermes backup create")
    if is_own is None:
        return whole[0].path
    whole = [backup for backup in whole if is_own(backup)] or whole
    stores = sorted({backup.store for backup in whole})
    if len(stores) > 1:
        raise BackupRefused(
            f"In {directory} are backups of several stores ({', '.join(stores)}), so the latest "
            f"may be of another one. Say which one by its name: hermes backup list "
            f"shows which is whose. Nothing was changed."
        )
    return whole[0].path


@contextmanager
def lock_backup_directory(directory: Path, patience: float) -> Iterator[None]:
    """Let one process at a time make or remove backups in a directory, which is made if needed.

    What an earlier one left unfinished is removed: it was killed, for nobody else is here.

    Raises:
        StoreLocked: another process was at it for longer than *patience* seconds.
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
        os.close(descriptor)  # Which gives the lock back, as the death of the process does.


def _clear(directory: Path) -> None:
    """Remove what processes left behind that were killed."""
    for path in list(directory.iterdir()):
        # Perhaps with something that SQLite keeps beside a file.
        if path.name.startswith(".") and UNFINISHED in path.name:
            path.unlink(missing_ok=True)
        elif path.name.endswith(UNPACKED) and path.is_dir() and not path.is_symlink():
            with suppress(OSError), lock_directory(path):
                shutil.rmtree(path)


@contextmanager
def lock_directory(directory: Path) -> Iterator[None]:
    """Hold a directory of one's own, so that nobody takes it for one that was left behind.

    Raises:
        BlockingIOError: somebody else holds it.
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
                    f"Another process makes or removes backups in {directory} right now. Let it "
                    f"end, then try again."
                ) from error
            time.sleep(_NAP)
        else:
            return
