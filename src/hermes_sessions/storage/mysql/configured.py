"""Options from a URL or from the configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from hermes_sessions.errors import ConfigError, InvalidInput
from hermes_sessions.storage.mysql.connections import Options
from hermes_sessions.storage.provider import Wishes
from hermes_sessions.storage.servers.driver import MOST_SECONDS

if TYPE_CHECKING:
    from hermes_sessions.config.settings import MySQLSettings

#: What a URL's query may name.
_KINDS: Final[dict[str, type[Any]]] = {
    "lock_timeout": float,
    "max_connections": int,
    "ssl": bool,
    "ssl_ca": str,
    "statement_timeout": float,
    "unix_socket": str,
}
_EXPECTED: Final = {bool: "true or false", int: "a number from 1", float: "seconds"}
_TRUTH: Final = {
    **dict.fromkeys(("1", "true", "yes", "on"), True),
    **dict.fromkeys(("0", "false", "no", "off"), False),
}


def options_from_url(url: str) -> Options:
    """Return the options of ``mysql://user:password@host:port/database?name=value``; the names are
    those of `Options`.

    Raises:
        InvalidInput: it cannot be read. The message does not repeat it: it may hold a password.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
        host = unquote(parts.hostname or "")
    except ValueError:
        raise InvalidInput(
            "The MySQL URL cannot be read. It looks like mysql://user:password@host:3306/database; "
            "write special characters as %XX."
        ) from None
    if parts.scheme not in ("mysql", "mariadb"):
        raise InvalidInput("The URL of a MySQL server begins with mysql:// or mariadb://.")
    database = unquote(parts.path.removeprefix("/"))
    if not database or "/" in database:
        raise InvalidInput("The MySQL URL must name one database: mysql://user@host/database.")
    found: dict[str, Any] = {
        "host": host,
        "port": port,
        "user": unquote(parts.username or ""),
        "password": unquote(parts.password or ""),
        "database": database,
    }
    found = {name: value for name, value in found.items() if value}
    for name, text in parse_qsl(parts.query, keep_blank_values=True):
        found[name] = _value(name, text)
    return Options(**found)


def options_from_settings(settings: MySQLSettings) -> Options:
    """Return the options that the configuration names; what its URL names counts more.

    Raises:
        ConfigError: the URL cannot be read, or nothing says which database.
    """
    in_url: set[str] = set()
    if settings.dsn is not None:
        try:
            options = options_from_url(settings.dsn)
            in_url = {name for name, _ in parse_qsl(urlsplit(settings.dsn).query)}
        except InvalidInput as error:
            raise ConfigError(
                f"sessiondb.mysql.dsn: {error} A password with special characters goes into "
                f"sessiondb.mysql.password."
            ) from None
    elif settings.database is None:
        raise ConfigError(
            "sessiondb.provider is mysql: set sessiondb.mysql.dsn, or host, user, password and "
            "database below sessiondb.mysql."
        )
    else:
        options = Options(port=settings.port, user=settings.user or "", database=settings.database)
        if settings.host is not None:
            options = options._replace(host=settings.host)
    if settings.password is not None:
        options = options._replace(password=settings.password)
    keys: dict[str, Any] = {
        "max_connections": settings.max_connections,
        "lock_timeout": settings.lock_timeout,
        "statement_timeout": settings.statement_timeout,
        "ssl_ca": settings.ssl_ca,
    }
    return options._replace(**{name: keys[name] for name in keys if name not in in_url})


def wished(options: Options, wishes: Wishes) -> Options:
    """Return the options with what a caller asks for."""
    # How durable a commit is, is the server's to say (innodb_flush_log_at_trx_commit).
    return options._replace(
        read_only=wishes.read_only,
        lock_timeout=wishes.lock_timeout or options.lock_timeout,
        seconds_left=wishes.seconds_left,
    )


def _value(name: str, text: str) -> Any:
    if name not in _KINDS:
        raise InvalidInput(
            f"The MySQL URL has an unknown parameter {name!r}. Known are: {', '.join(_KINDS)}."
        )
    kind = _KINDS[name]
    if kind is str:
        return text
    try:
        if kind is bool:
            return _TRUTH[text.lower()]
        value = kind(text)
        if (1 if kind is int else 0) <= value <= MOST_SECONDS:
            return value
    except (KeyError, ValueError):
        pass
    raise InvalidInput(f"{name} in the MySQL URL must be {_EXPECTED[kind]}, not {text!r}.")
