"""Open the database that a path, a URL or the configuration names.

The only place that names concrete providers, with two exceptions: `config.settings` declares their
names and options, and `hermes_state` is the drop-in for SQLite. Other providers are found by the
entry point ``hermes_sessions.providers``: its name, which is also the name in the configuration and
the scheme of URLs, leads to a subclass of `SessionDBProvider`.
"""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from hermes_sessions.errors import ConfigError, InvalidInput
from hermes_sessions.storage.provider import DEFAULT_OPEN_OPTIONS, OpenOptions, SessionDBProvider
from hermes_sessions.storage.store_context import AttachmentLimits

if TYPE_CHECKING:
    from hermes_sessions.config.settings import Settings
    from hermes_sessions.model.retention import RetentionPolicies
    from hermes_sessions.storage.file_care import FileCare

#: By name: the module, its class, and the driver that comes with the extra of the same name.
_OURS: Final = {
    "sqlite": ("sqlite", "SQLiteSessionDBProvider", "apsw"),
    "postgresql": ("postgresql", "PostgreSQLSessionDBProvider", "psycopg"),
    "mysql": ("mysql", "MySQLSessionDBProvider", "pymysql"),
}
#: Other names that URLs use.
_SCHEMES: Final = {"postgres": "postgresql", "mariadb": "mysql"}


class OpenedProvider(NamedTuple):
    """A provider, and other values of the configuration; None if only a path was given."""

    provider: SessionDBProvider
    max_message_bytes: int | None = None
    trash_days: int | None = None
    find_retention: Callable[[], "RetentionPolicies"] | None = None
    attachments: AttachmentLimits | None = None
    synonyms: tuple[str, ...] = ()


def open_provider(
    db_path: str | Path | None, open_options: OpenOptions = DEFAULT_OPEN_OPTIONS
) -> OpenedProvider:
    """Open the SQLite file at *db_path*; if it is None, the configured store."""
    if db_path is not None:
        from hermes_sessions.storage.sqlite.provider import SQLiteSessionDBProvider

        return OpenedProvider(SQLiteSessionDBProvider.from_path(db_path, open_options))

    from hermes_sessions.config import load_settings

    return open_configured(load_settings(), open_options)


def open_configured(
    settings: "Settings", open_options: OpenOptions = DEFAULT_OPEN_OPTIONS
) -> OpenedProvider:
    """Open the store that *settings* configure.

    Raises:
        ConfigError: there is no such provider, or its section lacks something.
        StoreError: the store cannot be opened.
    """
    try:
        provider_class = find_provider(settings.sessiondb.provider)
    except InvalidInput as error:
        raise ConfigError(f"sessiondb.provider: {error}") from error
    return OpenedProvider(
        provider_class.from_settings(settings.sessiondb, open_options),
        settings.sessiondb.max_message_bytes,
        settings.sessions.trash_days,
        lambda: _retention(settings),
        attachment_limits(settings),
        settings.search.synonyms,
    )


def attachment_limits(settings: "Settings") -> AttachmentLimits:
    """Return what is configured to be stored outside of the rows of messages."""
    configured = settings.storage.attachments
    threshold = configured.threshold if configured.enabled else None
    return AttachmentLimits(threshold, configured.max_bytes)


def _retention(settings: "Settings") -> "RetentionPolicies":
    # Few commands need it, and `hermes sessions list` must not load it.
    from hermes_sessions.config.retention_policies import retention_policies

    return retention_policies(settings)


def open_url(url: str, open_options: OpenOptions = DEFAULT_OPEN_OPTIONS) -> SessionDBProvider:
    """Open the store that *url* names.

    Raises:
        InvalidInput: no provider has this scheme, or the URL is not valid.
        StoreError: the store cannot be opened.
    """
    scheme, colon, _ = url.partition("://")
    if not colon or not scheme:
        raise InvalidInput(
            "A store's URL looks like sqlite:///file.db, postgresql://user@host/database or "
            "mysql://user@host/database."
        )
    return find_provider(_SCHEMES.get(scheme.lower(), scheme.lower())).from_url(url, open_options)


def find_provider(name: str) -> type[SessionDBProvider]:
    """Return the provider of this name.

    Raises:
        InvalidInput: it does not exist, or its driver is not installed; the message says what to
            do.
    """
    if name in _OURS:
        folder, class_name, driver = _OURS[name]
        try:
            module = import_module(f"hermes_sessions.storage.{folder}.provider")
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in (driver, f"{driver}_pool"):
                raise
            raise InvalidInput(
                f"{name} needs a driver that is not installed: "
                f"pip install 'hermes-sessions[{name}]'"
            ) from error
        found: type[SessionDBProvider] = getattr(module, class_name)
        return found
    return _find_elsewhere(name)


def file_care() -> "FileCare":
    """Return the tools for stores in a single file, independent of the configured database."""
    from hermes_sessions.storage.sqlite.file_care import SQLiteFileCare

    return SQLiteFileCare()


def _find_elsewhere(name: str) -> type[SessionDBProvider]:
    from importlib.metadata import entry_points

    from hermes_sessions.config.settings import PROVIDER_ENTRY_POINTS

    others = {point.name: point for point in entry_points(group=PROVIDER_ENTRY_POINTS)}
    if name not in others:
        known = ", ".join(sorted({*_OURS, *others}))
        raise InvalidInput(f"There is no database provider {name!r}. Known are: {known}.")
    found = others[name].load()
    if not (isinstance(found, type) and issubclass(found, SessionDBProvider)):
        raise InvalidInput(f"The entry point {name!r} is not a SessionDBProvider: {found!r}.")
    return found
