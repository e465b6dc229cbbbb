"""The file of a store: its owner, its file system, and the processes that hold it.

Nothing here opens a database file: closing a descriptor of it would drop the locks of this process.
"""

import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from hermes_sessions.errors import StoreUnreachable, UnsafeStore
from hermes_sessions.storage.logs import Logger

logger = Logger(__name__)

#: File systems whose locks or shared memory do not support SQLite's write-ahead log.
NETWORK_FILE_SYSTEMS: Final = frozenset(
    [
        "9p",
        "afs",
        "afpfs",
        "beegfs",
        "ceph",
        "cifs",
        "coda",
        "davfs",
        "fuse.sshfs",
        "gfs2",
        "glusterfs",
        "lustre",
        "ncpfs",
        "nfs",
        "nfs4",
        "ocfs2",
        "prl_fs",
        "smb2",
        "smb3",
        "smbfs",
        "vboxsf",
        "virtiofs",
        "vmhgfs",
        "webdav",
    ]
)
#: Suffixes of the files that SQLite keeps beside a database.
COMPANIONS: Final = ("-wal", "-shm", "-journal")
_LOCAL_FUSE: Final = frozenset({"fuseblk"})
_MOUNT_TABLE: Final = Path("/proc/self/mountinfo")
_MOST_LINKS: Final = 40
_OCTAL_ESCAPE: Final = r"\\([0-7]{3})"


def file_system_type(path: str, mount_table: Iterable[str]) -> str | None:
    """Return the type of the file system that contains *path*, from lines of ``mountinfo``.

    Links in *path* must be resolved.
    """
    longest, found = 0, None
    for line in mount_table:
        left, separator, right = line.partition(" - ")
        fields = left.split(" ", 5)
        if not separator or len(fields) < 5:
            continue
        mount_point = fields[4]
        if "\\" in mount_point:
            mount_point = re.sub(_OCTAL_ESCAPE, lambda m: chr(int(m[1], 8)), mount_point)
        inside = path == mount_point or path.startswith(mount_point.rstrip("/") + "/")
        if inside and len(mount_point) >= longest:
            longest, found = len(mount_point), right.split()[0]
    return found


def supports_wal(file_system: str | None) -> bool:
    """Return whether a write-ahead log is safe on this type of file system.

    Unknown types are trusted; network and user-space file systems are not.
    """
    if file_system is None or file_system in _LOCAL_FUSE:
        return True
    return file_system not in NETWORK_FILE_SYSTEMS and not file_system.startswith("fuse")


def read_mount_table() -> list[str]:
    """Return this process's mounts, or an empty list where the system does not tell."""
    try:
        return _MOUNT_TABLE.read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:
        return []


def prepare_directory(path: Path) -> None:
    """Create the parent directories of a store, private to the user.

    Raises:
        StoreUnreachable: they cannot be created.
    """
    missing = []
    for parent in path.parents:
        if _facts(parent) is not None:
            break
        missing.append(parent)
    for directory in reversed(missing):
        try:
            directory.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise StoreUnreachable(
                f"{path}: the directory {directory} cannot be created ({error.strerror}). "
                f"Create it, or choose another path."
            ) from error
        _make_entry_durable(directory)


