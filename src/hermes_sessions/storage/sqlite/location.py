"""Where a store's file lives: who owns it, what carries it, who holds it.

Nothing here opens a database file: closing a descriptor of it would drop the locks of this process.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from hermes_sessions.errors import StoreUnreachable, UnsafeStore

#: File systems whose locks or shared memory do not carry SQLite's write-ahead log.
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
_LOCAL_FUSE: Final = frozenset({"fuseblk"})
_OCTAL_ESCAPE = re.compile(r"\\([0-7]{3})")


def file_system_type(path: Path, mount_table: Iterable[str]) -> str | None:
    """Return the type of the file system that holds *path*, from lines of ``mountinfo``."""
    best: tuple[int, str] | None = None
    target = os.path.realpath(path)
    for line in mount_table:
        left, separator, right = line.partition(" - ")
        fields = left.split()
        if not separator or len(fields) < 5:
            continue
        mount_point = _OCTAL_ESCAPE.sub(lambda m: chr(int(m[1], 8)), fields[4])
        inside = target == mount_point or target.startswith(mount_point.rstrip("/") + "/")
        if inside and (best is None or len(mount_point) >= best[0]):
            best = (len(mount_point), right.split()[0])
    return best[1] if best else None


def carries_wal(file_system: str | None) -> bool:
    """Return whether a write-ahead log is safe on this type of file system.

    An unknown type is trusted; network and user-space file systems are not.
    """
    if file_system is None or file_system in _LOCAL_FUSE:
        return True
    return file_system not in NETWORK_FILE_SYSTEMS and not file_system.startswith("fuse")


def read_mount_table() -> list[str]:
    """Return this process's mounts, or nothing where the system does not tell."""
    try:
        return (
            Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace").split("\n")
        )
    except OSError:
        return []


def prepare_directory(path: Path) -> None:
    """Create the parent directories of a store, private to the user.

    Raises:
        StoreUnreachable: they cannot be created.
    """
    parent = path.parent
    missing = []
    while not parent.exists():
        missing.append(parent)
        parent = parent.parent
    for directory in reversed(missing):
        try:
            directory.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise StoreUnreachable(
                f"{path}: the directory {directory} cannot be created ({error.strerror}). "
                f"Create it, or choose another path."
            ) from error


def check_ownership(path: Path) -> None:
    """Refuse a file, or a link to one, that belongs to another user.

    Raises:
        UnsafeStore: the file or link is somebody else's.
        StoreUnreachable: it is not a regular file.
    """
    if not hasattr(os, "geteuid"):
        return
    me = os.geteuid()
    for facts in (_lstat(path), _stat(path)):
        if facts is None:
            continue
        if facts.st_uid != me:
            raise UnsafeStore(
                f"{path} belongs to user {facts.st_uid}, you are user {me}. Run as that user, or "
                f"copy the store with: hermes sessions import {path}"
            )
        if not stat.S_ISREG(facts.st_mode) and not stat.S_ISLNK(facts.st_mode):
            raise StoreUnreachable(f"unable to open database file: {path} is not a regular file.")


def _lstat(path: Path) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except FileNotFoundError:
        return None


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def create_private(path: Path) -> bool:
    """Create an empty file readable by its owner alone; return whether it was created now.

    Only a file that did not exist is opened, so no lock of this process can be lost.
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


def make_private(path: Path) -> None:
    """Take access to an existing store away from everybody but its owner."""
    facts = _stat(path)
    if facts is not None and stat.S_IMODE(facts.st_mode) & 0o077:
        for suffix in ("", "-wal", "-shm", "-journal"):
            companion = Path(f"{path}{suffix}")
            if companion.exists():
                companion.chmod(0o600)


def lock_holders(path: Path) -> list[str]:
    """Return who holds or waits with locks on the store, as ``name (process id)``.

    Reads the system's own table; empty where there is none.
    """
    inodes = set()
    for suffix in ("", "-shm"):
        facts = _stat(Path(f"{path}{suffix}"))
        if facts is not None:
            inodes.add(str(facts.st_ino))
    try:
        table = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    except OSError:
        return []
    pids = set()
    for line in table:
        fields = line.replace("->", "").split()
        # id: class mode WRITE|READ pid major:minor:inode start end
        if len(fields) >= 8 and fields[5].rpartition(":")[2] in inodes:
            pids.add((int(fields[4]), fields[3]))
    writers = sorted(pid for pid, kind in pids if kind == "WRITE" and pid > 0)
    others = sorted({pid for pid, _ in pids if pid > 0} - set(writers))
    return [process_name(pid) for pid in writers or others if pid != os.getpid()]


def process_name(pid: int) -> str:
    """Return how a process is named to people: ``name (process id)``."""
    try:
        name = Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        name = "process"
    return f"{name} ({pid})"
