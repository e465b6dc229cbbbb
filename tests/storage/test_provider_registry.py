"""Which database a URL or the configuration opens."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hermes_sessions import SessionDB
from hermes_sessions.errors import ConfigError, InvalidInput, StoreReadOnly, StoreUnreachable
from hermes_sessions.storage import provider_registry
from hermes_sessions.storage.provider import SessionDBProvider
from hermes_sessions.storage.sqlite.provider import SQLiteSessionDBProvider
from tests.servers.server_processes import Server, free_port, postgresql_url
from tests.servers.stores import mysql_store


@pytest.fixture
def configure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    def configure(text: str) -> None:
        (tmp_path / "config.yaml").write_text(text, encoding="utf-8")

    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    return configure


class TestURLs:
    def test_a_file(self, tmp_path: Path) -> None:
        with SessionDB.from_url(f"sqlite:///{tmp_path}/a b.db") as db:
            db.create_session("s", "cli")
        with SessionDB.from_url(f"sqlite:///{tmp_path}/a%20b.db", read_only=True) as db:
            assert db.get_session("s") is not None
            with pytest.raises(StoreReadOnly):
                db.create_session("t", "cli")
        assert (tmp_path / "a b.db").exists()

    def test_a_relative_file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        SessionDB.from_url("sqlite:///here.db").close()
        assert (tmp_path / "here.db").exists()

    @pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:"])
    def test_in_memory(self, url: str) -> None:
        with SessionDB.from_url(url) as db:
            assert db.describe()["path"] == ":memory:"

    @pytest.mark.parametrize(
        ("url", "said"),
        [
            ("state.db", "looks like"),
            ("://x", "looks like"),
            ("sqlite://host/file", "not a SQLite URL"),
            ("sqlite:///file?mode=ro", "not a SQLite URL"),
            ("oracle://host/db", "Known are: mysql, postgresql, sqlite"),
            ("postgresql://host/db?max_connections=many", "max_connections in the URL"),
            ("postgresql://host/db?synchronous_commit=maybe", "one of: on, off"),
            ("postgresql://u:se%cret@host:port/db", "cannot be read"),
            ("postgresql://host/db?schema=Mine", "lower-case"),
        ],
    )
    def test_what_cannot_be_opened(self, url: str, said: str) -> None:
        with pytest.raises(InvalidInput, match=said) as raised:
            SessionDB.from_url(url)
        assert "cret" not in str(raised.value)

    def test_a_server_that_is_not_there(self) -> None:
        url = f"postgresql://ada:secret@127.0.0.1:{free_port()}/db"
        with pytest.raises(StoreUnreachable, match="cannot be reached") as raised:
            SessionDB.from_url(url)
        assert "secret" not in str(raised.value)

    @pytest.mark.parametrize("scheme", ["postgresql", "postgres"])
    def test_a_server(self, postgresql: Server, scheme: str) -> None:
        url = postgresql_url(postgresql).replace("postgresql:", f"{scheme}:")
        with SessionDB.from_url(f"{url}?schema=by_{scheme}&max_connections=2") as db:
            db.create_session("s", "cli")
            assert db.describe()["schema"] == f"by_{scheme}"
        with SessionDB.from_url(f"{url}?schema=by_{scheme}", read_only=True) as db:
            assert db.get_session("s") is not None
            with pytest.raises(StoreReadOnly):
                db.create_session("t", "cli")

    @pytest.mark.parametrize("scheme", ["mysql", "mariadb"])
    def test_another_server(self, mariadb: Server, scheme: str) -> None:
        with mysql_store(mariadb, "by_url"):
            url = f"{scheme}://root@127.0.0.1:{mariadb.port}/by_url"
            with SessionDB.from_url(url) as db:
                db.create_session("s", "cli")
            with SessionDB.from_url(url, read_only=True) as db:
                assert db.get_session("s") is not None
                with pytest.raises(StoreReadOnly):
                    db.create_session("t", "cli")


class TestConfigured:
    def test_mysql_by_parts(self, configure: Callable[[str], None], mariadb: Server) -> None:
        configure(
            f"sessiondb:\n  provider: mysql\n  mysql:\n    port: {mariadb.port}\n"
            f"    user: root\n    database: by_parts\n"
        )
        with mysql_store(mariadb, "by_parts"), SessionDB() as db:
            db.create_session("s", "cli")
            assert db.provider.name == "mysql"

    def test_a_server_by_url(
        self, configure: Callable[[str], None], postgresql: Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("DSN", postgresql_url(postgresql))
        configure(
            "sessiondb:\n  provider: postgresql\n  postgresql: {dsn: '${DSN}', schema: by_dsn}\n"
            "  max_message_bytes: 1KB\n"
        )
        with SessionDB() as db:
            assert db.describe()["schema"] == "by_dsn"
            db.create_session("s", "cli")
            with pytest.raises(InvalidInput, match="over the limit"):
                db.append_message("s", "user", "x" * 2000)

    @pytest.mark.parametrize("kind", ["postgresql", "mysql"])
    def test_what_the_url_says_beside_the_database(
        self,
        configure: Callable[[str], None],
        kind: str,
        postgresql: Server,
        mariadb: Server,
    ) -> None:
        """A URL that commands take is taken here, too."""
        url = f"{postgresql_url(postgresql)}?schema=by_query&max_connections=3"
        if kind == "mysql":
            url = f"mysql://root@127.0.0.1:{mariadb.port}/by_query?max_connections=3"
        configure(
            f"sessiondb: {{provider: {kind}, {kind}: {{dsn: '{url}', lock_timeout: 5}}}}",
        )
        with mysql_store(mariadb, "by_query"), SessionDB() as db:
            facts = db.describe()
        assert facts["max_connections"] == 3
        assert facts.get("schema", "by_query") == "by_query"

    def test_a_server_by_parts(self, configure: Callable[[str], None], postgresql: Server) -> None:
        configure(
            f"sessiondb:\n  provider: postgresql\n  postgresql:\n    host: 127.0.0.1\n"
            f"    port: {postgresql.port}\n    user: hermes\n    database: postgres\n"
            f"    password: never asked for\n    schema: by_parts\n"
        )
        with SessionDB() as db:
            facts = db.describe()
        assert facts["user"] == "hermes"
        assert "never asked for" not in repr(facts)

    def test_a_path_is_still_a_file(self, configure: Callable[[str], None], tmp_path: Path) -> None:
        configure("sessiondb: {provider: postgresql}")
        with SessionDB(tmp_path / "x.db") as db:
            assert db.provider.name == "sqlite"

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("{provider: postgresql}", "set sessiondb.postgresql.dsn"),
            ("{provider: postgresql, postgresql: {dsn: 'postgresql://[x'}}", "cannot be read"),
            ("{provider: postgres}", "Did you mean postgresql"),
            ("{provider: mysql}", "set sessiondb.mysql.dsn"),
            ("{provider: mysql, mysql: {dsn: mysql://host/a/b}}", "sessiondb.mysql.dsn"),
        ],
    )
    def test_what_is_missing(self, configure: Callable[[str], None], text: str, said: str) -> None:
        configure(f"sessiondb: {text}")
        with pytest.raises(ConfigError, match=said):
            SessionDB()

    def test_never_another_store_instead(
        self, configure: Callable[[str], None], tmp_path: Path
    ) -> None:
        configure(
            f"sessiondb: {{provider: postgresql, "
            f"postgresql: {{dsn: 'postgresql://127.0.0.1:{free_port()}/x'}}}}"
        )
        with pytest.raises(StoreUnreachable):
            SessionDB()
        assert [path.name for path in tmp_path.iterdir()] == ["config.yaml"]


class Elsewhere(SQLiteSessionDBProvider):
    """A database that another package brings."""

    name = "elsewhere"

    @classmethod
    def from_url(cls, url: str, *_args: Any) -> Elsewhere:
        return cls(url.removeprefix("elsewhere://"))

    @classmethod
    def from_settings(cls, *args: Any) -> SessionDBProvider:
        return super(SQLiteSessionDBProvider, cls).from_settings(*args)


class TestOtherPackages:
    @pytest.fixture(autouse=True)
    def installed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        points = [
            importlib.metadata.EntryPoint(name, value, "hermes_sessions.providers")
            for name, value in {
                "elsewhere": f"{__name__}:Elsewhere",
                "nonsense": "json:dumps",
            }.items()
        ]
        found = importlib.metadata.EntryPoints(points)
        monkeypatch.setattr(importlib.metadata, "entry_points", lambda **_: found)
        monkeypatch.setitem(
            __import__("sys").modules, __name__, __import__("sys").modules[__name__]
        )

    def test_by_url(self, tmp_path: Path) -> None:
        with SessionDB.from_url(f"elsewhere://{tmp_path}/x.db") as db:
            assert db.provider.name == "elsewhere"

    def test_by_name(self, configure: Callable[[str], None], tmp_path: Path) -> None:
        configure(f"sessiondb: {{provider: elsewhere, dsn: 'elsewhere://{tmp_path}/y.db'}}")
        with SessionDB() as db:
            assert db.provider.name == "elsewhere"

    def test_a_name_without_a_place(self, configure: Callable[[str], None]) -> None:
        configure("sessiondb: {provider: elsewhere}")
        with pytest.raises(ConfigError, match=r"set sessiondb\.dsn"):
            SessionDB()

    def test_something_else(self) -> None:
        with pytest.raises(InvalidInput, match="not a SessionDBProvider"):
            SessionDB.from_url("nonsense://x")


def test_a_missing_driver_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_name: str) -> object:
        raise ModuleNotFoundError("No module named 'psycopg'", name="psycopg")

    monkeypatch.setattr(provider_registry, "import_module", fail)
    with pytest.raises(InvalidInput, match=r"pip install 'hermes-sessions\[postgresql\]'"):
        SessionDB.from_url("postgresql://host/db")