def _make_entry_durable(directory: Path) -> None:
    # The content of a new directory is lost if its own entry was not made durable.
    with suppress(OSError):  # Some file systems cannot sync a directory.
        descriptor = os.open(directory.parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def check_ownership(path: str) -> None:
    """Refuse a file, or a link to any file, that belongs to another user.

    Raises:
        UnsafeStore: the file or a link belongs to another user.
        StoreUnreachable: not a regular file, or it cannot be inspected.
    """
    if not hasattr(os, "geteuid"):
        return
    me = os.geteuid()
    step = path
    for _ in range(_MOST_LINKS):
        facts = _facts(step, follow=False)
        if facts is None:
            return
        if facts.st_uid != me:
            raise UnsafeStore(
                f"{step} belongs to user {facts.st_uid}, you are user {me}. Run as that user, or "
                f"copy the store with: hermes sessions import {path}"
            )
        if stat.S_ISREG(facts.st_mode):
            return
        if not stat.S_ISLNK(facts.st_mode):
            raise StoreUnreachable(f"unable to open database file: {path} is not a regular file.")
        step = os.path.join(os.path.dirname(step), os.readlink(step))
    raise StoreUnreachable(f"unable to open database file: {path} is a broken link.")


def require_one_name(path: str) -> None:
    """Refuse a file that has other names (hard links).

    SQLite names its log after the file: a write under one name is invisible under another, and lost
    when that one is written.

    Raises:
        StoreUnreachable: the file has several names.
    """
    facts = _facts(path)
    if facts is not None and facts.st_nlink > 1:
        raise StoreUnreachable(
            f"unable to open database file: {path} has {facts.st_nlink} names (hard links), and "
            f"writes under one would be lost under another. Remove the other names, or "
            f"replace this one by a copy; to list them: find DIRECTORY -samefile {path}"
        )


def _facts(path: str | Path, *, follow: bool = True) -> os.stat_result | None:
    """Return the stat result of a file, None if it does not exist.

    Raises:
        StoreUnreachable: it cannot be inspected.
    """
    try:
        return os.stat(path, follow_symlinks=follow)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise StoreUnreachable(
            f"unable to open database file: {path} cannot be reached ({error.strerror}). Check the "
            f"permissions of its directories, or choose another path."
        ) from error


def inode_of(path: str) -> tuple[int, ...] | None:
    """Return the identity of a file, independent of its name; None if it cannot be seen."""
    try:
        facts = os.stat(path)
    except OSError:
        return None
    return (facts.st_dev, facts.st_ino)


def create_private(path: Path) -> bool:
    """Create an empty file that only its owner can read; return whether it was created now.

    Only a file that did not exist is opened, so that no lock of this process is lost.
    """
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        return False
    except OSError as error:
        raise StoreUnreachable(
            f"unable to open database file: {path} cannot be created ({error.strerror})."
        ) from error
    return True


def can_write(path: str) -> bool:
    """Return whether this user may write the file and, beside it, its log and locks."""
    effective = os.access in os.supports_effective_ids
    return all(
        os.access(one, os.W_OK, effective_ids=effective) for one in (path, os.path.dirname(path))
    )


def make_private(path: str) -> int:
    """Restrict a store and its companion files to their owner.

    Returns how many files had other permissions. (SQLite gives new companion files the permissions
    of the file.)
    """
    others = 0
    for suffix in ("", *COMPANIONS, ".gate"):
        companion = path + suffix
        try:
            facts = os.stat(companion, follow_symlinks=False)
            mode = stat.S_IMODE(facts.st_mode)
            wanted = 0o600 if suffix else mode & 0o700
            if stat.S_ISREG(facts.st_mode) and mode != wanted:
                others += 1
                os.chmod(companion, wanted)
        except FileNotFoundError:
            continue
        except OSError as error:
            logger.warning("%s keeps its permissions: %s", companion, error.strerror)
    return others


def processes_blocking_writers(
    path: Path, lock_table: Iterable[str], *, writers_only: bool = False
) -> list[int]:
    """Return the other processes that block writers, from lines of ``/proc/locks``.

    If none of them is seen writing: all others that have the store open, unless *writers_only*.
    """
    exact, loose = _lock_names(path)
    writers: set[int] = set()
    others: set[int] = set()
    entries = [entry for entry in map(_lock_entry, lock_table) if entry is not None]
    # Some file systems show another device in the table; then only the inode number is compared.
    names = exact if any(entry.name in exact for entry in entries) else loose
    for entry in entries:
        suffix = names.get(entry.name, names.get(entry.name.rpartition(":")[2]))
        if suffix is None or entry.pid in (0, -1, os.getpid()):
            continue
        if entry.exclusive and (suffix == "" or entry.first <= _WAL_WRITE_BYTE <= entry.last):
            writers.add(entry.pid)
        else:
            others.add(entry.pid)
    return sorted(writers if writers_only else writers or others)


#: The byte of the log's index that SQLite locks while it writes the log.
_WAL_WRITE_BYTE: Final = 120


class _LockEntry(NamedTuple):
    exclusive: bool
    pid: int
    #: ``major:minor:inode``, the first two hexadecimal.
    name: str
    first: int
    last: float


def _lock_entry(line: str) -> _LockEntry | None:
    # id: class mode WRITE|READ pid major:minor:inode first last; a waiting process has "->".
    fields = line.split()
    if len(fields) != 8 or fields[1] == "->":
        return None
    last = float("inf") if fields[7] == "EOF" else int(fields[7])
    return _LockEntry(fields[3] == "WRITE", int(fields[4]), fields[5], int(fields[6]), last)


def _lock_names(path: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Return the suffixes of the locked files, by full name in the table and by inode number."""
    exact: dict[str, str] = {}
    loose: dict[str, str] = {}
    for suffix in ("", "-shm"):
        try:
            facts = os.stat(f"{path}{suffix}")
        except OSError:
            continue
        device = f"{os.major(facts.st_dev):02x}:{os.minor(facts.st_dev):02x}"
        exact[f"{device}:{facts.st_ino}"] = suffix
        loose[str(facts.st_ino)] = suffix
    return exact, loose


def read_lock_table(path: Path) -> list[str]:
    """Return the locks that processes hold on a store's files, as lines of ``/proc/locks``.

    Empty where the system does not tell. Descriptor locks have no process in that table; they are
    listed once for each process that has the descriptor open.
    """
    lines = _lock_lines()
    _, numbers = _lock_names(path)
    ours = [line for line in lines if any(f":{number} " in line for number in numbers)]
    if any(" OFDLCK " in line for line in ours):
        ours += _descriptor_locks(path)
    return ours


def _lock_lines() -> list[str]:
    try:
        return Path("/proc/locks").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


def _descriptor_locks(path: Path) -> Iterator[str]:
    """Yield the descriptor locks of other processes, with the process id."""
    files = [facts for suffix in ("", "-shm") if (facts := _facts(f"{path}{suffix}")) is not None]
    for process in Path("/proc").glob("[0-9]*"):
        if process.name == str(os.getpid()):
            continue
        try:
            descriptors = os.listdir(process / "fd")
        except OSError:
            continue  # It has ended, or belongs to another user.
        for descriptor in descriptors:
            try:
                facts = os.stat(f"{process}/fd/{descriptor}")
                if not any(os.path.samestat(facts, file) for file in files):
                    continue
                text = Path(process, "fdinfo", descriptor).read_text(encoding="utf-8")
            except OSError:
                continue
            for line in text.splitlines():
                name, _, lock = line.partition(":")
                if name == "lock" and " OFDLCK " in lock:
                    yield lock.replace(" -1 ", f" {process.name} ", 1)


def locks_of_this_process(path: str) -> bool:
    """Return whether this process, not one of its descriptors, holds a lock on the file."""
    inode = inode_of(path)
    if inode is None:
        return False
    number, me = str(inode[1]), os.getpid()
    entries = (_lock_entry(line) for line in _lock_lines() if " POSIX " in line)
    return any(
        entry is not None and entry.pid == me and entry.name.rpartition(":")[2] == number
        for entry in entries
    )


def lock_holders(path: Path) -> list[str]:
    """Return the processes that block writers now, as ``name (process id)``; empty if unknown."""
    return [process_name(pid) for pid in processes_blocking_writers(path, read_lock_table(path))]


def process_name(pid: int) -> str:
    """Return the display name of a process: ``name (process id)``."""
    try:
        name = Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        name = "process"
    return f"{name} ({pid})"
