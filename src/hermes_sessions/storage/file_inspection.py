"""The port of an inspection: reading a file that may be damaged, without changing it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple, Protocol

from hermes_sessions.errors import StoreUnavailable
from hermes_sessions.storage.provider import MigrationSteps, ReadTransaction


class UnfinishedWrite(StoreUnavailable):
    """A program died during a write, which must be rolled back; that changes the file."""


class InspectionTimeout(StoreUnavailable):
    """The time limit of the inspection was reached."""


class ChangedDuringInspection(StoreUnavailable):
    """The file was changed while it was read without locks, so the result is void."""


class Damage(NamedTuple):
    """A problem of a file that its database reports."""

    words: str
    #: The table or index with the damage, and which of the two; None if it is unknown.
    name: str | None = None
    is_index: bool = False
    #: The table of the index.
    table: str | None = None

    @property
    def is_search(self) -> bool:
        """Whether it is in the search index, which can be rebuilt."""
        return self.table is not None and self.table.startswith("search_")


class PageCheck(NamedTuple):
    """How many pages of a file were checked, and the damage found."""

    checked: int
    total: int
    damages: tuple[Damage, ...] = ()
    is_complete: bool = True


class InspectedFile(Protocol):
    """An open file that may be damaged. Not thread-safe."""

    path: Path

    @property
    def is_empty(self) -> bool:
        """Whether it has no tables."""

    @property
    def is_ours(self) -> bool:
        """Whether the tables belong to this product, in any version."""

    @property
    def is_of_another_program(self) -> bool:
        """Whether another program made its tables."""

    @property
    def version(self) -> int:
        """The version that wrote it."""

    @property
    def is_of_later_hermes(self) -> bool:
        """Whether a later hermes-agent made its tables."""

    def is_written_by_newer(self) -> bool:
        """Whether this version must not write it."""

    def foreign_version(self) -> int | None:
        """Return its schema version if this product never writes that one, otherwise None."""

    def read(self) -> AbstractContextManager[ReadTransaction]:
        """Lend a consistent read."""

    def steps(self) -> MigrationSteps:
        """Return the migrations of the tables; one is pending if the layout is older."""

    def check_pages(self, *, until: float | None = None, thorough: bool = False) -> PageCheck:
        """Check the pages until the time limit; with *thorough* also compare indexes with their
        tables, without a time limit.
        """

    def require_unchanged_during_inspection(self) -> None:
        """Refuse a result about a file that was changed while it was read without locks.

        Raises:
            ChangedDuringInspection: it was changed.
        """

    def close(self) -> None:
        """Close it."""
