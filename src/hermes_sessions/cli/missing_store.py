"""A store that is not there yet, as commands see it that only read."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hermes_sessions.config.retention_policies import retention_policies
from hermes_sessions.config.settings import Settings
from hermes_sessions.storage.provider import Space
from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions.storage.sqlite.engine import MEMORY
from hermes_sessions.storage.sqlite.provider import SQLiteSessionDBProvider


class MissingStore(SessionDB):
    """The configured store before it is made: empty, with what is configured beside it. What is
    written is forgotten.
    """

    def __init__(self, settings: Settings, clock: Callable[[], float]) -> None:
        super().__init__(
            provider=_NoFile(settings.sessiondb.sqlite.path),
            max_message_bytes=settings.sessiondb.max_message_bytes,
            clock=clock,
        )
        self._store = self._store._replace(
            trash_days=settings.sessions.trash_days,
            find_retention=lambda: retention_policies(settings),
        )


class _NoFile(SQLiteSessionDBProvider):
    """An empty store that takes up no space at the place of one."""

    def __init__(self, place: Path) -> None:
        super().__init__(MEMORY)
        self._place = os.path.realpath(place)

    def size_bytes(self) -> int:
        """Return 0."""
        return 0

    def space(self, has_time: Callable[[], bool] | None = None) -> Space:
        """Return that nothing takes any."""
        del has_time
        return Space(free_bytes=0, log_bytes=0)

    def describe(self) -> dict[str, Any]:
        """See `SessionDBProvider.describe`; the path is the one that the store will have."""
        return {**super().describe(), "path": self._place}
