"""Who is at the other end of a unix socket, as the system says."""

from __future__ import annotations

import socket
import struct
from typing import Final

#: ``struct xucred`` of macOS and BSD begins with a version and the user's id.
_LOCAL_PEERCRED: Final = 1
_SOL_LOCAL: Final = 0


def uid_of_peer(line: socket.socket) -> int | None:
    """Return the user's id; None where the system does not say."""
    try:
        if (linux := getattr(socket, "SO_PEERCRED", None)) is not None:
            credentials = line.getsockopt(socket.SOL_SOCKET, linux, 12)
            return int(struct.unpack("3i", credentials)[1])
        credentials = line.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, 76)
        return int(struct.unpack_from("2I", credentials)[1])
    except (OSError, struct.error):
        return None
