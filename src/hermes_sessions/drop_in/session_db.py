"""`SessionDB` as hermes-agent expects it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from hermes_sessions.drop_in.init_errors import set_last_init_error
from hermes_sessions.drop_in.message_verbs import MessageVerbs
from hermes_sessions.drop_in.session_verbs import SessionVerbs
from hermes_sessions.errors import StoreClosed, StoreCorrupt
from hermes_sessions.model.computed_once import computed_once
from hermes_sessions.storage.store_context import LazyRepository

if TYPE_CHECKING:
    from pathlib import Path

    from hermes_sessions.config.settings import Settings
    from hermes_sessions.storage.provider import OpenOptions
    from hermes_sessions.storage.provider_registry import OpenedProvider
    from hermes_sessions.storage.raw_sql import RawConnection, RawStatements

T = TypeVar("T")


class SessionDB(SessionVerbs, MessageVerbs):
    """`hermes_sessions.SessionDB` with the names and rules that hermes-agent relies on.

    A path whose file is called ``state.db`` stands for the home around it: the store is the one
    that the configuration of this home names.
    """

    def __init__(
        self, db_path: str | Path | None = None, read_only: bool = False, **options: Any
    ) -> None:
        self._side_file: Path | None = None
        try:
            super().__init__(db_path, read_only=read_only, **options)
        except Exception as error:
            set_last_init_error(f"{type(error).__name__}: {error}")
            raise
        #: Whether this handle refuses writes.
        self.read_only = self.provider.read_only
        self._lock = threading.RLock()
        self._is_closed = False
        self._path = self._find_path()

    def _open(self, db_path: str | Path | None, options: OpenOptions) -> OpenedProvider:
        from hermes_sessions.drop_in.store_location import locate_store, prepare_side_file

        # hermes-agent itself opens its file with this class.
        options = options._replace(upgrade_later=True)
        location = locate_store(db_path)
        if location is None:
            return super()._open(db_path, options)
        opened = self._open_or_repair(location.settings, options)
        if location.settings.sessiondb.store_file is None:
            self._side_file = location.file
            if not options.read_only:
                prepare_side_file(location.file)
        return opened

    def _open_or_repair(self, settings: Settings, options: OpenOptions) -> OpenedProvider:
        """Open the configured store; repair a damaged file first, as hermes-agent's own does."""
        from hermes_sessions.storage.provider_registry import open_configured

        try:
            return open_configured(settings, options)
        except StoreCorrupt as error:
            from hermes_sessions.drop_in.file_health import repair_malformed_once

            file = settings.sessiondb.store_file
            if options.read_only or file is None or not repair_malformed_once(file, error):
                raise
            return open_configured(settings, options)

    def _find_path(self) -> Path | None:
        if not self.provider.is_file:
            return self._side_file
        from pathlib import Path

        return Path(self.provider.describe()["path"])

    @property
    def db_path(self) -> Path:
        """The file of this store, also when it is closed; on a server, the ``state.db`` beside it.

        Raises:
            AttributeError: there is no such file.
        """
        if self._path is None:
            raise AttributeError("this store has no file: it was opened by its URL")
        return self._path

    def close(self) -> None:
        """Release this handle. A second call does nothing; any other verb then raises an error that
        is both `StoreClosed` and `AttributeError`, as hermes-agent expects.
        """
        if self._is_closed:
            return
        self._is_closed = True
        super().close()
        for kind in type(self).__mro__:
            for name, value in vars(kind).items():
                if isinstance(value, LazyRepository | computed_once):
                    self.__dict__[name] = _CLOSED

    def _noticed(self, messages: int) -> None:
        super()._noticed(messages)
        self._mark_change()

    def _mark_change(self) -> None:
        """Renew the time of the file beside a server: hermes-agent's MCP server watches it."""
        if self._side_file is None:
            return
        import os

        try:
            os.utime(self._side_file)
        except OSError:  # The sessions are stored; that the file is gone is no reason to fail.
            self._side_file = None

    @computed_once
    def _conn(self) -> RawStatements:
        """A connection-like object for SQL written for SQLite; each statement is a transaction of
        its own. On servers, statements are translated or refused.

        Raises:
            AttributeError: this database runs no such statements; callers probe with getattr().
        """
        statements = self.provider.raw_sql()
        if statements is None:
            raise AttributeError(f"{self.provider.name} runs no SQL of callers")
        from hermes_sessions.drop_in.raw_usage import UsageStatements

        return UsageStatements(statements, is_file=self.provider.is_file)

    def _execute_write(self, fn: Callable[[RawConnection], T]) -> T:
        """Run *fn* with a connection-like object in one transaction."""
        return self._conn.transaction(fn)


class ClosedSessionDB(StoreClosed, AttributeError):
    """This handle was closed; hermes-agent expects an `AttributeError`."""


class _Closed:
    """Takes the place of each part of a closed store."""

    def __getattr__(self, name: str) -> NoReturn:
        raise ClosedSessionDB("Cannot operate on a closed database. Open a new SessionDB.")


_CLOSED = _Closed()
