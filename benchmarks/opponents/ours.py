"""Hermes Sessions itself, installed from this repository and driven through ``hermes_state``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.corpus import CorpusMessage, CorpusSession
from benchmarks.environments import Environment
from benchmarks.opponents.base import Opponent, ServerKind
from benchmarks.opponents.hermes_api import SessionDBStore
from benchmarks.opponents.sqlite_rows import SELECT_CONVERSATION


class OwnStore(SessionDBStore):
    """Adds what only this project's ``SessionDB`` offers."""

    def append_all(self, session_id: str, messages: list[CorpusMessage]) -> None:
        """Append a session's messages in one transaction."""
        self._db.append_messages(session_id, [_fields(message) for message in messages])

    @property
    def session_db(self) -> Any:
        """The store itself, for what is built on it."""
        return self._db

    def complete_index(self) -> None:
        """Index what waits and merge, instead of leaving it to the background thread."""
        self._db.optimize_search()


class OwnServerStore(OwnStore):
    """The same on a server; the file holds the store's URL."""

    def __init__(self, path: Path, options: str = "") -> None:
        url = path.read_text() + options
        self._db: Any = import_module("hermes_sessions").SessionDB.from_url(url)


def _fields(message: CorpusMessage) -> dict[str, Any]:
    return {
        name: value
        for name, value in asdict(message).items()
        if value is not None and name != "kind"
    }


def _load(path: Path, sessions: Iterable[CorpusSession]) -> None:
    _fill(OwnStore(path, durability="normal"), sessions)


def _load_postgresql(path: Path, sessions: Iterable[CorpusSession]) -> None:
    _fill(OwnServerStore(path, "?synchronous_commit=off"), sessions)


def _load_mysql(path: Path, sessions: Iterable[CorpusSession]) -> None:
    _fill(OwnServerStore(path), sessions)


def _fill(store: OwnStore, sessions: Iterable[CorpusSession]) -> None:
    for session in sessions:
        store.create_session(session)
        store.append_all(session.id, session.messages)
        if session.end_reason:
            store.end(session.id, session.end_reason)
    store.complete_index()
    store.close()


def _select_rows(path: Path) -> Callable[[str], list[Any]]:
    import apsw  # the store's own driver: two SQLite libraries must not share a file

    connection = apsw.Connection(str(path))
    sql = f"{SELECT_CONVERSATION} ORDER BY ordinal"
    return lambda session_id: list(connection.execute(sql, (session_id,)))


def _bare_search(path: Path) -> Callable[[str], Callable[[], list[Any]]]:
    import apsw

    from hermes_sessions.storage.search.compiled_index import compile_tree
    from hermes_sessions.storage.sqlite.search_index import SYNTAX
    from hermes_sessions.text.query.parser import parse

    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    sql = "SELECT rowid FROM search_index WHERE search_index MATCH ? ORDER BY rank LIMIT 20"

    def prepared(query: str) -> Callable[[], list[Any]]:
        node = parse(query).node
        expression = None if node is None else compile_tree(node, SYNTAX)
        if expression is None or expression.complement:
            raise LookupError(f"{query!r} is not a single FTS5 expression")
        return lambda: list(connection.execute(sql, (expression.text,)))

    return prepared


def _sqlite_version() -> str:
    import apsw

    return str(apsw.sqlite_lib_version())


def _opponent(name: str, label: str, durability: str) -> Opponent:
    open_store = partial(OwnStore, durability=durability)
    return Opponent(
        name=name,
        label=label,
        environment=Environment(name="ours", project=True),
        open=open_store,
        open_agent=open_store,
        load=_load,
        select_rows=_select_rows,
        bare_search=_bare_search,
        sqlite_version=_sqlite_version,
        is_reference=False,
    )


OURS = _opponent("ours", "Hermes Sessions", "full")
OURS_NORMAL = _opponent("ours-normal", "Hermes Sessions, normal", "normal")
OURS_GATEWAY = replace(
    OURS,
    name="ours-gateway",
    label="Hermes Sessions, with its gateway",
    environment=Environment(name="ours-gateway", project=True, extras=("gateway",)),
)

SERVERS_ENVIRONMENT = Environment(name="ours-servers", project=True, extras=("postgresql", "mysql"))


def _on_server(kind: ServerKind, label: str) -> Opponent:
    return Opponent(
        name=f"ours-{kind}",
        label=f"Hermes Sessions on {label}",
        environment=SERVERS_ENVIRONMENT,
        server=kind,
        open=OwnServerStore,
        open_agent=OwnServerStore,
        load=_load_postgresql if kind == "postgresql" else _load_mysql,
        is_reference=False,
    )


OURS_POSTGRESQL = _on_server("postgresql", "PostgreSQL")
OURS_MYSQL = _on_server("mysql", "MariaDB")
