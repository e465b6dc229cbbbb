"""The port of the tools for a store that is one file: images, replacement, private copies.

Backups need them whatever database is configured, so they do not belong to an open
store. `provider_registry.file_care` returns them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from pathlib import Path
from typing import ClassVar

from hermes_sessions.storage.provider import ReadTransaction, SessionDBProvider


class FileCare(ABC):
    """Tools for files that hold a store; an image is one that no program writes."""

    #: The name of their provider, which is also the scheme of their URLs.
    provider: ClassVar[str]
    #: Lists the tables of an image; see `Dialect.tables_query`.
    tables_query: ClassVar[str]

    @abstractmethod
    def check_image(self, image: Path) -> None:
        """Check that an image is a store, and each of its tables with its indexes.

        Raises:
            StoreCorrupt, NotADatabase: it is not; the message says why.
        """

    @abstractmethod
    def read_image(self, image: Path) -> AbstractContextManager[ReadTransaction]:
        """Lend a transaction that reads an image.

        Raises:
            StoreCorrupt, NotADatabase, StoreError: it cannot be read.
        """

    @abstractmethod
    def prepare_image(self, image: Path) -> None:
        """Make an image ready to become a store.

        Raises:
            SchemaRefused: a newer version made it.
        """

    @abstractmethod
    def open_working_copy(self, file: Path, *, back_up_first: bool = True) -> SessionDBProvider:
        """Open a private file, which is a single file again when it is closed.

        Without *back_up_first*, pending migrations run without a backup.
        """

    @abstractmethod
    def prepare_directory(self, file: Path) -> None:
        """Create the parent directories of a store, private to the user.

        Raises:
            StoreUnreachable: they cannot be created.
        """

    @abstractmethod
    def require_unused(self, file: Path) -> None:
        """Refuse a store that a program has open, as far as that is visible without touching it.

        Raises:
            StoreLocked: the message names the program.
        """

    @abstractmethod
    def replace_store(self, file: Path, new: Path, kept: Path, patience: float) -> Path | None:
        """Replace the store at *file* by *new*; return where the old one is kept, None for a
        missing or empty file.

        *file* must be resolved. *new* is complete, durable and in the same directory; it may be
        gone afterwards. *kept* is an unused name there.

        Raises:
            StoreLocked: the store is in use; the message says by which program.
            SchemaRefused, UnsafeStore, StoreError, OSError: the old store is still in place.
        """
