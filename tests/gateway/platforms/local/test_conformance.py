"""The conformance kit of platforms on the local socket.

Clients are programs of the user who runs the gateway. So nobody is a robot, blocks it, or limits
how often it speaks; and a chat in which nobody is may be one to which somebody comes back.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from hermes_sessions.gateway.platforms.local.adapter import LocalAdapter
from hermes_sessions.gateway.platforms.local.settings import LocalSettings
from hermes_sessions_testing.platforms import (
    Shown,
    TestConnecting,
    TestMapping,
    TestReceiving,
    TestSending,
)
from tests.gateway.platforms.redelivering_client import PATIENCE, PendingMessage, RedeliveringClient

__all__ = ["TestConnecting", "TestReceiving"]


class TestMappingOfLines(TestMapping):
    test_programs_are_not_listened_to = None  # type: ignore[assignment] - all are


class TestSendingLines(TestSending):
    test_one_message_too_many = None  # type: ignore[assignment] - there is no limit
    test_a_chat_that_is_closed = None  # type: ignore[assignment] - none is
    test_a_chat_that_does_not_exist = None  # type: ignore[assignment] - any may
    # Whoever was lost has to come back first: see test_adapter.
    test_a_connection_that_is_lost = None  # type: ignore[assignment]


del TestMapping, TestSending


class Terminal:
    """Somebody's connection: reads in a thread, and says what it has seen."""

    def __init__(self, messenger: LocalMessenger, sender: str) -> None:
        self._messenger = messenger
        self._sender = sender
        self._line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._line.settimeout(PATIENCE)
        self.answers: dict[str, bool] = {}
        self.changed = threading.Condition()
        self.is_gone = False
        try:
            self._line.connect(str(messenger.path))
        except OSError:
            self._line.close()
            raise
        self.send(type="hello", user=sender)
        self._thread = threading.Thread(target=self._read, name="terminal")
        self._thread.start()

    def send(self, **said: object) -> None:
        self._line.sendall(json.dumps(said).encode() + b"\n")

    def _read(self) -> None:
        try:
            with self._line.makefile("rb") as lines:
                for line in lines:
                    if not self._hear(json.loads(line)):
                        break
        except OSError:
            pass
        self._line.close()
        with self.changed:
            self.is_gone = True
            self.changed.notify_all()

    def _hear(self, heard: dict[str, object]) -> bool:
        if heard["type"] in {"receipt", "failed"}:
            with self.changed:
                self.answers[str(heard["id"])] = heard["type"] == "receipt" or not heard["again"]
                self.changed.notify_all()
        if heard["type"] == "message":
            self._messenger.show(self._sender, heard)
            self.send(type="seen", key=heard["key"])
        return True

    def close(self) -> None:
        with suppress(OSError):
            self._line.shutdown(socket.SHUT_RDWR)
        self._thread.join(PATIENCE)


class LocalMessenger(RedeliveringClient):
    """Terminals on this machine."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "local.sock"
        self._folder = folder
        self._terminals: dict[str, Terminal] = {}
        self._shown: dict[str, Shown] = {}
        self._is_cut = False
        super().__init__()

    def make_adapter(self) -> LocalAdapter:
        return LocalAdapter(LocalSettings(socket=self.path))

    def show(self, sender: str, heard: dict[str, object]) -> None:
        key = str(heard["key"])
        self._shown[key] = Shown(f"{sender}/main", key, str(heard["text"]))

    def shown(self) -> list[Shown]:
        return list(self._shown.values())

    def _terminal(self, sender: str) -> Terminal:
        terminal = self._terminals.get(sender)
        if terminal is None or terminal.is_gone:
            if terminal is not None:
                terminal.close()
            terminal = self._terminals[sender] = Terminal(self, sender)
        return terminal

    def bring(self, letter: PendingMessage) -> bool:
        if self._is_cut:
            self._is_cut = False
            for terminal in self._terminals.values():
                terminal.close()
        try:
            terminal = self._terminal(letter.sender)
            terminal.answers.pop(letter.id, None)
            terminal.send(type="message", id=letter.id, text=letter.text)
        except OSError:
            return False
        with terminal.changed:
            terminal.changed.wait_for(lambda: letter.id in terminal.answers or terminal.is_gone)
            return terminal.answers.get(letter.id, False)

    def bring_unreadable(self) -> None:
        for line in (
            b"\n",
            b"{\n",
            b"[]\n",
            b"\xff\n",
            b'{"type": 5}\n',
            b'{"type": "message", "id": "x", "text": "no hello"}\n',
            b'{"type": "hello", "chat": "../x"}\n',
            b'{"type": "hello"}\n{"type": "message", "id": "x"}\n',
            b'{"type": "hello"}\n{"type": "message", "id": "x", "text": 5}\n',
            b'{"type": "hello"}\n{"type": "message", "id": "a/b", "text": "x"}\n',
            b'{"type": "hello"}\n{"type": "unheard of"}\n',
            b"x" * 3_000_000 + b"\n",
            b'{"type": "hel',
        ):
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as terminal:
                terminal.settimeout(PATIENCE)
                terminal.connect(str(self.path))
                try:
                    terminal.sendall(line)
                    terminal.shutdown(socket.SHUT_WR)
                    while terminal.recv(65536):
                        pass
                except OSError:
                    pass

    def refuse_logins(self) -> None:
        self.path.write_text("not a socket", encoding="utf-8")

    def lose_connections(self) -> None:
        self._is_cut = True

    def close(self) -> None:
        super().close()
        for terminal in self._terminals.values():
            terminal.close()


@pytest.fixture
def messenger(tmp_path: Path) -> Iterator[LocalMessenger]:
    messenger = LocalMessenger(tmp_path)
    yield messenger
    messenger.close()
