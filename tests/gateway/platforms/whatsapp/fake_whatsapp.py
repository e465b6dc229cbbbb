"""The fake WhatsApp server, driven by the platform kit."""

import json
from collections.abc import Callable
from typing import Any

from hermes_sessions.gateway.platforms.whatsapp.adapter import WhatsAppAdapter
from hermes_sessions.gateway.platforms.whatsapp.settings import (
    WhatsAppSettings,
    WhatsAppWebhookSettings,
)
from hermes_sessions_testing.fake_servers.whatsapp.server import (
    ANNA,
    BERT,
    GROUP,
    Person,
    WhatsAppServer,
    too_many,
)
from hermes_sessions_testing.platforms import MessengerServer, Room, Sender, Shown

VERIFY_TOKEN = "a-token-that-only-meta-knows"
#: What the number itself writes, which some accounts are told.
ROBOT = Person("Hermes", "15550783881")
SENDERS = {"anna": ANNA, "bert": BERT, "robot": ROBOT}


class FakeWhatsApp(MessengerServer):
    """Private chats and groups; WhatsApp has no topics."""

    rooms: tuple[Room, ...] = ("private", "group")

    def __init__(self) -> None:
        self.now = 1_800_000_000.0
        self.server = WhatsAppServer(clock=lambda: self.now)
        self.server.callback = self.url
        self._token = self.server.token
        self._calls: dict[str, bytes] = {}
        self._adapter: WhatsAppAdapter | None = None

    def url(self) -> str:
        port = self._adapter.webhook_port if self._adapter else None
        return f"http://127.0.0.1:{port}/whatsapp" if port else ""

    def settings(self, **changes: Any) -> WhatsAppSettings:
        values: dict[str, Any] = {
            "token": self._token,
            "phone_number_id": self.server.phone_number_id,
            "app_secret": self.server.app_secret,
            "verify_token": VERIFY_TOKEN,
            "base_url": self.server.base_url,
            "webhook": WhatsAppWebhookSettings(port=0),
        }
        return WhatsAppSettings(**(values | changes))

    def make_adapter(self, **changes: Any) -> WhatsAppAdapter:
        self._adapter = WhatsAppAdapter(self.settings(**changes), clock=lambda: self.now)
        return self._adapter

    def write(self, text: str, *, sender: Sender = "anna", room: Room = "private") -> str:
        group = GROUP if room == "group" else None
        person = SENDERS[sender]
        message = self.server.message(text, person=person, group=group)
        body = json.dumps(self.server.call(self.server.value([message], [person]))).encode()
        self._calls[message["id"]] = body
        self.server.push(body)
        return str(message["id"])

    def deliver_again(self, message_id: str) -> None:
        self.server.push(self._calls[message_id])

    def deliver_unreadable(self) -> None:
        server = self.server
        fine = server.message("x")
        value = server.value([fine])
        server.push(
            b"",
            b"no json",
            b"[" * 100_000,
            b"null",
            {"object": "page", "entry": []},
            {"object": "whatsapp_business_account", "entry": 5},
            {"object": "whatsapp_business_account", "entry": [None, {"changes": "x"}]},
            server.call(None),
            server.call({"metadata": 7}),
            server.call(value | {"messages": "x", "statuses": {}}),
            server.call(server.value([None, 5, {}, {"type": "text"}, {"type": 7}])),
            server.call(server.value([fine | {"text": {"body": 5}}])),
            server.call(server.value([fine | {"id": ""}])),
            server.call(server.value([fine | {"id": "a\nb"}])),
            server.call(server.value([fine | {"from": {}, "from_user_id": None}])),
            server.call(server.value([fine | {"type": "image", "image": {"id": "../x"}}])),
            server.call(server.value([fine | {"type": "contacts", "contacts": 1}])),
            server.call(server.value([fine | {"timestamp": "soon"}])),
            server.call(server.value([fine | {"text": {"body": "x" * 900_000}}])),
            server.call(server.value([fine | {"text": {"body": "x" * 5_000_000}}])),
            server.call(server.value([fine | {"type": "unheard_of", "unheard_of": {}}])),
            server.call(value, field="account_update"),
        )

    def block(self, chat_id: str) -> None:
        self.server.block(chat_id)

    def refuse_logins(self) -> None:
        self._token = "EAAwrongwrongwrongwrongwrong"

    def limit_rate(self, seconds: float) -> None:
        self.server.fail(too_many(retry_after=seconds))

    def lose_connections(self) -> None:
        self.server.cut_deliveries(2)
        self.server.drop_connections()

    def lose_next_send(self) -> None:
        self.server.cut()

    def shown(self) -> list[Shown]:
        return [Shown(sent.chat_id, sent.message_id, sent.text) for sent in self.server.sent]

    def is_confirmed(self, message_id: str) -> bool:
        return self._calls[message_id] not in self.server.waiting

    def has_unconfirmed(self) -> bool:
        return bool(self.server.waiting)

    def wait_until(self, condition: Callable[[], Any]) -> None:
        self.server.wait_for(condition)

    def close(self) -> None:
        self.server.close()
