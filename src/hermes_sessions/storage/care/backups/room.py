"""Room on the disk: asked for before writing, and what is said when there is none."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from hermes_sessions.errors import DiskFull, StoreError, StoreIOError

_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_SPARE_BYTES: Final = 1024 * 1024


def require_room(directory: Path, needed: int) -> None:
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
