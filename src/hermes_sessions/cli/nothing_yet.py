"""A store that is not there yet, as commands see it that only look."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from hermes_sessions.storage.provider import Space
from hermes_sessions.storage.sqlite.engine import MEMORY
from hermes_sessions.storage.sqlite.provider import SQLiteSessionDBProvider


class NothingYet(SQLiteSessionDBProvider):
    """An empty store that takes up no space at the place of one; what is written is forgotten."""

    def __init__(self, place: Path) -> None:
        super().__init__(MEMORY)
        self._place = os.path.realpath(place)

    def size_bytes(self) -> int:
        """Return 0."""
        return 0

    def space(self) -> Space:
        """Return that nothing takes any."""
        return Space(free_bytes=0, log_bytes=0)

    def describe(self) -> dict[str, Any]:
        """See `SessionDBProvider.describe`; the path is the one that the store will have."""
        return {**super().describe(), "path": self._place}
