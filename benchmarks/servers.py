"""Database servers of a run's own, with the durability they have by default.

A store on a server is handed to a worker as a small file that holds its URL.
"""

from __future__ import annotations

import re
import stat
import subprocess
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from benchmarks.opponents.base import ServerKind
from scripts.local_servers import (
    POSTGRESQL_USER,
    Server,
    ServerFailed,
    make_mariadb,
    make_postgresql,
    postgresql_program,
    program,
    unprivileged_user,
)

#: Where servers live when their user cannot reach the cache: as a rule, the same disk.
ELSEWHERE = Path("/var/tmp")


@dataclass
class DatabaseServer:
    """A running server and the databases in it."""

    kind: ServerKind
    server: Server
    _numbers: count[int] = field(default_factory=lambda: count(1))

    def create(self, copy_of: str | None = None) -> str:
        """Make a database, empty or a copy of one that is not in use, and return its URL.

        Raises :class:`ServerFailed` on a server that cannot copy.
        """
        name = f"run_{next(self._numbers)}"
        if copy_of is None:
            self._execute(f"CREATE DATABASE {name}")
        elif self.kind == "postgresql":
            self._execute(f"CREATE DATABASE {name} TEMPLATE {_database(copy_of)}")
            self._execute("CHECKPOINT")
        else:
            raise ServerFailed("MariaDB has no way to copy a database")
        user = POSTGRESQL_USER if self.kind == "postgresql" else "root"
        return f"{self.kind}://{user}@127.0.0.1:{self.server.port}/{name}"

    def drop(self, url: str) -> None:
        """Remove a database with all that is in it."""
        force = " WITH (FORCE)" if self.kind == "postgresql" else ""
        self._execute(f"DROP DATABASE {_database(url)}{force}")

    def probe(self) -> None:
        """Raise :class:`ServerFailed` while the server does not answer."""
        self._execute("SELECT 1")

    def _execute(self, sql: str) -> None:
        port = str(self.server.port)
        command: list[str | Path]
        if self.kind == "postgresql":
            client = postgresql_program("psql")
            login = ["-X", "-h", "127.0.0.1", "-p", port, "-U", POSTGRESQL_USER, "-d", "postgres"]
            command = [client, *login, "-c", sql]
        else:
            login = ["--no-defaults", "-h", "127.0.0.1", "-P", port, "-u", "root"]
            command = [program("mariadb"), *login, "-e", sql]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise ServerFailed(f"{sql}: {done.stderr.strip()}")


def _database(url: str) -> str:
    return url.rpartition("/")[2]


@dataclass
class Servers:
    """The servers of one run, each started when it is first asked for."""

    directory: Path
    _running: dict[ServerKind, DatabaseServer] = field(default_factory=dict)

    def get(self, kind: ServerKind) -> DatabaseServer:
        """The running server of this kind; raises :class:`ServerFailed` if it does not start."""
        if kind not in self._running:
            parent = _reachable(self.directory)
            make = make_postgresql if kind == "postgresql" else make_mariadb
            server = make(parent=parent)
            started = DatabaseServer(kind, server)
            server.probe = started.probe
            try:
                server.start()
            except BaseException:
                server.destroy()
                raise
            self._running[kind] = started
        return self._running[kind]

    def stop(self) -> None:
        """End all of them and remove what they stored."""
        while self._running:
            self._running.popitem()[1].server.destroy()


def version(kind: ServerKind) -> str | None:
    """The version of the installed server; None when it, or its client, is not installed."""
    try:
        if kind == "postgresql":
            postgresql_program("psql")
            server = postgresql_program("postgres")
        else:
            program("mariadb")
            program("mariadb-install-db")
            server = program("mariadbd")
    except ServerFailed:
        return None
    said = subprocess.run([server, "--version"], capture_output=True, text=True, check=False)
    found = re.search(r"\d+\.[\d.]+", said.stdout)
    return found[0] if found else None


def _reachable(directory: Path) -> Path:
    """The directory, or another if the user that servers run as cannot get there."""
    if unprivileged_user() is None:
        return directory
    closed = [
        place
        for place in (directory, *directory.resolve().parents)
        if not place.stat().st_mode & stat.S_IXOTH
    ]
    return ELSEWHERE if closed else directory
