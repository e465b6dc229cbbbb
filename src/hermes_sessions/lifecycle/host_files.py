"""What a gateway shows of itself on its host: two small files.

``.clean_shutdown`` and ``restart_counts.json`` mirror what the database knows, for people and
scripts that look there; nothing but the first start after an upgrade reads them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from hermes_sessions.lifecycle.index_file import write_atomically

CLEAN_SHUTDOWN: Final = ".clean_shutdown"
RESTART_COUNTS: Final = "restart_counts.json"


class HostFiles:
    """The files in a home; without one, there are none."""

    def __init__(self, home: Path | None) -> None:
        self._home = home

    def mark_clean(self) -> None:
        """Leave the mark of a gateway that finished what it did."""
        if self._home is not None:
            self._home.mkdir(parents=True, exist_ok=True)
            (self._home / CLEAN_SHUTDOWN).touch()

    def take_clean_mark(self) -> bool:
        """Remove the mark and tell whether it was there."""
        if self._home is None:
            return False
        try:
            (self._home / CLEAN_SHUTDOWN).unlink()
        except FileNotFoundError:
            return False
        return True

    def show_counts(self, counts: Mapping[str, int]) -> None:
        """Show how often lanes were found unfinished; an empty list is no file."""
        if self._home is None:
            return
        file = self._home / RESTART_COUNTS
        if not counts:
            file.unlink(missing_ok=True)
            return
        self._home.mkdir(parents=True, exist_ok=True)
        write_atomically(file, json.dumps(dict(counts), separators=(",", ":")) + "\n")
