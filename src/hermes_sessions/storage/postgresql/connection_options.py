"""Read connection options from a URL or from the configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from hermes_sessions.errors import ConfigError, InvalidInput
from hermes_sessions.storage.postgresql.connections import Options
from hermes_sessions.storage.provider import OpenOptions
from hermes_sessions.storage.servers.driver import MOST_SECONDS

if TYPE_CHECKING:
    from hermes_sessions.config.settings import PostgreSQLSettings

#: Parameters of a URL that this package reads; libpq must not get them.
_KINDS: Final[dict[str, type[Any]]] = {
    "schema": str,
    "max_connections": int,
    "lock_timeout": float,
    "statement_timeout": float,
    "synchronous_commit": str,
}
_COMMITS: Final = ("on", "off", "local", "remote_write", "remote_apply")


def options_from_url(url: str, open_options: OpenOptions) -> Options:
    """Return the options that a ``postgresql://`` URL names.

    Raises:
        InvalidInput: the URL is not valid. The message omits it: it may contain a password.
    """
    conninfo, ours = _read(url)
    return _with_open_options(Options(conninfo=conninfo, **ours), open_options)


_UNREADABLE: Final = (
    "The PostgreSQL URL cannot be read. It looks like "
    "postgresql://user:password@host:5432/database; write special characters as %XX."
)


def _read(url: str) -> tuple[str, dict[str, Any]]:
    """Split a URL into the part for libpq and the parameters for this package."""
    try:
        parts = urlsplit(url)
    except ValueError:
        raise InvalidInput(_UNREADABLE) from None
    # An @ here means that the password contains an unescaped special character. libpq would read
    # the password as part of the database's name, which is shown in messages.
    if "@" in parts.path:
        raise InvalidInput(_UNREADABLE)
    ours: dict[str, Any] = {}
    theirs = []
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name in _KINDS:
            ours[name] = _value(name, value)
        else:
            theirs.append((name, value))
    conninfo = urlunsplit(parts._replace(query=urlencode(theirs)))
    try:
        conninfo_to_dict(conninfo)
    except psycopg.Error:
        raise InvalidInput(_UNREADABLE) from None
    return conninfo, ours


def _value(name: str, text: str) -> Any:
    kind = _KINDS[name]
    if name == "synchronous_commit" and text not in _COMMITS:
        raise InvalidInput(f"{name} in the URL must be one of: {', '.join(_COMMITS)}.")
    if kind is str:
        return text
    try:
        value = kind(text)
        if (1 if kind is int else 0) <= value <= MOST_SECONDS:
            return value
    except ValueError:
        pass
    expected = "a number from 1" if kind is int else "seconds"
    raise InvalidInput(f"{name} in the URL must be {expected}, not {text!r}.")


def options_from_settings(settings: PostgreSQLSettings, open_options: OpenOptions) -> Options:
    """Return the options from the configuration; those in its URL take precedence.

    Raises:
        ConfigError: the URL is not valid, or no database is configured.
    """
    ours: dict[str, Any] = {}
    if settings.dsn is not None:
        conninfo = settings.dsn
        try:
            if "://" in conninfo:
                conninfo, ours = _read(conninfo)
            else:
                conninfo_to_dict(conninfo)
        except psycopg.Error:
            raise ConfigError(
                "sessiondb.postgresql.dsn cannot be read. It looks like "
                "postgresql://user:${PASSWORD}@host:5432/database; a password with special "
                "characters goes into sessiondb.postgresql.password."
            ) from None
        except InvalidInput as error:
            raise ConfigError(
                f"sessiondb.postgresql.dsn: {error} A password with special characters goes into "
                f"sessiondb.postgresql.password."
            ) from None
        if settings.password is not None:
            conninfo = make_conninfo(conninfo, password=settings.password)
    elif settings.database is None:
        raise ConfigError(
            "sessiondb.provider is postgresql: set sessiondb.postgresql.dsn, or host, user, "
            "password and database below sessiondb.postgresql."
        )
    else:
        given = {
            "host": settings.host,
            "port": settings.port if settings.host else None,
            "user": settings.user,
            "password": settings.password,
            "dbname": settings.database,
        }
        conninfo = make_conninfo("", **{k: str(v) for k, v in given.items() if v is not None})
    commit = settings.synchronous_commit
    options = Options(
        conninfo=conninfo,
        schema=settings.schema,
        max_connections=settings.max_connections,
        lock_timeout=settings.lock_timeout,
        statement_timeout=settings.statement_timeout,
        synchronous_commit=None if commit == "server" else commit,
    )
    return _with_open_options(options._replace(**ours), open_options)


def _with_open_options(options: Options, open_options: OpenOptions) -> Options:
    if open_options.durability == "normal":
        options = options._replace(synchronous_commit="off")
    elif open_options.durability == "full" and options.synchronous_commit == "off":
        options = options._replace(synchronous_commit="on")
    return options._replace(
        read_only=open_options.read_only,
        lock_timeout=open_options.lock_timeout or options.lock_timeout,
        seconds_left=open_options.seconds_left,
    )
