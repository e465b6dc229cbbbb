"""Throwaway database servers, started by the tests from the installed programs.

Each lives in a directory of its own under the tests' temporary directory, listens on a free port of
the loopback address, and does not wait for the disk. A program that is missing is a failure: run
``./test``, which installs it.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_START_SECONDS = 60.0
_PLACES = ("/usr/sbin", "/usr/local/sbin", "/usr/local/bin")


class Server:
    """A running server; `restart` and `kill` are for tests of what happens then."""

    #: What ends it in order, and what ends it at once.
    stopped_by = signal.SIGINT
    killed_by = signal.SIGQUIT

    def __init__(
        self, folder: Path, port: int, command: Sequence[str | Path], user: str | None
    ) -> None:
        self.folder = folder
        self.port = port
        self._command = [str(part) for part in command]
        self._user = user
        self._process: subprocess.Popen[bytes] | None = None
        #: Raises OSError or a driver's error while the server does not answer.
        self.probe: Callable[[], None] = lambda: None

    def start(self) -> None:
        log = (self.folder / "log").open("ab")
        with log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                user=self._user,
                start_new_session=True,
            )
        until = time.monotonic() + _START_SECONDS
        while True:
            try:
                self.probe()
            except Exception as error:  # Whatever a driver raises.
                if self._process.poll() is not None or time.monotonic() > until:
                    raise AssertionError(self._complaint()) from error
                time.sleep(0.02)
            else:
                return

    def _complaint(self) -> str:
        text = (self.folder / "log").read_text(errors="replace")
        return f"{self._command[0]} did not start:\n{text[-4000:]}"

    def stop(self, how: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(how)
            self._process.wait(60)
        self._process = None

    def restart(self, *, at_once: bool = False) -> None:
        self.stop(self.killed_by if at_once else self.stopped_by)
        self.start()

    def destroy(self) -> None:
        self.stop(signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)


def program(name: str, *places: str) -> Path:
    """Find an installed program."""
    found = shutil.which(name)
    candidates = [
        *([found] if found else []),
        *(f"{place}/{name}" for place in (*places, *_PLACES)),
    ]
    for candidate in candidates:
        if os.access(candidate, os.X_OK):
            return Path(candidate).resolve()
    raise AssertionError(f"{name} is not installed. Run ./test, which installs it.")


def postgresql_program(name: str) -> Path:
    """Find a program of the newest installed PostgreSQL."""
    folders = sorted(
        Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: -float(path.parent.name)
    )
    return program(name, *map(str, folders))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def unprivileged_user(*names: str) -> str | None:
    """The user servers run as: they refuse to run as root."""
    if os.geteuid() != 0:
        return None
    for name in (*names, "nobody"):
        try:
            return pwd.getpwnam(name).pw_name
        except KeyError:
            continue
    raise AssertionError("there is no user to run a server as")


def server_folder(prefix: str, user: str | None) -> Path:
    folder = Path(tempfile.mkdtemp(prefix=f"hermes-{prefix}-"))
    if user is not None:
        shutil.chown(folder, user)
    return folder


def run(command: Sequence[str | Path], user: str | None, folder: Path) -> None:
    done = subprocess.run(
        [str(part) for part in command],
        user=user,
        cwd=folder,
        capture_output=True,
        check=False,
        env={**os.environ, "HOME": str(folder), "LC_ALL": "C.UTF-8"},
    )
    assert done.returncode == 0, (done.stdout + done.stderr).decode(errors="replace")


def start_postgresql() -> Server:
    import psycopg

    user = unprivileged_user("postgres")
    folder = server_folder("postgresql", user)
    data = folder / "data"
    initdb = postgresql_program("initdb")
    run(
        [
            *(initdb, "-D", data, "-U", "hermes", "--auth=trust"),
            *("-E", "UTF8", "--locale=C.UTF-8", "--no-sync"),
        ],
        user,
        folder,
    )
    port = free_port()
    settings = {
        "listen_addresses": "127.0.0.1",
        "port": port,
        "unix_socket_directories": folder,
        "fsync": "off",
        "full_page_writes": "off",
        "max_connections": 200,
        "shared_buffers": "64MB",
    }
    command: list[str | Path] = [postgresql_program("postgres"), "-D", data]
    for name, value in settings.items():
        command += ["-c", f"{name}={value}"]
    server = Server(folder, port, command, user)
    server.probe = lambda: psycopg.connect(postgresql_url(server), connect_timeout=5).close()
    server.start()
    return server


def postgresql_url(server: Server, database: str = "postgres", user: str = "hermes") -> str:
    return f"postgresql://{user}@127.0.0.1:{server.port}/{database}"


def start_pgbouncer(behind: Server, **settings: str) -> Server:
    """A pooler in transaction mode before a PostgreSQL server."""
    import psycopg

    user = unprivileged_user("postgres")
    folder = server_folder("pgbouncer", user)
    port = free_port()
    users = folder / "users.txt"
    users.write_text('"hermes" ""\n')
    chosen = {
        "listen_addr": "127.0.0.1",
        "listen_port": str(port),
        "unix_socket_dir": "",
        "auth_type": "trust",
        "auth_file": str(users),
        "pool_mode": "transaction",
        "default_pool_size": "3",
        "max_client_conn": "100",
    } | settings
    lines = [f"{name} = {value}" for name, value in chosen.items()]
    config = folder / "pgbouncer.ini"
    config.write_text(
        f"[databases]\n* = host=127.0.0.1 port={behind.port}\n[pgbouncer]\n"
        + "\n".join(lines)
        + "\n"
    )
    server = Server(folder, port, [program("pgbouncer"), config], user)
    server.probe = lambda: psycopg.connect(postgresql_url(server), connect_timeout=5).close()
    server.start()
    return server


def start_mariadb(*settings: str) -> Server:
    import pymysql

    user = unprivileged_user("mysql")
    folder = server_folder("mariadb", user)
    data = folder / "data"
    mariadbd = program("mariadbd")
    run(
        [
            *(program("mariadb-install-db"), "--no-defaults", f"--datadir={data}"),
            *("--skip-test-db", "--auth-root-authentication-method=normal", "--skip-name-resolve"),
        ],
        user,
        folder,
    )
    port = free_port()
    command = [
        mariadbd,
        "--no-defaults",
        f"--datadir={data}",
        f"--socket={folder / 'socket'}",
        f"--pid-file={folder / 'pid'}",
        f"--port={port}",
        "--bind-address=127.0.0.1",
        "--skip-name-resolve",
        "--innodb-flush-log-at-trx-commit=0",
        "--innodb-flush-method=nosync",
        "--innodb-buffer-pool-size=128M",
        "--innodb-log-file-size=64M",
        "--max-connections=200",
        *settings,
    ]
    server = Server(folder, port, command, user)
    server.stopped_by, server.killed_by = signal.SIGTERM, signal.SIGKILL
    server.probe = lambda: pymysql.connect(host="127.0.0.1", port=port, user="root").close()
    server.start()
    return server


def mysql_url(server: Server, database: str = "") -> str:
    return f"mysql://root@127.0.0.1:{server.port}/{database}"


@contextmanager
def mysql_connection(server: Server, database: str | None = None) -> Iterator[Any]:
    import pymysql

    connection = pymysql.connect(
        host="127.0.0.1", port=server.port, user="root", database=database, autocommit=True
    )
    try:
        yield connection
    finally:
        connection.close()
