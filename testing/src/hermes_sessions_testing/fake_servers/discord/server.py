"""A fake Discord: REST API and gateway on local sockets.

::

    with DiscordServer() as discord:
        ...  # connect a bot with discord.token to discord.base_url
        discord.write("Hello", user=ANNA)
        discord.wait_for(lambda: discord.sent)
        assert discord.sent[0].text == "Hi, Anna"

It has one guild with two channels and a thread, and a direct-message channel per user. Like
Discord, it expects no confirmation of messages: bots read what they missed from the history. Tests
cause faults with `fail`, `cut` and `drop`.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, Self

from aiohttp import web

from hermes_sessions_testing.fake_servers.discord.gateway import FakeDiscordGateway
from hermes_sessions_testing.fake_servers.discord.rest import FakeDiscordRest
from hermes_sessions_testing.fake_servers.discord.state import (
    ANNA,
    BERT,
    BOT,
    BOT_ROLE,
    GENERAL,
    GUILD,
    MEMBERS,
    PUMPS,
    ROBOT,
    THREAD,
    TOKEN,
    Cut,
    DiscordState,
    Record,
    Refusal,
    Sent,
    missing_access,
    too_many,
    unknown_channel,
)

__all__ = [
    "ANNA",
    "BERT",
    "BOT",
    "BOT_ROLE",
    "GENERAL",
    "GUILD",
    "MEMBERS",
    "PUMPS",
    "ROBOT",
    "THREAD",
    "TOKEN",
    "DiscordServer",
    "Refusal",
    "Sent",
    "missing_access",
    "too_many",
    "unknown_channel",
]

#: Seconds until a wait is a failure; far longer than any test needs.
_PATIENCE: Final = 60.0
#: Seconds between checks of a condition whose changes are not notified.
_LOOK_EVERY: Final = 0.05
_RECONNECT: Final = 7
_INVALID: Final = 9


class DiscordServer:
    """The server. It listens from its creation until `close`; any thread may call it."""

    def __init__(self, token: str = TOKEN) -> None:
        self.state = DiscordState(token)
        self._port = 0
        self._gateway = FakeDiscordGateway(self.state, self._gateway_address)
        self._rest = FakeDiscordRest(self.state, self._gateway.tell, self._gateway_address)
        self._loop = asyncio.new_event_loop()
        self._runner: web.AppRunner | None = None
        self._thread = threading.Thread(target=self._main, name="discord", daemon=True)
        self._thread.start()
        self._do(self._start())

    @property
    def token(self) -> str:
        """The bot's token; setting another one invalidates the old one."""
        return self.state.token

    @token.setter
    def token(self, token: str) -> None:
        self.state.token = token

    @property
    def base_url(self) -> str:
        """The base URL for bots, for ``platforms.discord.base_url``."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def sent(self) -> list[Sent]:
        """Messages of the bot, in the order they were sent."""
        with self.state.changed:
            return list(self.state.sent)

    @property
    def done(self) -> list[str]:
        """Actions of bots on the gateway: ``connect``, ``identify``, ``resume``, ``heartbeat``."""
        with self.state.changed:
            return list(self._gateway.done)

    @property
    def asked(self) -> list[tuple[str, str]]:
        """REST requests of bots: the route's name and the channel."""
        with self.state.changed:
            return list(self.state.asked)

    # ── what users do ─────────────────────────────────────────────────────────────────────────

    def write(
        self,
        text: str = "",
        *,
        user: Mapping[str, Any] = ANNA,
        channel: str | None = None,
        is_addressed: bool = False,
        **fields: Any,
    ) -> str:
        """Let a user write, in private unless *channel* is given. Return the message id.

        With *is_addressed*, the user mentions the bot.
        """
        if is_addressed:
            text = f"<@{BOT['id']}> {text}"
            fields.setdefault("mentions", [BOT])

        def happen() -> Any:
            where = channel or self.state.direct_channel(user)
            message = self.state.add_message(where, user, content=text, **fields)
            self._gateway.tell("MESSAGE_CREATE", self.state.told(message))
            return message["id"]

        return str(self._on_loop(happen))

    def tell(self, event: str, data: Any) -> None:
        """Send an event unchanged, without recording it."""
        self._on_loop(lambda: self._gateway.tell(event, data))

    def tell_again(self, channel_id: str, message_id: str) -> None:
        """Send the event of a message again."""
        message = self.state.find(channel_id, message_id)
        self.tell("MESSAGE_CREATE", self.state.told(message))

    def babble(self, *frames: str) -> None:
        """Send raw frames to bots."""
        for frame in frames:
            self._on_loop(lambda frame=frame: self._gateway.babble(frame))  # type: ignore[misc]

    def block(self, channel_id: str) -> None:
        """Refuse all further messages of the bot in a channel."""
        self.state.blocked.add(channel_id)

    def forbid_intents(self, intents: int) -> None:
        """Turn intents off in the developer portal."""
        self._gateway.allowed_intents = ~intents

    # ── what goes wrong ───────────────────────────────────────────────────────────────────────

    def fail(self, what: str, *refusals: Refusal) -> None:
        """Refuse the next requests to a route, one per refusal.

        Routes are ``login``, ``private``, ``gateway``, ``channel``, ``history``, ``send``,
        ``message``, ``edit``, ``typing`` and ``member``.
        """
        self.state.plan(what, *refusals)

    def cut(self, what: str, *, times: int = 1, is_done: bool = False) -> None:
        """Drop the connection of the next requests before responding.

        ``connect`` is the gateway's connection. With *is_done*, the request takes effect.
        """
        self.state.plan(what, *[Cut(is_done)] * times)

    def limit(self, requests: int, seconds: float) -> None:
        """Set the rate limit of channels."""
        self._rest.limit = (requests, seconds)

    def drop(self, *, forget: bool = False) -> None:
        """Drop the gateway connections; with *forget*, sessions cannot be resumed."""
        self._on_loop(lambda: self._gateway.drop_all(forget=forget))

    def ask_to_reconnect(self) -> None:
        """Ask bots to reconnect, as Discord does regularly."""
        self._on_loop(lambda: self._gateway.ask(_RECONNECT))

    def invalidate(self) -> None:
        """Invalidate the sessions of bots."""
        self._on_loop(lambda: self._gateway.ask(_INVALID, False))

    def close_connections(self, code: int) -> None:
        """Close the gateway connections with a close code."""
        self._on_loop(lambda: self._gateway.close_all(code))

    def refuse(self, *codes: int) -> None:
        """Close the connections of the next bots that identify with these codes."""
        self._gateway.refusals.extend(codes)

    # ── waiting and closing ───────────────────────────────────────────────────────────────────

    def wait_for(self, condition: Callable[[], Any]) -> None:
        """Block until *condition* holds."""
        end = time.monotonic() + _PATIENCE
        while not condition():
            if time.monotonic() > end:
                raise TimeoutError("the condition did not hold in time")
            with self.state.changed:
                self.state.changed.wait(_LOOK_EVERY)

    def close(self) -> None:
        """Stop the server. A second call does nothing."""
        if self._thread.is_alive():
            self._do(self._stop())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_PATIENCE)
            self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def _gateway_address(self) -> str:
        return f"ws://127.0.0.1:{self._port}/gateway"

    def _main(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    async def _start(self) -> None:
        app = web.Application(client_max_size=64 * 1024**2)
        app.add_routes([*self._rest.routes(), web.get("/gateway", self._gateway.serve)])
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self._port = self._runner.addresses[0][1]

    async def _stop(self) -> None:
        self._gateway.drop_all(forget=True)
        if self._runner is not None:
            await self._runner.cleanup()

    def _do(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_PATIENCE)

    def _on_loop(self, work: Callable[[], Any]) -> Any:
        async def do() -> Any:
            return work()

        return self._do(do())


def attachment(server: DiscordServer, content: bytes, **fields: Any) -> Record:
    """Return an attachment, whose content the server stores."""
    file_id = server.state.next_id()
    server.state.files[file_id] = content
    url = f"{server.base_url}/files/{file_id}"
    return {"id": file_id, "size": len(content), "url": url, "filename": "file", **fields}
