"""Run files: which gateways run in a home, and a socket to query each, without the database.

A gateway writes ``gateway/run/<pid>-<instance>.json`` in its home when it starts, keeps it locked
while it lives, and listens on the socket that the file names: each client receives one JSON object,
and nothing is read from it. A separate thread answers, even while the event loop and all other
threads wait for a frozen database. The file of a killed gateway names a dead process and is not
locked; the next gateway removes it.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from hermes_sessions.storage.host_processes import host_name, identify_process, new_process_id
from hermes_sessions.storage.logs import Logger
from hermes_sessions.storage.repositories.processes import Process

logger = Logger(__name__)

#: Longer paths cannot be socket addresses; the limit is 104 bytes on macOS, 108 on Linux.
_LONGEST_ADDRESS: Final = 100
#: An answer fits into the buffer of a socket, so that a slow client does not block others.
_ANSWER_BYTES: Final = 64 * 1024
_SEND_SECONDS: Final = 0.1


class LocalGateway(NamedTuple):
    """A gateway of this home and host, from its run file."""

    process: Process
    #: Changes with a restart in which the process stays the same.
    instance: str
    address: str

    def ask(self, seconds: float) -> dict[str, Any] | None:
        """Return its status; None if it does not answer within this many seconds."""
        until = time.monotonic() + seconds
        received = b""
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
                line.settimeout(seconds)
                line.connect(self.address)
                while len(received) <= _ANSWER_BYTES and (left := until - time.monotonic()) > 0:
                    line.settimeout(left)
                    if not (piece := line.recv(_ANSWER_BYTES)):
                        answer = json.loads(received)
                        return answer if isinstance(answer, dict) else None
                    received += piece
        except (OSError, ValueError):
            pass
        return None


def local_gateways(home: Path, namespace: str) -> list[LocalGateway]:
    """Return the gateways of a bot that run in a home on this host."""
    found = (_read(path) for path in sorted(_run_directory(home).glob("*.json")))
    return [
        each
        for each in found
        if each is not None
        and each.process.namespace == namespace
        and each.process.host == host_name()
        and identify_process(each.process) == "it"
    ]


class RunFile:
    """A context manager: the run file of this process, and the thread that answers.

    If the file cannot be written, the gateway runs without it and logs a warning.
    """

    def __init__(self, home: Path, namespace: str, version: str) -> None:
        self._directory = _run_directory(home)
        self._instance = secrets.token_hex(8)
        self._path = self._directory / f"{os.getpid()}-{self._instance}.json"
        self._process = Process(
            new_process_id(os.getpid()),
            namespace,
            "gateway",
            host_name(),
            os.getpid(),
            version,
            time.time(),
            time.time(),
        )
        self._descriptor: int | None = None
        self._listener: socket.socket | None = None
        self._address = self._path.with_suffix(".sock")
        #: Returns the status besides the identity; must not wait for anything.
        self.look: Callable[[], Mapping[str, object]] = lambda: {"state": "starting"}

    def __enter__(self) -> Self:
        from hermes_sessions.storage.spool_file import make_private

        try:
            make_private(self._directory)
            _remove_stale(self._directory)
            self._listen()
            self._write()
        except OSError as error:
            logger.warning(
                "no run file in %s, so status, stop and restart need the database: %s",
                self._directory,
                error,
            )
            self.remove()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.remove()

    def _listen(self) -> None:
        if len(os.fsencode(self._address)) > _LONGEST_ADDRESS:
            self._address = Path(tempfile.mkdtemp(prefix="hermes-"), "sock")
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(os.fspath(self._address))
        # Before it listens, so that no client can connect earlier.
        self._address.chmod(0o600)
        self._listener.listen()
        self._answering = threading.Thread(
            target=self._answer_all, args=(self._listener,), daemon=True
        )
        self._answering.start()

    def _answer_all(self, listener: socket.socket) -> None:
        while self._listener is listener:
            try:
                client, _ = listener.accept()
            except OSError:
                if self._listener is not listener:
                    return  # the socket was closed
                # Out of file descriptors, perhaps only for now.
                time.sleep(_SEND_SECONDS)
                continue
            # The client left before the answer.
            with client, suppress(OSError):
                client.settimeout(_SEND_SECONDS)
                client.sendall(self._answer())

    def _answer(self) -> bytes:
        known = {"pid": self._process.pid, "instance": self._instance, **self.look()}
        answer = json.dumps(known).encode()
        return answer if len(answer) <= _ANSWER_BYTES else b"{}"

    def _write(self) -> None:
        import fcntl  # missing on some systems on which `local_gateways` is called

        values = {
            "process": self._process._asdict(),
            "instance": self._instance,
            "socket": os.fspath(self._address),
        }
        coming = self._path.with_suffix(".coming")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._descriptor = os.open(coming, flags, 0o600)
        # Lock it before it gets its name: otherwise it could be removed as stale.
        fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.write(self._descriptor, json.dumps(values).encode())
        coming.rename(self._path)

    def remove(self) -> None:
        """Remove the file and stop answering."""
        listener, self._listener = self._listener, None
        if listener is not None:
            with suppress(OSError):
                # Wakes the thread in accept().
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
            # A thread that runs while the interpreter exits may abort the process.
            self._answering.join(_SEND_SECONDS * 2)
        _remove_files(self._path, self._address)
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def _run_directory(home: Path) -> Path:
    return home / "gateway" / "run"


def _read(path: Path) -> LocalGateway | None:
    """Return the gateway of a run file; None if the file is not valid or is gone."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        return LocalGateway(Process(**values["process"]), values["instance"], values["socket"])
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _remove_stale(directory: Path) -> None:
    """Remove the files of killed gateways, which are not locked."""
    import fcntl

    for path in directory.glob("*.json"):
        # Its gateway is alive, or the file is gone.
        with suppress(OSError):
            descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                stale = _read(path)
                _remove_files(path, Path(stale.address) if stale else path.with_suffix(".sock"))
            finally:
                os.close(descriptor)


def _remove_files(path: Path, address: Path) -> None:
    with suppress(OSError):
        path.unlink(missing_ok=True)
        path.with_suffix(".coming").unlink(missing_ok=True)
        # Remove only sockets, whatever path the file contains.
        if address.is_socket():
            address.unlink()
            if address.parent != path.parent:
                address.parent.rmdir()
