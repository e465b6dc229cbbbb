"""An empty store in memory that stands for a file that does not exist yet."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hermes_sessions.storage.provider import Space
from hermes_sessions.storage.sqlite.engine import MEMORY
from hermes_sessions.storage.sqlite.provider import SQLiteSessionDBProvider


class MissingFileProvider(SQLiteSessionDBProvider):
    """See `FileCare.open_missing`."""

    def __init__(self, path: Path) -> None:
        super().__init__(MEMORY)
        self._path = os.path.realpath(path)

    def size_bytes(self) -> int:
        """Return 0."""
        return 0

    def space(self, has_time: Callable[[], bool] | None = None) -> Space:
        """Return that nothing takes up space."""
        del has_time
        return Space(free_bytes=0, log_bytes=0)

    def describe(self) -> dict[str, Any]:
        """See `SessionDBProvider.describe`; the path is the one that the store will have."""
        return {**super().describe(), "path": self._path}
