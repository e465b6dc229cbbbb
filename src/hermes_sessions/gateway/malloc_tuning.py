"""Limits the memory that the C library keeps for a gateway.

glibc gives each thread its own arena, which other threads cannot use, and keeps freed memory. A
gateway uses few arenas, which is enough because only one thread runs at a time, and returns free
memory to the system when it is idle. With other C libraries this module does nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

#: From glibc's malloc.h.
_M_ARENA_MAX: Final = -8
_ARENAS: Final = 2


def limit_arenas(environ: Mapping[str, str]) -> None:
    """Let threads share arenas from now on, unless the environment configures them."""
    is_chosen = "MALLOC_ARENA_MAX" in environ or "arena_max" in environ.get("GLIBC_TUNABLES", "")
    if not is_chosen and (mallopt := _of_glibc("mallopt")) is not None:
        mallopt(_M_ARENA_MAX, _ARENAS)


def trim_free_memory() -> None:
    """Return free memory to the system."""
    if (malloc_trim := _of_glibc("malloc_trim")) is not None:
        malloc_trim(0)


def _of_glibc(name: str) -> Callable[..., Any] | None:
    """Return a function of glibc, or None if the C library is another one or is not found."""
    if sys.platform != "linux":
        return None
    try:
        import ctypes  # some Python builds lack it

        found: Callable[..., Any] = getattr(ctypes.CDLL(None), name)
    except (ImportError, OSError, AttributeError):
        return None
    return found
