"""The fake Slack server, driven by the platform kit."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Literal

from hermes_sessions.gateway.platforms.slack.adapter import SlackAdapter
from hermes_sessions.gateway.platforms.slack.settings import SlackSettings, SlackWebhookSettings
from hermes_sessions_testing.fake_servers.slack.server import SlackServer
from hermes_sessions_testing.fake_servers.slack.workspace import (
    ANNA,
    BERT,
    BOT_ID,
    GENERAL,
    Person,
    too_many,
)
from hermes_sessions_testing.platforms import MessengerServer, Room, Sender, Shown

Mode = Literal["socket", "events"]

SENDERS = {"anna": ANNA, "bert": BERT, "robot": Person("U0ROBOT", "Robot", ANNA.chat)}
THREAD = "1700000000.000100"
COMMANDS = ("help", "new", "status", "stop")


async def at_once(_seconds: float) -> None:
    """Wait for nothing."""
    await asyncio.sleep(0)


class FakeSlack(MessengerServer):
    """Private chats, channels and threads."""

    def __init__(self, mode: Mode = "socket") -> None:
        self.now = 1_800_000_000.0
        #: How long names are waited for; long, as the machine may be slow.
        self.name_seconds = 60.0
        self.server = SlackServer(mode=mode, clock=lambda: self.now)
        # A mention is of both kinds, and the gateway takes it once; the kit counts what it is
        # offered.
        self.server.subscribed = {"message"}
        self.server.callback = self.url
        self._token = self.server.token
        self._deliveries: dict[str, str] = {}
        self._payloads: dict[str, Mapping[str, Any]] = {}
        self._adapter: SlackAdapter | None = None

    def url(self) -> str:
        port = self._adapter.webhook_port if self._adapter else None
        return f"http://127.0.0.1:{port}/slack/events" if port else ""

    def settings(self, **changes: Any) -> SlackSettings:
        is_socket = self.server.mode == "socket"
        values: dict[str, Any] = {
            "token": self._token,
            "app_token": self.server.app_token if is_socket else None,
            "signing_secret": None if is_socket else self.server.signing_secret,
            "base_url": self.server.base_url,
            "webhook": SlackWebhookSettings(port=0),
        }
        return SlackSettings(**(values | changes))

    def make_adapter(self, **changes: Any) -> SlackAdapter:
        self._adapter = SlackAdapter(
            self.settings(**changes),
            commands=COMMANDS,
            sleep=at_once,
            clock=lambda: self.now,
            name_seconds=self.name_seconds,
        )
        return self._adapter

    def write(self, text: str, *, sender: Sender = "anna", room: Room = "private") -> str:
        fields: dict[str, Any] = {}
        if room == "topic":
            fields["thread_ts"] = THREAD
        if sender == "robot":
            fields |= {"bot_id": BOT_ID + "2", "subtype": "bot_message"}
        place = None if room == "private" else GENERAL
        event = self.server.event(
            text, person=SENDERS[sender], place=place, is_mention=place is not None, **fields
        )
        self._payloads[event["ts"]] = self.server.envelop(event)
        self.deliver_again(event["ts"])
        return str(event["ts"])

    def deliver_again(self, message_id: str) -> None:
        self._deliveries[message_id] = self.server.push(self._payloads[message_id])

    def deliver_unreadable(self) -> None:
        server = self.server
        fine = server.event("x")
        for payload in (
            b"",
            b"no json",
            b"[" * 100_000,
            None,
            5,
            [],
            {},
            {"type": "event_callback"},
            {"type": "app_rate_limited", "team_id": "T1", "minute_rate_limited": 1},
            server.envelop(fine) | {"event": 5},
            server.envelop(fine) | {"team_id": "T0OTHER", "authorizations": "x"},
            *(
                server.envelop(fine | fields)
                for fields in (
                    {"text": 5},
                    {"text": "x" * 900_000},
                    # A call of that size is not received, and real ones are not.
                    {"text": "x" * (5_000_000 if server.mode == "socket" else 100_001)},
                    {"ts": "soon"},
                    {"ts": None},
                    {"ts": "1\n2.3"},
                    {"thread_ts": 5},
                    {"channel": "../x"},
                    {"channel": ["D1"]},
                    {"channel_type": {}},
                    {"user": None},
                    {"user": {"id": "U1"}},
                    {"files": "x"},
                    {"files": [None]},
                    {"files": [{"id": "../x"}]},
                    {"files": [{"id": "F1"}] * 1000},
                    {"subtype": "unheard_of"},
                    {"type": "unheard_of"},
                )
            ),
        ):
            server.push(payload)
        server.push({"command": "/hermes", "text": "x"}, kind="slash_commands")
        server.push({"payload": "{}"}, kind="interactive")

    def block(self, chat_id: str) -> None:
        self.server.api.close_chat(chat_id)

    def refuse_logins(self) -> None:
        self._token = "xoxb-wrong-wrong-wrong"

    def limit_rate(self, seconds: float) -> None:
        self.server.api.fail(too_many(seconds))

    def lose_connections(self) -> None:
        self.server.cut_deliveries(2)
        self.server.drop_connections()

    def lose_next_send(self) -> None:
        self.server.api.cut()

    def shown(self) -> list[Shown]:
        return [
            Shown(sent.channel, sent.ts, sent.shown, sent.thread_ts) for sent in self.server.sent
        ]

    def is_confirmed(self, message_id: str) -> bool:
        return self._deliveries[message_id] not in self.server.waiting

    def has_unconfirmed(self) -> bool:
        return bool(self.server.waiting)

    def wait_until(self, condition: Callable[[], Any]) -> None:
        self.server.wait_for(condition)

    def close(self) -> None:
        self.server.close()
