"""Read connection options from a URL or from the configuration."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from hermes_sessions.errors import ConfigError, InvalidInput
from hermes_sessions.storage.mysql.connections import Node, Options
from hermes_sessions.storage.provider import OpenOptions
from hermes_sessions.storage.servers.driver import MOST_SECONDS

if TYPE_CHECKING:
    from hermes_sessions.config.settings import MySQLSettings

#: Parameters that a URL may contain.
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
    those of `Options`. There may be several hosts, with commas between them.

    Raises:
        InvalidInput: the URL is not valid. The message omits it: it may contain a password.
    """
    try:
        parts, hosts = _split(url)
        nodes = nodes_of(hosts) if hosts else ()
    except ValueError:
        raise InvalidInput(
            "The MySQL URL cannot be read. It looks like mysql://user:password@host:3306/database, "
            "for a cluster mysql://user:password@one:3306,two:3306/database; write special "
            "characters as %XX."
        ) from None
    if parts.scheme not in ("mysql", "mariadb"):
        raise InvalidInput("The URL of a MySQL server begins with mysql:// or mariadb://.")
    database = unquote(parts.path.removeprefix("/"))
    if not database or "/" in database:
        raise InvalidInput("The MySQL URL must name one database: mysql://user@host/database.")
    options = Options(
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        database=database,
    )
    named = parse_qsl(parts.query, keep_blank_values=True)
    return _at(options, nodes)._replace(**{name: _value(name, text) for name, text in named})


def _split(url: str) -> tuple[SplitResult, str]:
    """Return the parts of a URL and its hosts; the standard library supports only one host."""
    scheme, _, rest = url.partition("://")
    address, mark, other = rest, "", ""
    if found := re.search("[/?#]", rest):
        address, mark, other = rest[: found.start()], found[0], rest[found.end() :]
    user, at, hosts = address.rpartition("@")
    return urlsplit(f"{scheme}://{user}{at}{mark}{other}"), hosts


def nodes_of(hosts: str, port: int = Options().port) -> tuple[Node, ...]:
    """Return the addresses in ``host:port,host:port``; *port* is that of hosts without one.

    Raises:
        ValueError: an address is not valid.
    """
    nodes: list[Node] = []
    for text in hosts.split(","):
        parts = urlsplit(f"//{text.strip()}")
        if not parts.hostname or parts.netloc != text.strip() or "@" in text:
            raise ValueError("a host is missing")
        nodes.append((unquote(parts.hostname), parts.port or port))
    return tuple(nodes)


def _at(options: Options, nodes: tuple[Node, ...]) -> Options:
    """Return the options with these addresses; without any, the default host stays."""
    if not nodes:
        return options
    [(host, port), *others] = nodes
    return options._replace(host=host, port=port, other_nodes=tuple(others))


def options_from_settings(settings: MySQLSettings) -> Options:
    """Return the options from the configuration; those in its URL take precedence.

    Raises:
        ConfigError: the URL is not valid, or no database is configured.
    """
    in_url: set[str] = set()
    if settings.dsn is not None:
        try:
            options = options_from_url(settings.dsn)
            in_url = {name for name, _ in parse_qsl(_split(settings.dsn)[0].query)}
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
            try:
                options = _at(options, nodes_of(settings.host, settings.port))
            except ValueError:
                raise ConfigError(
                    "sessiondb.mysql.host names one host, or the nodes of a cluster with commas "
                    "between them: one.example.org,two.example.org:3307."
                ) from None
    if settings.password is not None:
        options = options._replace(password=settings.password)
    keys: dict[str, Any] = {
        "max_connections": settings.max_connections,
        "lock_timeout": settings.lock_timeout,
        "statement_timeout": settings.statement_timeout,
        "ssl_ca": settings.ssl_ca,
    }
    return options._replace(**{name: keys[name] for name in keys if name not in in_url})


def with_open_options(options: Options, open_options: OpenOptions) -> Options:
    """Return the options, changed as the caller of `open` asks."""
    # The server decides how durable a commit is (innodb_flush_log_at_trx_commit).
    return options._replace(
        read_only=open_options.read_only,
        lock_timeout=open_options.lock_timeout or options.lock_timeout,
        seconds_left=open_options.seconds_left,
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
