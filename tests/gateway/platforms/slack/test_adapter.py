"""The adapter against a Web API over a real socket: replies, refusals, files."""

import asyncio
import logging
from typing import Any

import pytest

from hermes_sessions.gateway.events import Attachment, Target
from hermes_sessions.gateway.platforms.port import (
    LoginRefused,
    PlatformError,
    RateLimited,
    Undeliverable,
    Unreachable,
)
from hermes_sessions_testing.fake_servers.slack.transport import ApiAnswer
from hermes_sessions_testing.fake_servers.slack.workspace import (
    ANNA,
    Person,
    Refusal,
    missing_scope,
    too_many,
)
from hermes_sessions_testing.platforms import RecordingServices
from tests.gateway.platforms.slack.fake_slack import THREAD, FakeSlack
from tests.gateway.platforms.slack.harness import AdapterHarness, run_adapter


def to(person: Person = ANNA, **fields: Any) -> Target:
    return Target("slack", person.chat, **fields)


# ── sending ───────────────────────────────────────────────────────────────────────────────────


def test_a_reply_has_slacks_markup_and_no_previews(messenger: FakeSlack) -> None:
    async def act(harness: AdapterHarness) -> None:
        text = "**Hi**, _Anna_ [x](https://x.org) `a<b` <!channel>"
        await harness.adapter.send(to(thread_id=THREAD, reply_to="1.2"), text, key="k")
        (sent,) = harness.server.sent
        assert sent.text == "*Hi*, _Anna_ <https://x.org|x> `a&lt;b` &lt;!channel&gt;"
        assert (sent.channel, sent.thread_ts) == (ANNA.chat, THREAD)
        params = harness.server.api.calls[-1].params
        assert (params["unfurl_links"], params["unfurl_media"]) in {("0", "0"), (False, False)}

    run_adapter(messenger, act)


@pytest.mark.parametrize(
    ("refusal", "error", "words"),
    [
        (too_many(), RateLimited, "ratelimited"),
        (Refusal("rate_limited"), RateLimited, "rate_limited"),
        (Refusal("message_limit_exceeded"), RateLimited, "message_limit_exceeded"),
        (Refusal("invalid_auth"), LoginRefused, "platforms.slack.token"),
        (Refusal("account_inactive"), LoginRefused, "install it again"),
        (Refusal("token_revoked"), LoginRefused, "reinstall the app"),
        (Refusal("token_expired"), LoginRefused, "token rotation"),
        (Refusal("not_allowed_token_type"), LoginRefused, "xoxb-"),
        (missing_scope("chat:write"), LoginRefused, "scope chat:write: add it under OAuth"),
        (Refusal("missing_scope"), LoginRefused, "OAuth & Permissions"),
        (Refusal("not_in_channel"), Undeliverable, "/invite"),
        (Refusal("channel_not_found"), Undeliverable, "/invite"),
        (Refusal("is_archived"), Undeliverable, "archived"),
        (Refusal("messages_tab_disabled"), Undeliverable, "Messages Tab"),
        (Refusal("restricted_action"), Undeliverable, "does not let"),
        (Refusal("msg_too_long"), Undeliverable, "too long"),
        (Refusal("something_new"), Undeliverable, "something_new"),
        (Refusal("internal_error"), Unreachable, "internal_error"),
        (Refusal("service_unavailable", status=503), Unreachable, "service_unavailable"),
        (Refusal("something_new", status=500), Unreachable, "something_new"),
    ],
    ids=lambda value: value.error if isinstance(value, Refusal) else "",
)
def test_refusals_say_what_to_do(
    messenger: FakeSlack, refusal: Refusal, error: type[PlatformError], words: str
) -> None:
    async def act(harness: AdapterHarness) -> None:
        harness.server.api.fail(refusal)
        with pytest.raises(PlatformError, match=words) as raised:
            await harness.adapter.send(to(), "Hi", key="k")
        assert type(raised.value) is error
        assert harness.server.token not in str(raised.value)
        await harness.adapter.send(to(), "Hi", key="k")

    run_adapter(messenger, act)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "17"}, 17),
        ({"Retry-After": "1000000000"}, 86400),
        ({"Retry-After": "-5"}, 0),
        ({"Retry-After": "tomorrow"}, 1),
        ({"Retry-After": "nan"}, 1),
        ({}, 1),
    ],
    ids=str,
)
def test_how_long_to_wait(messenger: FakeSlack, headers: dict[str, str], seconds: float) -> None:
    async def act(harness: AdapterHarness) -> None:
        harness.server.api.fail(Refusal("ratelimited", status=429, headers=headers))
        with pytest.raises(RateLimited) as limited:
            await harness.adapter.send(to(), "Hi", key="k")
        assert limited.value.retry_after == seconds
        assert len(harness.server.sent) == 0  # and nothing was tried again behind our back

    run_adapter(messenger, act)


