"""The memory that the C library keeps for a gateway.

glibc gives each of many threads an arena of its own, in which others find no room, and keeps what
is free. A gateway has few, enough for threads of which one runs at a time, and gives back what is
free when it has nothing to do. Elsewhere there is nothing to see to.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

#: From glibc's malloc.h.
_M_ARENA_MAX: Final = -8
_ARENAS: Final = 2


def limit_arenas(environ: Mapping[str, str]) -> None:
    """Let threads share arenas, from now on; unless whoever runs this process has chosen."""
    is_chosen = "MALLOC_ARENA_MAX" in environ or "arena_max" in environ.get("GLIBC_TUNABLES", "")
    if not is_chosen and (mallopt := _of_glibc("mallopt")) is not None:
        mallopt(_M_ARENA_MAX, _ARENAS)


def trim_free_memory() -> None:
    """Give memory that is free back to the system."""
    if (malloc_trim := _of_glibc("malloc_trim")) is not None:
        malloc_trim(0)


def _of_glibc(name: str) -> Callable[..., Any] | None:
    """Return a function of glibc, or None where there is another library, or none is found."""
    if sys.platform != "linux":
        return None
    try:
        import ctypes  # Not every Python has it.

        found: Callable[..., Any] = getattr(ctypes.CDLL(None), name)
    except (ImportError, OSError, AttributeError):
        return None
    return found
