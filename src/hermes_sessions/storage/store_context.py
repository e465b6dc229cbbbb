"""What every repository needs: the provider, the clock, the limits."""

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from hermes_sessions.storage.provider import SessionDBProvider

if TYPE_CHECKING:
    from hermes_sessions.model.retention import RetentionPolicies

T = TypeVar("T")


class LazyRepository(Generic[T]):
    """An attribute of `SessionDB` that imports and makes a repository when a verb first needs it.

    A process uses few of the verbs: listing sessions does not wait for what rewinds them.
    """

    def __init__(self, module: str, name: str) -> None:
        self._module = f"hermes_sessions.storage.repositories.{module}"
        self._name = name

    def __set_name__(self, _owner: type, attribute: str) -> None:
        self._attribute = attribute

    def __get__(self, db: Any, _owner: type) -> T:
        part: T = getattr(import_module(self._module), self._name)(db._store)
        # Later lookups find the part in the instance and do not call this descriptor again.
        db.__dict__[self._attribute] = part
        return part


DEFAULT_MAX_MESSAGE_BYTES = 8 * 1024 * 1024
DEFAULT_TRASH_DAYS = 30
#: Seconds that a lease lasts after its last renewal.
LEASE_SECONDS = 60.0


class AttachmentLimits(NamedTuple):
    """What is stored outside of the rows of messages."""

    #: Base64 of at least this many characters; None for nothing.
    threshold: int | None = 16 * 1024
    #: Bytes of the largest attachment.
    max_bytes: int = 64 * 1024**2


DEFAULT_ATTACHMENT_LIMITS = AttachmentLimits()


class StoreContext(NamedTuple):
    """One open store, as the repositories see it."""

    provider: SessionDBProvider
    #: Seconds since the epoch.
    clock: Callable[[], float]
    max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES
    #: What is stored outside of the rows of messages.
    attachments: AttachmentLimits = DEFAULT_ATTACHMENT_LIMITS
    #: The setting `search.synonyms`.
    synonyms: tuple[str, ...] = ()
    #: How long maintenance leaves sessions in the trash.
    trash_days: float = DEFAULT_TRASH_DAYS
    #: Tells what may be deleted in time; None where nothing is configured.
    find_retention: Callable[[], "RetentionPolicies"] | None = None

    @property
    def retention(self) -> "RetentionPolicies | None":
        """What may be deleted in time; None where nothing is configured."""
        return self.find_retention() if self.find_retention is not None else None
