"""A gateway at work on Signal: a real store, signal-cli's protocol and a model's, over sockets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hermes_sessions_testing.fake_servers.signal.daemon import ACCOUNT, ANNA, SignalDaemon
from tests.gateway.harness import GatewayHarness


class SignalHarness(GatewayHarness):
    """Signal, a model, and gateways that come and go on one store."""

    def __init__(self, home: Path) -> None:
        self.signal = SignalDaemon(path=home / "signal.sock")
        self.platform: dict[str, Any] = {
            "enabled": True,
            "account": ACCOUNT,
            "address": self.signal.address,
            "allowed_users": [ANNA.number],
            "messages_per_minute": 0,
        }
        super().__init__(home, {"signal": self.platform})

    def close_messengers(self) -> None:
        self.signal.close()

    def replies(self, chat_id: str = ANNA.uuid) -> list[str]:
        """What the account has said in a chat."""
        return [sent.text for sent in list(self.signal.sent) if sent.chat_id == chat_id]

    def wait_for_replies(self, count: int, chat_id: str = ANNA.uuid) -> list[str]:
        """Return what the account has said, once that is so many messages."""
        self.signal.wait_for(lambda: len(self.replies(chat_id)) >= count)
        return self.replies(chat_id)
