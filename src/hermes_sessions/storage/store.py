"""What every repository needs: the provider, the clock, the limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from hermes_sessions.storage.provider import SessionDBProvider

if TYPE_CHECKING:
    from hermes_sessions.model.retention import RetentionPolicies

DEFAULT_MAX_MESSAGE_BYTES = 8 * 1024 * 1024
DEFAULT_TRASH_DAYS = 30


class Store(NamedTuple):
    """One open store, as the repositories see it."""

    provider: SessionDBProvider
    #: Seconds since the epoch.
    clock: Callable[[], float]
    max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES
    #: How long maintenance leaves sessions in the trash.
    trash_days: float = DEFAULT_TRASH_DAYS
    #: Tells what may be deleted in time; None where nothing is configured.
    find_retention: Callable[[], RetentionPolicies] | None = None

    @property
    def retention(self) -> RetentionPolicies | None:
        """What may be deleted in time; None where nothing is configured."""
        return self.find_retention() if self.find_retention is not None else None
