"""What is looked at, with what is known about its surroundings, and how much time there is."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from hermes_sessions.config.settings import Settings
from hermes_sessions.errors import StoreError
from hermes_sessions.storage.provider import ReadTransaction, Steps
from hermes_sessions.storage.search.index_port import SearchIndex
from hermes_sessions.storage.sqlite.file_kind import Kind
from hermes_sessions.storage.sqlite.inspection import Examination

#: Seconds that a look takes at most, however large the store is, unless all of it is asked for.
DEFAULT_SECONDS: Final = 20.0


class Opened(Protocol):
    """A store that is open for looking."""

    def read(self) -> AbstractContextManager[ReadTransaction]:
        """Lend a consistent look."""

    def steps(self) -> Steps:
        """Return the steps that were taken and those that are left."""

    def close(self) -> None:
        """Let go of it."""


@dataclass(slots=True)
class Subject:
    """The configured store, as the checks see it."""

    settings: Settings
    environ: Mapping[str, str]
    #: Seconds since the epoch.
    clock: Callable[[], float] = time.time
    #: Seconds that never go back.
    stopwatch: Callable[[], float] = time.monotonic
    #: When `stopwatch` says this, no further check is begun.
    until: float = float("inf")
    #: Whether everything is checked, however long that takes.
    is_thorough: bool = False
    #: Set when it could be opened; else the failure says why not.
    opened: Opened | None = None
    failure: StoreError | None = None
    #: A file that is open, where the store is one.
    file: Examination | None = None
    index: SearchIndex | None = None
    location: str = ""
    #: Whether there is no store yet.
    is_missing: bool = False
    #: Whether somebody came in between, so that it should be looked at again.
    was_disturbed: bool = False

    @property
    def provider(self) -> str:
        """The name of the database."""
        return self.settings.sessiondb.provider

    @property
    def is_file(self) -> bool:
        """Whether the store is a SQLite file."""
        return self.provider == "sqlite"

    @property
    def has_our_tables(self) -> bool:
        """Whether the tables are those of this product, at least the first of them."""
        return self.file is None or self.file.nature.kind is Kind.OURS

    @property
    def path(self) -> Path:
        """Where the file is, if it is one."""
        return self.settings.sessiondb.sqlite.path

    @property
    def seconds_left(self) -> float:
        """How much time there is."""
        return max(0.0, self.until - self.stopwatch())

    def read(self) -> AbstractContextManager[ReadTransaction]:
        """Lend a look at the rows.

        Raises:
            StoreError: the store is not open.
        """
        if self.opened is None:
            raise self.failure or StoreError("The store is not open.")
        return self.opened.read()
