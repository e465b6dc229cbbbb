"""A gateway at work on WhatsApp: a real store, Meta's protocol and a model's, over sockets."""

from __future__ import annotations

from pathlib import Path

from hermes_sessions.gateway.platforms.whatsapp.adapter import WhatsAppAdapter
from hermes_sessions.testing.whatsapp_server import WhatsAppServer
from hermes_sessions.testing.whatsapp_values import ANNA
from tests.gateway.harness import GatewayTown
from tests.gateway.platforms.whatsapp.fake_whatsapp import VERIFY_TOKEN


class WhatsAppTown(GatewayTown):
    """WhatsApp, a model, and gateways that come and go on one store."""

    def __init__(self, home: Path) -> None:
        self.whatsapp = WhatsAppServer()
        self.whatsapp.callback = self._url
        section = {
            "token": self.whatsapp.token,
            "phone_number_id": self.whatsapp.phone_number_id,
            "app_secret": self.whatsapp.app_secret,
            "verify_token": VERIFY_TOKEN,
            "base_url": self.whatsapp.base_url,
            "allowed_users": [ANNA.number, ANNA.user_id],
            "messages_per_minute": 0,
            "webhook": {"port": 0},
        }
        super().__init__(home, {"whatsapp": section})

    def close_messengers(self) -> None:
        self.whatsapp.close()

    def _url(self) -> str:
        adapter = self.adapter("whatsapp")
        port = adapter.webhook_port if isinstance(adapter, WhatsAppAdapter) else None
        return f"http://127.0.0.1:{port}/whatsapp" if port else ""

    def replies(self, chat_id: str = ANNA.id) -> list[str]:
        """What the number has said in a chat."""
        return [sent.text for sent in self.whatsapp.sent if sent.chat_id == chat_id]

    def wait_for_replies(self, count: int, chat_id: str = ANNA.id) -> list[str]:
        """Return what the number has said, once that is so many messages."""
        self.whatsapp.wait_for(lambda: len(self.replies(chat_id)) >= count)
        return self.replies(chat_id)
