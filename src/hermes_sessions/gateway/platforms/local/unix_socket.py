"""The file of a unix socket: private to the user, and removed at the end."""

from __future__ import annotations

import os
import socket
import stat
import struct
from pathlib import Path
from typing import Final

from hermes_sessions.errors import ConfigError
from hermes_sessions.gateway.platforms.port import Unreachable

# The user at the other end of a unix socket, from the operating system.

#: ``struct xucred`` of macOS and BSD starts with a version and the user's id.
_LOCAL_PEERCRED: Final = 1


_SOL_LOCAL: Final = 0


def peer_uid(line: socket.socket) -> int | None:
    """Return the user's id; None if the system does not provide it."""
    try:
        if (linux := getattr(socket, "SO_PEERCRED", None)) is not None:
            credentials = line.getsockopt(socket.SOL_SOCKET, linux, 12)
            return int(struct.unpack("3i", credentials)[1])
        credentials = line.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, 76)
        return int(struct.unpack_from("2I", credentials)[1])
    except (OSError, struct.error):
        return None


def listen_at(path: Path) -> socket.socket:
    """Return a listening socket that only this user can open.

    Raises:
        ConfigError: the path is in use, or the folder is not writable.
        Unreachable: another gateway is listening there.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _make_room(path)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        # The file has its final permissions from the start.
        before = path.with_name(f".{os.getpid()}.sock")
        try:
            before.unlink(missing_ok=True)
            listener.bind(os.fspath(before))
            before.chmod(0o600)
            listener.listen(128)
            before.rename(path)
        except BaseException:
            listener.close()
            before.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise ConfigError(
            f"platforms.local: cannot listen at {path}: {error}. Set platforms.local.socket to a "
            "path in a folder that you own."
        ) from error
    return listener


def _make_room(path: Path) -> None:
    """Remove the socket of a gateway that no longer runs."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise ConfigError(
            f"platforms.local: {path} is not a socket; move the file, or set "
            "platforms.local.socket to another path."
        )
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        try:
            line.connect(os.fspath(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
            return
    raise Unreachable(f"Another gateway is listening at {path}.")


def remove(path: Path, listener_inode: int) -> None:
    """Remove the socket's file, unless another gateway has created its own there."""
    try:
        if path.lstat().st_ino == listener_inode:
            path.unlink(missing_ok=True)
    except OSError:
        return