@pytest.mark.parametrize("kind", ["text/html", "application/json", "text/plain"])
def test_an_answer_that_is_not_slacks_may_be_better_later(messenger: FakeSlack, kind: str) -> None:
    async def act(harness: AdapterHarness) -> None:
        for body in (b"<html>busy</html>", b"[]", b"{}", b"[" * 100_000, b"\xff"):
            for status in (200, 404, 502):
                harness.server.api.babble(body, status, kind)
                with pytest.raises(Unreachable):
                    await harness.adapter.send(to(), "Hi", key="k")

    run_adapter(messenger, act)


def test_a_message_that_is_sent_while_the_connection_is_lost_is_sent_once(
    messenger: FakeSlack,
) -> None:
    async def act(harness: AdapterHarness) -> None:
        harness.server.api.cut(is_done=True)
        with pytest.raises(Unreachable):
            await harness.adapter.send(to(), "Hi", key="k")
        assert len(harness.server.sent) == 1  # the SDK would have sent it again

    run_adapter(messenger, act)


@pytest.mark.parametrize("thread_id", ["general", "1.2\r\nx", "1700000000"])
def test_a_thread_that_cannot_be(messenger: FakeSlack, thread_id: str) -> None:
    async def act(harness: AdapterHarness) -> None:
        with pytest.raises(Undeliverable, match="thread"):
            await harness.adapter.send(to(thread_id=thread_id), "Hi", key="k")

    run_adapter(messenger, act)


def test_a_draft_that_grows_too_long_by_escaping_makes_way(messenger: FakeSlack) -> None:
    """Slack takes 4,000 characters when a message is changed, and more in a new one."""

    async def act(harness: AdapterHarness) -> None:
        text = "&" * 4000
        draft = await harness.adapter.send(to(), "Draft", key="k")
        with pytest.raises(Undeliverable, match="too long"):
            await harness.adapter.edit(to(), draft, text)
        await harness.adapter.send(to(), text, key="k")
        assert [sent.shown for sent in harness.server.sent] == [text]

    run_adapter(messenger, act)


# ── connecting ────────────────────────────────────────────────────────────────────────────────


def refused(messenger: FakeSlack, error: type[PlatformError], words: str, **changes: Any) -> None:
    async def main() -> None:
        adapter = messenger.make_adapter(**changes)
        with pytest.raises(PlatformError, match=words) as raised:
            await adapter.connect(RecordingServices())
        assert type(raised.value) is error
        assert not adapter.is_connected

    asyncio.run(main())


def test_nobody_at_the_other_end(messenger: FakeSlack) -> None:
    refused(messenger, Unreachable, "cannot be reached", base_url="http://127.0.0.1:1/api")


def test_a_wrong_app_token(messenger: FakeSlack) -> None:
    refused(messenger, LoginRefused, "app_token.*connections:write", app_token="xapp-wrong-wrong")


def test_socket_mode_is_turned_off(messenger: FakeSlack) -> None:
    messenger.server.api.refuse("apps.connections.open", Refusal("forbidden_team"))
    refused(messenger, LoginRefused, "Turn it on")


def test_an_app_that_may_not_write(messenger: FakeSlack) -> None:
    messenger.server.api.scopes = "im:history,users:read"
    refused(messenger, LoginRefused, "chat:write")


def test_scopes_that_are_missing_are_named_once(
    messenger: FakeSlack, caplog: pytest.LogCaptureFixture
) -> None:
    messenger.server.api.scopes = "chat:write,im:history"

    async def act(harness: AdapterHarness) -> None:
        assert harness.adapter.is_connected

    run_adapter(messenger, act)
    (record,) = (each for each in caplog.records if "scopes" in each.message)
    assert "files:read" in record.message
    assert ", im:history" not in record.message


def test_the_token_of_a_person(messenger: FakeSlack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messenger.server.api, "_identity", lambda _params: {"user_id": "U1"})
    refused(messenger, LoginRefused, "The token is a user token")


