"""Which store a path of hermes-agent's stands for.

hermes-agent names the store of a home by the path of its file ``state.db``. The configuration of
that home decides which store that is: this file, another one, or a database on a server. Beside a
server, parts of hermes-agent (delegation, deliveries) still keep their own tables in ``state.db``.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from hermes_sessions.errors import InvalidInput

if TYPE_CHECKING:
    from hermes_sessions.config.settings import Settings

FILE_NAME: Final = "state.db"


class StoreLocation(NamedTuple):
    """The store of a home."""

    settings: Settings
    #: The file ``state.db`` of the home.
    file: Path

    @property
    def is_file_the_store(self) -> bool:
        """Whether ``state.db`` holds the sessions."""
        return self.settings.sessiondb.store_file == self.file


def locate_store(path: str | Path | None) -> StoreLocation | None:
    """Return the store of the home whose ``state.db`` is at *path*, by default that of this
    process; None for a file of another name, and where there is no directory yet.

    Raises:
        ConfigError: the configuration of the home is wrong.
    """
    from hermes_sessions.config import load_settings

    if path is None:
        settings = load_settings()
    elif Path(path).name == FILE_NAME and Path(path).parent.is_dir():
        settings = load_settings(Path(path).parent)
    else:
        return None
    return StoreLocation(settings, settings.home / FILE_NAME)


def prepare_side_file(file: Path) -> None:
    """Make an empty ``state.db`` beside a store on a server, unless there is one.

    It has the tables of hermes-agent, so that its checks of the file succeed.
    """
    if file.exists():
        return
    from hermes_sessions.storage.provider_registry import file_care
    from hermes_sessions.storage.sessiondb import SessionDB

    care = file_care()
    care.prepare_directory(file)
    # Another process may make it at the same time.
    with SessionDB(":memory:") as empty, suppress(InvalidInput):
        care.export_database(empty, file, 22)
