"""The fake Slack behaves like the real one: Slack's own framework talks to it."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from aiohttp import web
from slack_bolt.adapter.aiohttp import to_aiohttp_response, to_bolt_request
from slack_bolt.async_app import AsyncApp
from slack_sdk.errors import SlackApiError
from slack_sdk.socket_mode.aiohttp import SocketModeClient
from slack_sdk.socket_mode.async_client import AsyncBaseSocketModeClient
from slack_sdk.socket_mode.request import SocketModeRequest
from slack_sdk.socket_mode.response import SocketModeResponse
from slack_sdk.web.async_client import AsyncWebClient

from hermes_sessions_testing.fake_servers.slack.server import SlackServer
from hermes_sessions_testing.fake_servers.slack.workspace import (
    ANNA,
    BOT_USER_ID,
    GENERAL,
    TEAM_ID,
    missing_scope,
    shown_text,
    too_many,
)


@pytest.fixture
def slack() -> Iterator[SlackServer]:
    with SlackServer() as server:
        yield server


@pytest.fixture
def events() -> Iterator[SlackServer]:
    with SlackServer(mode="events") as server:
        yield server


def web_client(slack: SlackServer, token: str | None = None) -> AsyncWebClient:
    return AsyncWebClient(token or slack.token, base_url=slack.base_url, retry_handlers=[])


async def until(slack: SlackServer, condition: Callable[[], Any]) -> None:
    await asyncio.to_thread(slack.wait_for, condition)


async def error_of(call: Awaitable[Any]) -> str:
    with pytest.raises(SlackApiError) as refused:
        await call
    return str(refused.value.response["error"])


# ── the Web API ───────────────────────────────────────────────────────────────────────────────


def test_the_web_api_through_the_sdk(slack: SlackServer) -> None:
    async def main() -> None:
        client = web_client(slack)
        bot = await client.auth_test()
        assert (bot["user_id"], bot["team_id"]) == (BOT_USER_ID, TEAM_ID)
        assert "chat:write" in bot.headers["x-oauth-scopes"]
        sent = await client.chat_postMessage(channel=GENERAL.id, text="*Hi*", thread_ts="1.2")
        await client.chat_update(channel=GENERAL.id, ts=sent["ts"], text="_Hello_")
        (message,) = slack.sent
        assert (message.text, message.shown, message.thread_ts) == ("_Hello_", "Hello", "1.2")
        assert message.before == ["*Hi*"]
        assert (await client.users_info(user=ANNA.id))["user"]["profile"]["display_name"] == "Anna"
        assert (await client.conversations_info(channel=GENERAL.id))["channel"]["name"] == "general"
        await client.chat_delete(channel=GENERAL.id, ts=sent["ts"])
        assert slack.sent == []
        # Writing to somebody opens the chat with them.
        assert (await client.chat_postMessage(channel=ANNA.id, text="x"))["channel"] == ANNA.chat

    asyncio.run(main())


def test_refusals_have_slacks_names(slack: SlackServer) -> None:
    async def main() -> None:
        client = web_client(slack)
        post = client.chat_postMessage
        assert await error_of(post(channel="C0NOWHERE", text="x")) == "channel_not_found"
        blank = {"channel": GENERAL.id, "text": " "}
        assert await error_of(client.api_call("chat.postMessage", json=blank)) == "no_text"
        ts = (await post(channel=GENERAL.id, text="x"))["ts"]
        long = client.chat_update(channel=GENERAL.id, ts=ts, text="x" * 4001)
        assert await error_of(long) == "msg_too_long"
        gone = client.chat_update(channel=GENERAL.id, ts="1.2", text="x")
        assert await error_of(gone) == "message_not_found"
        assert await error_of(client.users_info(user="U0NOBODY")) == "user_not_found"
        assert await error_of(client.files_info(file="F0")) == "file_not_found"
        assert await error_of(client.api_call("dance.now")) == "unknown_method"
        slack.api.close_chat(GENERAL.id, "not_in_channel")
        assert await error_of(post(channel=GENERAL.id, text="x")) == "not_in_channel"
        assert await error_of(web_client(slack, "xoxb-wrong").auth_test()) == "invalid_auth"
        other = web_client(slack).apps_connections_open(app_token=slack.token)
        assert await error_of(other) == "not_allowed_token_type"
        slack.api.refuse("users.info", missing_scope("users:read"))
        assert await error_of(client.users_info(user=ANNA.id)) == "missing_scope"
        slack.api.scopes = "im:history"
        assert await error_of(post(channel=ANNA.chat, text="x")) == "missing_scope"

    asyncio.run(main())


def test_one_call_too_many_says_how_long_to_wait(slack: SlackServer) -> None:
    async def main() -> None:
        slack.api.fail(too_many(30))
        with pytest.raises(SlackApiError) as refused:
            await web_client(slack).chat_postMessage(channel=ANNA.chat, text="x")
        assert refused.value.response.status_code == 429
        assert refused.value.response.headers["Retry-After"] == "30"

    asyncio.run(main())


def test_files_are_for_whoever_has_the_token(slack: SlackServer) -> None:
    slack.api.files["F1"] = b"a picture"
    address = slack.base_url.removesuffix("/api") + "/files/F1"
    headers = {"Authorization": f"Bearer {slack.token}"}
    assert httpx.get(address, headers=headers).content == b"a picture"
    assert httpx.get(address).headers["content-type"].startswith("text/html")


# ── Socket Mode ───────────────────────────────────────────────────────────────────────────────


@asynccontextmanager
async def sdk_client(
    slack: SlackServer,
    heard: list[SocketModeRequest],
    *,
    instead: Callable[[], None] | None = None,
) -> Any:
    """Slack's own client, which acknowledges what it hears, or does something else instead."""
    client = SocketModeClient(slack.app_token, web_client=web_client(slack))

    async def listen(client: AsyncBaseSocketModeClient, request: SocketModeRequest) -> None:
        heard.append(request)
        if instead is not None:
            instead()
        else:
            await client.send_socket_mode_response(SocketModeResponse(request.envelope_id))

    client.socket_mode_request_listeners.append(listen)
    await client.connect()
    try:
        yield client
    finally:
        await client.close()