def test_no_secret_and_no_message_is_logged(
    messenger: FakeSlack, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)

    async def act(harness: AdapterHarness) -> None:
        harness.server.write("A secret message")
        await harness.services.texts(1)
        await harness.adapter.send(to(), "A secret reply", key="k")

    run_adapter(messenger, act)
    for secret in (messenger.server.token, messenger.server.app_token, "A secret", "ticket"):
        assert secret not in caplog.text


# ── files ─────────────────────────────────────────────────────────────────────────────────────


PICTURE = Attachment("photo", "F0PICTURE")


def test_a_file_is_fetched_with_the_token(messenger: FakeSlack) -> None:
    async def act(harness: AdapterHarness) -> None:
        harness.server.api.files[PICTURE.reference] = b"a picture"
        assert await harness.adapter.fetch(PICTURE, limit=9) == b"a picture"
        with pytest.raises(Undeliverable, match="9 bytes"):
            await harness.adapter.fetch(PICTURE, limit=8)

    run_adapter(messenger, act)


def test_the_platforms_own_limit_holds_as_well(messenger: FakeSlack) -> None:
    async def act(harness: AdapterHarness) -> None:
        harness.server.api.files[PICTURE.reference] = b"a picture"
        with pytest.raises(Undeliverable, match="over 5"):
            await harness.adapter.fetch(PICTURE, limit=100)

    run_adapter(messenger, act, max_file_bytes=5)


def test_a_file_that_is_larger_than_it_says(messenger: FakeSlack) -> None:
    async def act(harness: AdapterHarness) -> None:
        harness.server.api.files[PICTURE.reference] = b"x" * 100_000
        harness.server.api.file_records[PICTURE.reference] = {"size": 5}
        with pytest.raises(Undeliverable, match="over 50"):
            await harness.adapter.fetch(PICTURE, limit=50)

    run_adapter(messenger, act)


@pytest.mark.parametrize(
    "address",
    [
        "http://127.0.0.1:1/x",
        "https://slack.com.example.org/x",
        "https://evilslack.com/x",
        "http://files.slack.com/x",
        "https://files.slack.com@example.org/x",
        "file:///etc/passwd",
        "http://[x",
        "",
        7,
    ],
)
def test_the_token_goes_to_slack_alone(messenger: FakeSlack, address: object) -> None:
    async def act(harness: AdapterHarness) -> None:
        record = {"url_private": address, "url_private_download": address}
        harness.server.api.file_records[PICTURE.reference] = record
        with pytest.raises(Undeliverable, match="trusted"):
            await harness.adapter.fetch(PICTURE, limit=100)

    run_adapter(messenger, act)


@pytest.mark.parametrize("reference", ["F0GONE", "../x", "F1/b", ""])
def test_a_file_that_is_not_there(messenger: FakeSlack, reference: str) -> None:
    async def act(harness: AdapterHarness) -> None:
        with pytest.raises(Undeliverable):
            await harness.adapter.fetch(Attachment("photo", reference), limit=100)

    run_adapter(messenger, act)


def test_a_file_that_went_between_two_calls(messenger: FakeSlack) -> None:
    async def act(harness: AdapterHarness) -> None:
        harness.server.api.file_records[PICTURE.reference] = {"size": 5}
        with pytest.raises(Undeliverable, match="no longer exists"):
            await harness.adapter.fetch(PICTURE, limit=100)

    run_adapter(messenger, act)


@pytest.mark.parametrize(
    "answer",
    [
        ApiAnswer(b"<title>Log in</title>", content_type="text/html"),
        ApiAnswer(status=302, headers={"Location": "/files/F0OTHER"}),
        ApiAnswer(status=403),
    ],
    ids=["page", "redirect", "forbidden"],
)
def test_a_page_instead_of_a_file_names_the_scope(
    messenger: FakeSlack, monkeypatch: pytest.MonkeyPatch, answer: ApiAnswer
) -> None:
    """That is how Slack answers whoever may not have it; nobody follows it anywhere."""
    api = messenger.server.api
    found = api.file

    def file(name: str, token: str | None) -> ApiAnswer:
        return answer if name == PICTURE.reference else found(name, token)

    async def act(harness: AdapterHarness) -> None:
        api.files |= {PICTURE.reference: b"a picture", "F0OTHER": b"something else"}
        monkeypatch.setattr(api, "file", file)
        with pytest.raises(LoginRefused, match="files:read"):
            await harness.adapter.fetch(PICTURE, limit=100)

    run_adapter(messenger, act)
