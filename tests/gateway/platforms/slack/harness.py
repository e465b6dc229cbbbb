"""A gateway at work on Slack: a real store, Slack's protocol and a model's, over sockets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import httpx

from hermes_sessions.gateway.platforms.slack.adapter import SlackAdapter
from hermes_sessions_testing.fake_servers.slack.server import SlackServer
from hermes_sessions_testing.fake_servers.slack.workspace import ANNA
from hermes_sessions_testing.platforms import RecordingServices
from tests.gateway.harness import GatewayHarness
from tests.gateway.platforms.slack.fake_slack import FakeSlack, Mode

# An adapter at work, and a client that calls its webhook as anybody could.


class AdapterHarness:
    def __init__(self, messenger: FakeSlack, **changes: Any) -> None:
        self.messenger = messenger
        self.server = messenger.server
        self.services = RecordingServices(messenger.states)
        self.adapter = messenger.make_adapter(**changes)
        self.http = httpx.AsyncClient()

    @property
    def url(self) -> str:
        return self.messenger.url()

    def call(self, text: str = "Hello", **fields: Any) -> dict[str, Any]:
        return self.server.envelop(self.server.event(text, **fields))

    async def bring(self, content: Any, headers: Mapping[str, str] | None = None) -> httpx.Response:
        """Bring something, signed as Slack does unless other headers are given."""
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        return await self.http.post(
            self.url, content=body, headers=headers or self.server.headers_for(body)
        )

    async def until(self, condition: Callable[[], Any]) -> None:
        """Return when something is the case on Slack."""
        await asyncio.to_thread(self.server.wait_for, condition)

    async def hear(self, count: int) -> list[str]:
        """Return what was said, when so much has been, and all is confirmed."""
        texts = await self.services.texts(count)
        await self.until(lambda: not self.server.waiting)
        return texts


def run_adapter(
    messenger: FakeSlack, act: Callable[[AdapterHarness], Awaitable[None]], **changes: Any
) -> None:
    async def main() -> None:
        harness = AdapterHarness(messenger, **changes)
        await harness.adapter.connect(harness.services)
        try:
            await act(harness)
        finally:
            await harness.http.aclose()
            await harness.adapter.disconnect()

    asyncio.run(main())


class SlackHarness(GatewayHarness):
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