def test_the_sdks_own_client_on_a_socket(slack: SlackServer) -> None:
    async def main() -> None:
        heard: list[SocketModeRequest] = []
        async with sdk_client(slack, heard):
            slack.write("Hello <you>")
            slack.type_command("new")
            await until(slack, lambda: not slack.waiting)
            slack.ask_to_reconnect()
            await until(slack, lambda: slack.opened == 2)
            slack.write("Again")
            await until(slack, lambda: not slack.waiting)
        assert [request.type for request in heard] == ["events_api", "slash_commands", "events_api"]
        assert heard[0].payload["event"]["text"] == "Hello &lt;you&gt;"
        assert heard[1].payload["command"] == "/hermes"

    asyncio.run(main())


def test_what_is_not_acknowledged_comes_again_on_the_next_socket(slack: SlackServer) -> None:
    async def main() -> None:
        first: list[SocketModeRequest] = []
        second: list[SocketModeRequest] = []
        arrived = asyncio.Event()
        async with sdk_client(slack, first, instead=arrived.set):
            slack.write("Hello")
            await asyncio.wait_for(arrived.wait(), 60)
        async with sdk_client(slack, second):
            await until(slack, lambda: not slack.waiting)
        assert (first[0].retry_attempt, second[0].retry_attempt) == (None, 1)
        assert first[0].envelope_id == second[0].envelope_id

    asyncio.run(main())


# ── the Events API ────────────────────────────────────────────────────────────────────────────


@asynccontextmanager
async def bolt(events: SlackServer, heard: list[Any]) -> Any:
    """An app made with Slack's framework, which checks signatures by itself."""
    app = AsyncApp(
        signing_secret=events.signing_secret,
        client=web_client(events),
        process_before_response=True,
    )

    @app.event("message")
    async def message(event: dict[str, Any]) -> None:
        heard.append(event["text"])

    @app.event("app_mention")
    async def mention(event: dict[str, Any], say: Any) -> None:
        heard.append(event["text"])
        await say("Hi!")

    @app.command("/hermes")
    async def command(ack: Any, command: dict[str, Any]) -> None:
        heard.append(command["text"])
        await ack()

    async def receive(request: web.Request) -> web.Response:
        return await to_aiohttp_response(await app.async_dispatch(await to_bolt_request(request)))

    served = web.Application()
    served.router.add_post("/slack/events", receive)
    runner = web.AppRunner(served, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port = runner.addresses[0][1]
    events.callback = lambda: f"http://127.0.0.1:{port}/slack/events"
    try:
        yield app
    finally:
        events.callback = lambda: ""
        await runner.cleanup()


def test_slacks_own_framework_takes_what_is_brought(events: SlackServer) -> None:
    async def main() -> None:
        heard: list[Any] = []
        async with bolt(events, heard):
            events.write("Hello")
            events.write("You!", place=GENERAL, is_mention=True)
            events.type_command("status")
            await until(events, lambda: not events.waiting)
        mention = f"<@{BOT_USER_ID}> You!"
        assert heard == ["Hello", mention, mention, "status"]
        assert events.deliveries == [200] * 4
        assert [sent.text for sent in events.sent] == ["Hi!"]

    asyncio.run(main())


def test_slacks_own_framework_refuses_what_is_forged(events: SlackServer) -> None:
    async def main() -> None:
        heard: list[Any] = []
        body = b"{}"
        async with bolt(events, heard):
            payload = events.envelop(events.event("Forged"))
            events.push(payload, headers=events.headers_for(body))
            events.push(payload, headers=events.headers_for(body, now=1_000_000))
            await until(events, lambda: not events.waiting)
        assert heard == []
        assert events.deliveries == [401, 401]

    asyncio.run(main())


# ── markup ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("mrkdwn", "shown"),
    [
        ("plain &amp; &lt;simple&gt;", "plain & <simple>"),
        ("*bold* _italic_ ~gone~ *_both_*", "bold italic gone both"),
        ("snake_case_name 2*3*4", "snake_case_name 2*3*4"),
        ("`*a* &lt; b`", "*a* < b"),
        ("```\n*a*\n```", "*a*"),
        ("<https://x.org|a page> <@U1>", "a page @U1"),
    ],
)
def test_markup_as_people_read_it(mrkdwn: str, shown: str) -> None:
    assert shown_text(mrkdwn) == shown
