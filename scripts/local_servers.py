"""Database servers of their own for tests and benchmarks, started from the installed programs.

Each lives in a directory of its own, listens on a free port of the loopback address, and is gone
with its directory. What it promises about the disk is the caller's to say. Needs nothing but the
standard library.
"""

from __future__ import annotations

import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType

_START_SECONDS = 180.0
#: Below the ephemeral ports of Linux, macOS and Windows.
_PORTS = (10_000, 32_000)
_PLACES = ("/usr/sbin", "/usr/local/sbin", "/usr/local/bin")
#: The only user of a PostgreSQL server made here; it needs no password.
POSTGRESQL_USER = "hermes"


class ServerFailed(RuntimeError):
    """A program is missing, or a server did not start; the text says why."""


class Server:
    """A server that can be started, stopped and killed as often as one likes."""

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
        self._frozen: list[int] = []
        #: Raises anything at all while the server does not answer.
        self.probe: Callable[[], None] = lambda: None

    def start(self, *options: str) -> None:
        """Return when the server answers; *options* are given to it this time only.

        Raises:
            ServerFailed: it does not; with its log.
        """
        log = (self.folder / "log").open("ab")
        with log:
            self._process = subprocess.Popen(
                [*self._command, *options],
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
                    raise ServerFailed(self._complaint()) from error
                time.sleep(0.02)
            else:
                return

    def _complaint(self) -> str:
        text = (self.folder / "log").read_text(errors="replace")
        return f"{self._command[0]} did not start:\n{text[-4000:]}"

    def stop(self, how: signal.Signals) -> None:
        """Send a signal and wait for the end."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(how)
            self._process.wait(60)
        self._process = None
        # Those that work for it end when they find that it is gone, which they cannot do frozen.
        for number in self._frozen:
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGCONT)
        self._frozen = []

    def freeze(self) -> None:
        """Let it take calls, and never say a word, until it is thawed."""
        # A thread that runs on another core is stopped a moment after the signal was sent.
        while any(map(_runs, stopped := self._signal_all(signal.SIGSTOP))):
            time.sleep(0.001)
        self._frozen = stopped

    def thaw(self) -> None:
        """Let it continue."""
        self._signal_all(signal.SIGCONT)
        self._frozen = []

    def _signal_all(self, what: signal.Signals) -> list[int]:
        """Send a signal to the server, then to the processes that work for it; return them."""
        if self._process is None:
            return []
        number = self._process.pid
        self._process.send_signal(what)
        children = Path(f"/proc/{number}/task/{number}/children").read_text()
        for child in map(int, children.split()):
            with suppress(ProcessLookupError):
                os.kill(child, what)
        return [number, *map(int, children.split())]

    def restart(self, *, at_once: bool = False) -> None:
        """Stop and start it again; *at_once* does not let it finish anything."""
        self.stop(self.killed_by if at_once else self.stopped_by)
        self.start()

    def destroy(self) -> None:
        """Kill it and remove all it stored."""
        self.stop(signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)


def _runs(number: int) -> bool:
    """Whether some thread of a process is not stopped."""
    try:
        stats = [path.read_text() for path in Path(f"/proc/{number}/task").glob("*/stat")]
    except OSError:
        return Path(f"/proc/{number}").exists()
    # The name before it may hold anything, a bracket included. Z and X: it has ended.
    return any(stat.rpartition(") ")[2][0] not in "tTZX" for stat in stats)


def program(name: str) -> Path:
    """Find an installed program; raises `ServerFailed` if there is none."""
    found = shutil.which(name)
    candidates = [
        *([found] if found else []),
        *(f"{place}/{name}" for place in _PLACES),
    ]
    for candidate in candidates:
        if os.access(candidate, os.X_OK):
            return Path(candidate).resolve()
    raise ServerFailed(f"{name} is not installed. Run ./test, which installs it.")


def postgresql_program(name: str) -> Path:
    """Find a program of the newest installed PostgreSQL."""
    folders = sorted(
        Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: -float(path.parent.name)
    )
    # On Debian, what is on PATH only looks for the real one by its own name.
    for folder in folders:
        if os.access(folder / name, os.X_OK):
            return folder / name
    return program(name)


def free_port() -> int:
    """Return a port that no process listens on now.

    It is not an ephemeral port: else the system may give it to another process
    before it is used here, or while a server is being restarted.
    """
    chance = random.SystemRandom()  # Not seeded by tests: processes must differ.
    while True:
        port = chance.randrange(*_PORTS)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def unprivileged_user(*names: str) -> str | None:
    """The user servers run as: they refuse to run as root."""
    if os.geteuid() != 0:
        return None
    for name in (*names, "nobody"):
        try:
            return pwd.getpwnam(name).pw_name
        except KeyError:
            continue
    raise ServerFailed("there is no user to run a server as")


def server_folder(prefix: str, user: str | None, parent: Path | None = None) -> Path:
    """Make a directory for a server, in the temporary directory or in *parent*."""
    folder = Path(tempfile.mkdtemp(prefix=f"hermes-{prefix}-", dir=parent))
    if user is not None:
        shutil.chown(folder, user)
    return folder


def run(command: Sequence[str | Path], user: str | None, folder: Path) -> None:
    """Run a program to its end; raises `ServerFailed` with what it said if it fails."""
    done = subprocess.run(
        [str(part) for part in command],
        user=user,
        cwd=folder,
        capture_output=True,
        check=False,
        env={**os.environ, "HOME": str(folder), "TMPDIR": str(folder), "LC_ALL": "C.UTF-8"},
    )
    if done.returncode != 0:
        raise ServerFailed((done.stdout + done.stderr).decode(errors="replace"))


def make_postgresql(
    settings: Mapping[str, object] = MappingProxyType({}), parent: Path | None = None
) -> Server:
    """Return a new PostgreSQL server, not yet started."""
    user = unprivileged_user("postgres")
    folder = server_folder("postgresql", user, parent)
    data = folder / "data"
    run(
        [
            *(postgresql_program("initdb"), "-D", data, "-U", POSTGRESQL_USER, "--auth=trust"),
            *("-E", "UTF8", "--locale=C.UTF-8", "--no-sync"),
        ],
        user,
        folder,
    )
    return _postgresql(folder, settings, user)


def _postgresql(folder: Path, settings: Mapping[str, object], user: str | None) -> Server:
    port = free_port()
    all_settings = {
        "listen_addresses": "127.0.0.1",
        "port": port,
        "unix_socket_directories": folder,
        # In its own directory, so that one that is killed leaves nothing behind in the system.
        "dynamic_shared_memory_type": "mmap",
        **settings,
    }
    command: list[str | Path] = [postgresql_program("postgres"), "-D", folder / "data"]
    for name, value in all_settings.items():
        command += ["-c", f"{name}={value}"]
    return Server(folder, port, command, user)


def make_postgresql_standby(
    primary: Server,
    settings: Mapping[str, object] = MappingProxyType({}),
    parent: Path | None = None,
) -> Server:
    """Return a new standby of a running PostgreSQL server, called ``standby``, not yet started."""
    user = unprivileged_user("postgres")
    folder = server_folder("postgresql", user, parent)
    source = f"host=127.0.0.1 port={primary.port} user={POSTGRESQL_USER} application_name=standby"
    run(
        [
            *(postgresql_program("pg_basebackup"), "-d", source, "-D", folder / "data"),
            *("--write-recovery-conf", "--checkpoint=fast", "--no-sync"),
        ],
        user,
        folder,
    )
    return _postgresql(folder, {"primary_conninfo": source, **settings}, user)


def _on_a_disk() -> Path | None:
    """Return a directory for temporary files that is not in shared memory; None: the usual one is.

    In shared memory MariaDB maps its log instead of writing it, and a server that is killed then
    may lose rows that it had acknowledged, with any client.
    """
    usual = Path(tempfile.gettempdir()).resolve()
    return Path("/var/tmp") if usual.is_relative_to("/dev/shm") else None  # noqa: S108


def make_mariadb(settings: Sequence[str] = (), parent: Path | None = None) -> Server:
    """Return a new MariaDB server, not yet started; root needs no password."""
    user = unprivileged_user("mysql")
    folder = server_folder("mariadb", user, parent or _on_a_disk())
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
    command: list[str | Path] = [
        mariadbd,
        "--no-defaults",
        f"--datadir={data}",
        f"--socket={folder / 'socket'}",
        f"--pid-file={folder / 'pid'}",
        # A server that starts removes all temporary tables there, also those of other servers.
        f"--tmpdir={folder}",
        f"--port={port}",
        "--bind-address=127.0.0.1",
        "--skip-name-resolve",
        *settings,
    ]
    server = Server(folder, port, command, user)
    server.stopped_by, server.killed_by = signal.SIGTERM, signal.SIGKILL
    return server
