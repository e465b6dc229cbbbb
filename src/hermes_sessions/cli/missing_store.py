"""The empty store that read commands use before the store exists.

A separate module, because it is rarely needed and would slow down every start.
"""

from __future__ import annotations

from collections.abc import Callable

from hermes_sessions.config.retention_policies import retention_policies
from hermes_sessions.config.settings import Settings
from hermes_sessions.storage.provider_registry import file_care
from hermes_sessions.storage.sessiondb import SessionDB


class MissingStore(SessionDB):
    """The configured store before it exists: empty, with the configured settings.

    Writes go to memory and are lost.
    """

    def __init__(self, settings: Settings, clock: Callable[[], float]) -> None:
        super().__init__(
            provider=file_care().open_missing(settings.sessiondb.sqlite.path),
            max_message_bytes=settings.sessiondb.max_message_bytes,
            clock=clock,
        )
        self._store = self._store._replace(
            trash_days=settings.sessions.trash_days,
            find_retention=lambda: retention_policies(settings),
        )
