"""The REST API of the fake Discord."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any, Final

from aiohttp import web

from hermes_sessions_testing.fake_servers.discord.state import (
    ANNA,
    BERT,
    BOT,
    Cut,
    DiscordState,
    Refusal,
)

_CHANNEL: Final = "/api/v10/channels/{channel}"
_MESSAGES: Final = f"{_CHANNEL}/messages"

Handler = Callable[[web.Request], Awaitable[Any]]


class FakeDiscordRest:
    """Handles REST requests and sends the resulting events with *tell*."""

    def __init__(
        self,
        state: DiscordState,
        tell: Callable[[str, Any], None],
        address: Callable[[], str],
    ) -> None:
        self._state = state
        self._tell = tell
        self._address = address
        #: The rate limit of a channel: requests, and per how many seconds.
        self.limit = (1000, 1.0)
        self._remaining: dict[str, int] = {}

    def routes(self) -> list[web.RouteDef]:
        """Return the routes. Tests make a route fail by its name."""
        answers: list[tuple[str, str, str, Handler]] = [
            ("GET", "/api/v10/users/@me", "login", self._me),
            ("POST", "/api/v10/users/@me/channels", "private", self._private),
            ("GET", "/api/v10/gateway/bot", "gateway", self._gateway),
            ("GET", _CHANNEL, "channel", self._channel),
            ("GET", _MESSAGES, "history", self._history),
            ("POST", _MESSAGES, "send", self._send),
            ("GET", f"{_MESSAGES}/{{message}}", "message", self._message),
            ("PATCH", f"{_MESSAGES}/{{message}}", "edit", self._edit),
            ("POST", f"{_CHANNEL}/typing", "typing", self._typing),
            ("GET", "/api/v10/guilds/{guild}/members/{user}", "member", self._member),
        ]
        made = [
            web.route(method, path, self._answering(what, handler))
            for method, path, what, handler in answers
        ]
        return [*made, web.get("/files/{file}", self._file)]

    def _answering(self, what: str, handler: Handler) -> Callable[[web.Request], Any]:
        async def answer(request: web.Request) -> web.StreamResponse:
            channel = request.match_info.get("channel", "")
            fault = self._state.next_fault(what)
            if isinstance(fault, Cut) and not fault.is_done:
                return _cut(request)
            try:
                if request.headers.get("Authorization") != f"Bot {self._state.token}":
                    raise Refusal(401, 0, "401: Unauthorized")
                if isinstance(fault, Refusal):
                    raise fault
                result = await handler(request)
            except Refusal as refusal:
                self._note(what, channel)
                return _json(refusal.body, refusal.status, refusal.headers)
            self._note(what, channel)
            if fault is not None:
                return _cut(request)
            return _json(result, 204 if result is None else 200, self._left(what, channel))

        return answer

    def _note(self, what: str, channel: str) -> None:
        with self._state.changed:
            self._state.asked.append((what, channel))
            self._state.changed.notify_all()

    def _left(self, what: str, channel: str) -> dict[str, str]:
        """Return the rate-limit headers of a response."""
        limit, seconds = self.limit
        bucket = f"{what}:{channel}"
        left = self._remaining[bucket] = (self._remaining.get(bucket, 0) or limit) - 1
        return {
            "X-RateLimit-Bucket": what,
            "X-RateLimit-Limit": str(limit),
            "X-RateLimit-Remaining": str(left),
            "X-RateLimit-Reset-After": f"{seconds:g}",
            "Via": "1.1 google",
        }

    # ── the routes ──────────────────────────────────────────────────────────────────────────

    async def _me(self, _request: web.Request) -> Any:
        return {**BOT, "discriminator": "0", "avatar": None}

    async def _private(self, request: web.Request) -> Any:
        user = (await _body(request)).get("recipient_id")
        known = [each for each in (ANNA, BERT) if each["id"] == user]
        if not known:
            raise Refusal(400, 50033, "Invalid Recipient(s)")
        return self._state.visible(self._state.direct_channel(known[0]))

    async def _gateway(self, _request: web.Request) -> Any:
        limits = {"total": 1000, "remaining": 999, "reset_after": 1, "max_concurrency": 1}
        return {"url": self._address(), "shards": 1, "session_start_limit": limits}

    async def _channel(self, request: web.Request) -> Any:
        return self._state.visible(request.match_info["channel"])

    async def _history(self, request: web.Request) -> Any:
        after, limit = request.query.get("after", "0"), request.query.get("limit", "50")
        return self._state.history(request.match_info["channel"], int(after), int(limit))

    async def _send(self, request: web.Request) -> Any:
        message, is_new = self._state.send(request.match_info["channel"], await _body(request))
        if is_new:
            # Discord sends bots their own messages, too.
            self._tell("MESSAGE_CREATE", self._state.told(message))
        return message

    async def _message(self, request: web.Request) -> Any:
        return self._state.find(request.match_info["channel"], request.match_info["message"])

    async def _edit(self, request: web.Request) -> Any:
        channel, message = request.match_info["channel"], request.match_info["message"]
        changed = self._state.edit(channel, message, await _body(request))
        self._tell("MESSAGE_UPDATE", self._state.told(changed))
        return changed

    async def _typing(self, request: web.Request) -> Any:
        self._state.typing.append(self._state.visible(request.match_info["channel"])["id"])

    async def _member(self, request: web.Request) -> Any:
        guild, user = request.match_info["guild"], request.match_info["user"]
        roles = self._state.members.get((guild, user))
        if roles is None:
            raise Refusal(404, 10007, "Unknown Member")
        known = {each["id"]: each for each in (ANNA, BERT)}
        return {"roles": roles, "nick": None, "user": known.get(user, {"id": user})}

    async def _file(self, request: web.Request) -> web.Response:
        content = self._state.files.get(request.match_info["file"])
        return web.Response(status=404) if content is None else web.Response(body=content)


async def _body(request: web.Request) -> dict[str, Any]:
    body = await request.json()
    if not isinstance(body, dict):
        raise Refusal(400, 50109, "The request body contains invalid JSON.")
    return body


def _json(content: object, status: int, headers: dict[str, Any]) -> web.Response:
    # Without a charset, like Discord: the SDK treats anything else as text.
    return web.Response(
        body=b"" if status == 204 else json.dumps(content).encode(),
        status=status,
        headers={"Content-Type": "application/json", **headers},
    )


def _cut(request: web.Request) -> web.Response:
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=500)
