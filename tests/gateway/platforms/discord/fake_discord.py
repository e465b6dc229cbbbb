"""The fake Discord server, driven by the platform kit."""

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

from hermes_sessions.gateway.platforms.discord.adapter import DiscordAdapter
from hermes_sessions.gateway.platforms.discord.settings import DiscordSettings
from hermes_sessions_testing.fake_servers.discord.server import (
    ANNA,
    BERT,
    BOT,
    GENERAL,
    ROBOT,
    THREAD,
    TOKEN,
    DiscordServer,
    too_many,
)
from hermes_sessions_testing.platforms import MessengerServer, Room, Sender, Shown

SENDERS = {"anna": ANNA, "bert": BERT, "robot": ROBOT}
CHANNELS = {"private": None, "group": GENERAL, "topic": THREAD}
WRONG_TOKEN = "MTAwMDAwMDAwMDAwMDAwMDAx.Gxxxxx.wrong-wrong-wrong-wrong-wrong-wrong"


async def at_once(_seconds: float) -> None:
    """Wait without waiting, and let others go on."""
    await asyncio.sleep(0)


class FakeDiscord(MessengerServer):
    """One bot on Discord."""

    def __init__(self) -> None:
        self.server = DiscordServer()
        #: By the ids of messages: their channels.
        self._written: dict[str, str] = {}

    def settings(self, **changes: Any) -> DiscordSettings:
        values: dict[str, Any] = {"token": TOKEN, "base_url": self.server.base_url}
        return DiscordSettings(**(values | changes))

    def make_adapter(
        self, *, needs_roles: bool = False, people: Sequence[str] = (), **changes: Any
    ) -> DiscordAdapter:
        return DiscordAdapter(
            self.settings(**changes),
            commands=frozenset({"new", "status"}),
            needs_roles=needs_roles,
            people=people,
            sleep=at_once,
        )

    def write(self, text: str, *, sender: Sender = "anna", room: Room = "private") -> str:
        user = SENDERS[sender]
        channel = CHANNELS[room] or self.server.state.direct_channel(user)
        message_id = self.server.write(
            text, user=user, channel=channel, is_addressed=room != "private"
        )
        self._written[message_id] = channel
        return message_id

    def deliver_again(self, message_id: str) -> None:
        self.server.tell_again(self._written[message_id], message_id)

    def deliver_unreadable(self) -> None:
        private = self.server.state.direct_channel(ANNA)
        fine = {"id": "9", "type": 0, "channel_id": private, "author": ANNA, "content": "x"}
        for broken in (
            None,
            5,
            [],
            {},
            {"id": "x", "channel_id": private},
            fine | {"channel_id": 5},
            fine | {"guild_id": ["x"]},
            fine | {"author": None},
            fine | {"author": {"id": 5}},
            fine | {"content": 5},
            fine | {"content": "x" * 900_000},
            fine | {"attachments": [{}]},
            fine | {"attachments": "x"},
            fine | {"mentions": 5, "guild_id": "2000000000000000001", "channel_id": GENERAL},
        ):
            self.server.tell("MESSAGE_CREATE", broken)
        self.server.tell("GUILD_CREATE", {"id": [], "channels": 5, "threads": [None], "roles": {}})
        self.server.tell("CHANNEL_UPDATE", "nonsense")
        self.server.tell("THREAD_LIST_SYNC", {"threads": [5, {"id": 5}, {}]})
        self.server.tell("UNHEARD_OF", {"since": "v99"})
        self.server.babble(
            "",
            "{nonsense",
            "[]",
            "5",
            "null",
            "{}",
            json.dumps({"op": 99, "d": {}}),
            json.dumps({"op": 0, "t": "READY", "d": None, "s": None}),
            "[" * 100_000,
        )

    def block(self, chat_id: str) -> None:
        self.server.block(chat_id)

    def refuse_logins(self) -> None:
        self.server.token = WRONG_TOKEN

    def limit_rate(self, seconds: float) -> None:
        self.server.fail("send", too_many(seconds))

    def lose_connections(self) -> None:
        self.server.cut("connect", times=2)
        self.server.drop()

    def lose_next_send(self) -> None:
        self.server.cut("send")

    def shown(self) -> list[Shown]:
        return [
            Shown(
                GENERAL if sent.channel_id == THREAD else sent.channel_id,
                sent.message_id,
                sent.text,
                THREAD if sent.channel_id == THREAD else None,
            )
            for sent in self.server.sent
        ]

    def mark(self, channel_id: str) -> int:
        """How far a channel was read, as the gateway keeps it."""
        return int(self.states.get(f"discord:{BOT['id']}:read:{channel_id}", "0"))

    def is_confirmed(self, message_id: str) -> bool:
        """Discord has no confirmation: what would be fetched after a crash is not confirmed."""
        return int(message_id) <= self.mark(self._written[message_id])

    def has_unconfirmed(self) -> bool:
        return not all(map(self.is_confirmed, self._written))

    def wait_until(self, condition: Callable[[], Any]) -> None:
        self.server.wait_for(condition)

    def close(self) -> None:
        self.server.close()
