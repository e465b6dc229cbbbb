"""Upkeep that a read does first and can do without: search index, derived columns.

It writes, and a store may answer reads while it commits nothing: a synchronous standby is
unavailable, or a server is read-only. So a read gives each step of its upkeep a few seconds. If
that is not enough, reads skip it for a while instead of waiting again.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable
from typing import Final

from hermes_sessions.errors import StoreError, StoreReadOnly
from hermes_sessions.storage.logs import Logger
from hermes_sessions.storage.provider import SessionDBProvider

logger = Logger(__name__)

#: Seconds that a read waits for one step of its upkeep, at most; see `limit_waits`.
STEP_SECONDS: Final = 3.0
#: Seconds without upkeep after it failed, and seconds from which on a failure counts as slow.
#: One that took less, such as a row that another writer holds, costs the next read little.
PAUSE_SECONDS: Final = 30.0
_SLOW_SECONDS: Final = 1.0

_paused_until: Final[weakref.WeakKeyDictionary[SessionDBProvider, float]] = (
    weakref.WeakKeyDictionary()
)


def run_before_read(
    provider: SessionDBProvider,
    work: Callable[[], object],
    what: str,
    failures: tuple[type[Exception], ...] = (StoreError,),
    *,
    pauses: bool = True,
) -> bool:
    """Run *work*, whose steps are limited by `STEP_SECONDS`; return whether it was done.

    No-op on a handle that may only read, and, where it *pauses*, for a while after it failed. Of
    what it raises, *failures* are logged with *what* could not be updated.
    """
    if provider.read_only or (pauses and is_paused(provider)):
        return False
    started = time.monotonic()
    try:
        work()
    except failures as error:
        if isinstance(error, StoreReadOnly) or time.monotonic() - started >= _SLOW_SECONDS:
            _paused_until[provider] = time.monotonic() + PAUSE_SECONDS
        logger.info("%s could not be updated now: %s", what, error)
        return False
    return True


def is_paused(provider: SessionDBProvider) -> bool:
    """Whether reads skip upkeep for now, because the store took too long to commit it, or
    refuses writes.
    """
    return time.monotonic() < _paused_until.get(provider, 0.0)
