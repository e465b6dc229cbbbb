"""The fake Signal daemon, driven by the platform kit."""

import asyncio
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hermes_sessions.gateway.platforms.signal.adapter import SignalAdapter
from hermes_sessions.gateway.platforms.signal.journal import Journal
from hermes_sessions.gateway.platforms.signal.spec import SPEC
from hermes_sessions_testing.fake_servers.signal.daemon import (
    ACCOUNT,
    ACCOUNT_UUID,
    ANNA,
    BERT,
    GROUP,
    Person,
    Refusal,
    SignalDaemon,
    envelope,
    too_many,
)
from hermes_sessions_testing.platforms import MessengerServer, Room, Sender, Shown
from tests.gateway.platforms.settings_reader import read

PEOPLE = {"anna": ANNA, "bert": BERT}
OWN = Person(ACCOUNT_UUID, "Hermes", ACCOUNT)


async def at_once(_seconds: float) -> None:
    """Wait without waiting, and let others go on."""
    await asyncio.sleep(0)


class FakeSignal(MessengerServer):
    """A daemon for several accounts, by TCP."""

    rooms: tuple[Room, ...] = ("private", "group")

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.home = Path(self._folder.name)
        self.daemon = self.make_daemon()
        self._messages: dict[str, dict[str, Any]] = {}

    def make_daemon(self) -> SignalDaemon:
        return SignalDaemon()

    @property
    def journal_path(self) -> Path:
        return self.home / "received.jsonl"

    def make_adapter(self, **changes: Any) -> SignalAdapter:
        values = {"account": ACCOUNT, "address": self.daemon.address} | changes
        settings = read(SPEC, None, values, self.home)
        return SignalAdapter(settings, journal=Journal(self.journal_path), sleep=at_once)

    def write(self, text: str, *, sender: Sender = "anna", room: Room = "private") -> str:
        if sender == "robot":
            # There are no programs on Signal; what the account writes elsewhere comes back.
            timestamp = self.daemon.tick()
            sent = {"destinationNumber": ANNA.number, "timestamp": timestamp, "message": text}
            own = envelope(OWN, timestamp, syncMessage={"sentMessage": sent})
            self.daemon.push(own, envelope(OWN, timestamp, dataMessage=sent))
            return str(timestamp)
        user = PEOPLE[sender]
        is_group = room == "group"
        timestamp = self.daemon.write(
            text, user=user, group=GROUP if is_group else None, is_addressed=is_group
        )
        self._messages[str(timestamp)] = {"text": text, "user": user}
        return str(timestamp)

    def deliver_again(self, message_id: str) -> None:
        message = self._messages[message_id]
        data = {"timestamp": int(message_id), "message": message["text"]}
        self.daemon.push(envelope(message["user"], int(message_id), dataMessage=data))

    def deliver_unreadable(self) -> None:
        now = self.daemon.tick()
        fine = {"timestamp": now, "message": "x"}
        self.daemon.wait_for(lambda: self.daemon.subscribers)
        for line in (
            b"",
            b"{nonsense",
            b"[]",
            b"5",
            b"\xff\xfe",
            b"{}",
            b'{"jsonrpc":"2.0","id":"nobody","result":{}}',
            b'{"jsonrpc":"2.0","id":true,"error":7}',
            b'{"jsonrpc":"2.0","method":"receive"}',
            b'{"jsonrpc":"2.0","method":"receive","params":[]}',
            b'{"jsonrpc":"2.0","method":"receive","params":{"subscription":0,"result":5}}',
            b'{"jsonrpc":"2.0","method":"unheardOf","params":{}}',
            b"[" * 100_000,
            b'{"jsonrpc":"2.0","method":"receive","params":"' + b"x" * 5_000_000 + b'"}',
        ):
            self.daemon.babble(line + b"\n")
        self.daemon.push(
            {},
            {"dataMessage": 5},
            envelope(ANNA, now, dataMessage={"message": 5}),
            envelope(ANNA, now, dataMessage=fine | {"timestamp": "x"}),
            envelope(ANNA, now, dataMessage=fine | {"message": "x" * 900_000}),
            envelope(ANNA, now, dataMessage=fine | {"attachments": [{}]}),
            envelope(ANNA, now, dataMessage=fine | {"attachments": [{"id": "../../x"}]}),
            envelope(ANNA, now, dataMessage=fine | {"message": "/x", "groupInfo": {}}),
            envelope(Person("", ""), now, dataMessage=fine),
            envelope(ANNA, now, unheardOf={}),
        )

    def block(self, chat_id: str) -> None:
        self.daemon.block(chat_id)

    def refuse_logins(self) -> None:
        self.daemon.accounts = ["+15550199"]

    def limit_rate(self, seconds: float) -> None:
        self.daemon.fail("send", too_many(int(seconds)))

    def lose_connections(self) -> None:
        self.daemon.cut("listAccounts")
        self.daemon.cut("subscribeReceive")
        self.daemon.drop_connections()

    def lose_next_send(self) -> None:
        self.daemon.cut("send")

    def shown(self) -> list[Shown]:
        return [
            Shown(sent.chat_id, str(sent.timestamp), sent.text) for sent in list(self.daemon.sent)
        ]

    def is_confirmed(self, message_id: str) -> bool:
        """signal-cli has no confirmation: what would come again after a crash is not confirmed."""
        return int(message_id) not in self.daemon.waiting and message_id not in self.journal()

    def has_unconfirmed(self) -> bool:
        return bool(self.daemon.waiting or self.journal())

    def journal(self) -> str:
        return self.journal_path.read_text() if self.journal_path.exists() else ""

    def wait_until(self, condition: Callable[[], Any]) -> None:
        self.daemon.wait_for(condition)

    def close(self) -> None:
        self.daemon.close()
        self._folder.cleanup()


class FakeSignalSocket(FakeSignal):
    """A daemon for one account, by a socket."""

    def make_daemon(self) -> SignalDaemon:
        return SignalDaemon(path=self.home / "signal.sock", is_multi_account=False)

    def refuse_logins(self) -> None:
        # What such a daemon does not know, it says when it is asked for messages.
        refusal = Refusal(-32602, "Specified account does not exist")
        self.daemon.fail("subscribeReceive", refusal)
