"""A gateway at work on Slack: a real store, Slack's protocol and a model's, over sockets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hermes_sessions.gateway.platforms.slack.adapter import SlackAdapter
from hermes_sessions.testing.slack_server import SlackServer
from hermes_sessions.testing.slack_workspace import ANNA
from tests.gateway.harness import GatewayTown
from tests.gateway.platforms.slack.fake_slack import Mode


class SlackTown(GatewayTown):
    """Slack, a model, and gateways that come and go on one store."""

    def __init__(self, home: Path, mode: Mode = "socket") -> None:
        self.slack = SlackServer(mode=mode)
        self.slack.callback = self._url
        line: dict[str, Any] = (
            {"app_token": self.slack.app_token}
            if mode == "socket"
            else {"signing_secret": self.slack.signing_secret, "webhook": {"port": 0}}
        )
        self.section: dict[str, Any] = {
            "token": self.slack.token,
            "base_url": self.slack.base_url,
            "allowed_users": [ANNA.id],
            "messages_per_minute": 0,
            **line,
        }
        super().__init__(home, {"slack": self.section})

    def close_messengers(self) -> None:
        self.slack.close()

    def _url(self) -> str:
        adapter = self.adapter("slack")
        port = adapter.webhook_port if isinstance(adapter, SlackAdapter) else None
        return f"http://127.0.0.1:{port}/slack/events" if port else ""

    def replies(self, channel: str = ANNA.chat) -> list[str]:
        """What the app has said in a chat."""
        return [sent.shown for sent in self.slack.sent if sent.channel == channel]

    def wait_for_replies(self, count: int, channel: str = ANNA.chat) -> list[str]:
        """Return what the app has said, once that is so many messages."""
        self.slack.wait_for(lambda: len(self.replies(channel)) >= count)
        return self.replies(channel)

    def keys(self) -> set[str]:
        """The keys of all lanes."""
        with self.open_db() as db, db.store.provider.read() as tx:
            return {row[0] for row in tx.all("SELECT session_key FROM lanes", ())}
