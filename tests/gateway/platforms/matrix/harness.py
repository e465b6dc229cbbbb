"""A gateway at work on Matrix: a real store, a real homeserver, and a model's protocol."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.gateway.harness import GatewayHarness
from tests.gateway.platforms.matrix.synapse_platform import SynapsePlatform, shown_in


class MatrixHarness(GatewayHarness):
    """Matrix, a model, and gateways that come and go on one store."""

    def __init__(self, home: Path, messenger: SynapsePlatform) -> None:
        self.matrix = messenger
        messenger.home = home / "gateway"
        #: The section of the platform.
        self.platform: dict[str, Any] = {
            "enabled": True,
            "homeserver": messenger.proxy.url,
            "user": messenger.bot.user_id,
            "password": messenger.bot.password,
            "allowed_users": [messenger.people["anna"].user_id],
            "messages_per_minute": 0,
            "sync_seconds": 5,
        }
        super().__init__(home, {"matrix": self.platform})

    def replies(self, room_id: str | None = None) -> list[str]:
        """What the bot has said in a room."""
        room_id = room_id or self.matrix.room_id("private")
        shown = shown_in(room_id, self.matrix.events(room_id), self.matrix.bot.user_id)
        return [message.text for message in shown]

    def wait_for_replies(self, count: int, room_id: str | None = None) -> list[str]:
        """Return what the bot has said, once that is so many messages."""
        self.matrix.wait_until(lambda: len(self.replies(room_id)) >= count)
        return self.replies(room_id)
