"""Discord on this machine: a server that speaks its REST API and its gateway over real sockets.

::

    with DiscordServer() as discord:
        ...  # connect a bot with discord.token to discord.base_url
        discord.write("Hello", user=ANNA)
        discord.wait_for(lambda: discord.sent)
        assert discord.sent[0].text == "Hi, Anna"

There is one server with two channels and a thread, and a private channel for everybody. As the real
one, it does not want to hear whether a message was taken: what a bot misses is in the history. What
goes wrong with the real one goes wrong here when a test asks for it: `fail`, `cut`, `drop`.
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

#: A guard against hanging, not a measurement.
_PATIENCE: Final = 60.0
#: How often a condition is looked at that nobody here knows of.
_LOOK_EVERY: Final = 0.05
_RECONNECT: Final = 7
_INVALID: Final = 9


class DiscordServer:
    """The server; it listens from its creation until it is closed. Any thread may call it."""

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
        """The token of the bot; another one makes the old one worthless."""
        return self.state.token

    @token.setter
    def token(self, token: str) -> None:
        self.state.token = token

    @property
    def base_url(self) -> str:
        """The address for bots, as in ``platforms.discord.base_url``."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def sent(self) -> list[Sent]:
        """Messages of the bot, in the order in which they were sent."""
        with self.state.changed:
            return list(self.state.sent)

    @property
    def done(self) -> list[str]:
        """What bots did on the gateway: ``connect``, ``identify``, ``resume``, ``heartbeat``."""
        with self.state.changed:
            return list(self._gateway.done)

    @property
    def asked(self) -> list[tuple[str, str]]:
        """What bots asked for by REST, and about which channel."""
        with self.state.changed:
            return list(self.state.asked)

    # ── what people do ────────────────────────────────────────────────────────────────────────

    def write(
        self,
        text: str = "",
        *,
        user: Mapping[str, Any] = ANNA,
        channel: str | None = None,
        is_addressed: bool = False,
        **fields: Any,
    ) -> str:
        """Let somebody write; return the message's id. Without *channel*, in private.

        With *is_addressed*, they mention the bot.
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
        """Let an event be told as it is, and nothing be remembered of it."""
        self._on_loop(lambda: self._gateway.tell(event, data))

    def tell_again(self, channel_id: str, message_id: str) -> None:
        """Let a message be told once more."""
        message = self.state.find(channel_id, message_id)
        self.tell("MESSAGE_CREATE", self.state.told(message))

    def babble(self, *frames: str) -> None:
        """Let frames arrive that may be anything."""
        for frame in frames:
            self._on_loop(lambda frame=frame: self._gateway.babble(frame))  # type: ignore[misc]

    def block(self, channel_id: str) -> None:
        """Let a channel take nothing more from the bot."""
        self.state.blocked.add(channel_id)

    def forbid_intents(self, intents: int) -> None:
        """Let something be turned off in the portal."""
        self._gateway.allowed_intents = ~intents

    # ── what goes wrong ───────────────────────────────────────────────────────────────────────

    def fail(self, what: str, *refusals: Refusal) -> None:
        """Let the next requests of a kind be refused, one for each.

        Kinds are ``login``, ``private``, ``gateway``, ``channel``, ``history``, ``send``,
        ``message``, ``edit``, ``typing`` and ``member``.
        """
        self.state.plan(what, *refusals)

    def cut(self, what: str, *, times: int = 1, is_done: bool = False) -> None:
        """Let the connection of the next requests be lost before they are answered; ``connect`` is
        that of the gateway. With *is_done*, what was asked for happens nevertheless.
        """
        self.state.plan(what, *[Cut(is_done)] * times)

    def limit(self, requests: int, seconds: float) -> None:
        """Let Discord say that so many requests are allowed in a channel."""
        self._rest.limit = (requests, seconds)

    def drop(self, *, forget: bool = False) -> None:
        """Lose the connections of the gateway; with *forget*, no session can be resumed."""
        self._on_loop(lambda: self._gateway.drop_all(forget=forget))

    def ask_to_reconnect(self) -> None:
        """Ask bots to connect again, as Discord does now and then."""
        self._on_loop(lambda: self._gateway.ask(_RECONNECT))

    def invalidate(self) -> None:
        """Tell bots that their sessions are over."""
        self._on_loop(lambda: self._gateway.ask(_INVALID, False))

    def close_connections(self, code: int) -> None:
        """Close the connections of the gateway with a code."""
        self._on_loop(lambda: self._gateway.close_all(code))

    def refuse(self, *codes: int) -> None:
        """Let those who identify next be sent away with a code."""
        self._gateway.refusals.extend(codes)

    # ── waiting, and the end ──────────────────────────────────────────────────────────────────

    def wait_for(self, condition: Callable[[], Any]) -> None:
        """Block until *condition* holds."""
        end = time.monotonic() + _PATIENCE
        while not condition():
            if time.monotonic() > end:
                raise TimeoutError("it did not happen")
            with self.state.changed:
                self.state.changed.wait(_LOOK_EVERY)

    def close(self) -> None:
        """Stop; a second call does nothing."""
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
    """Return a file of a message, whose contents the server keeps."""
    file_id = server.state.next_id()
    server.state.files[file_id] = content
    url = f"{server.base_url}/files/{file_id}"
    return {"id": file_id, "size": len(content), "url": url, "filename": "file", **fields}
