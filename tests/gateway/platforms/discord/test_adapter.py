"""A bot that writes to Discord."""

from __future__ import annotations

import asyncio
import logging

import pytest

from hermes_sessions.gateway.events import Attachment, Target
from hermes_sessions.gateway.platforms.discord.mapping import DIRECT
from hermes_sessions.gateway.platforms.port import (
    LoginRefused,
    RateLimited,
    Undeliverable,
    Unreachable,
)
from hermes_sessions_testing.fake_servers.discord.server import (
    BOT,
    GENERAL,
    THREAD,
    TOKEN,
    Refusal,
    attachment,
    too_many,
)
from tests.gateway.platforms.discord.fake_discord import FakeDiscord
from tests.gateway.platforms.discord.harness import AdapterHarness, run_adapter


def test_an_answer_points_to_its_question_except_in_private(messenger: FakeDiscord) -> None:
    async def act(harness: AdapterHarness) -> None:
        await harness.adapter.send(Target("discord", GENERAL, THREAD, "99"), "Hi", key="1")
        direct = Target("discord", harness.private.chat_id, None, "99", {DIRECT: True})
        await harness.adapter.send(direct, "Hi", key="2")
        await harness.adapter.send(Target("discord", GENERAL, None, "no id"), "Hi", key="3")
        sent = [(each.channel_id, each.reply_to) for each in harness.server.sent]
        assert sent == [(THREAD, "99"), (direct.chat_id, None), (GENERAL, None)]

    run_adapter(messenger, act)


@pytest.mark.parametrize(
    "refusal",
    [
        Refusal(400, 160002, "Cannot reply without permission to read message history"),
        Refusal(
            400,
            50035,
            "Invalid Form Body",
            errors={"message_reference": {"_errors": [{"code": "X", "message": "No system ones"}]}},
        ),
    ],
    ids=["no history", "a notice"],
)
def test_an_answer_that_cannot_point_is_sent_without(
    messenger: FakeDiscord, refusal: Refusal
) -> None:
    async def act(harness: AdapterHarness) -> None:
        harness.server.fail("send", refusal)
        await harness.adapter.send(Target("discord", GENERAL, None, "99"), "Hi", key="1")
        assert [(each.text, each.reply_to) for each in harness.server.sent] == [("Hi", None)]

    run_adapter(messenger, act)


def test_links_have_no_previews(messenger: FakeDiscord) -> None:
    """To make one, Discord would fetch what somebody talked the agent into writing."""

    async def act(harness: AdapterHarness) -> None:
        sent = await harness.adapter.send(harness.private, "https://x.org/?q=secret", key="1")
        await harness.adapter.edit(harness.private, sent, "https://x.org/?q=secrets")
        assert [body["flags"] for body in harness.server.state.bodies] == [4, 4]

    run_adapter(messenger, act)


def test_the_same_key_is_shown_once(messenger: FakeDiscord) -> None:
    async def act(harness: AdapterHarness) -> None:
        harness.server.cut("send", is_done=True)
        with pytest.raises(Unreachable):
            await harness.adapter.send(harness.private, "Hi", key="1.0")
        first = await harness.adapter.send(harness.private, "Hi", key="1.0")
        assert [sent.message_id for sent in harness.server.sent] == [first]
        # Another store counts from one as well.
        assert await harness.adapter.send(harness.private, "Other", key="1.0") != first
        assert await harness.adapter.send(harness.private, "Hi", key="2.0") != first
        assert all(len(sent.nonce or "") <= 25 for sent in harness.server.sent)

    run_adapter(messenger, act)


def test_a_limit_that_was_announced_is_kept_without_asking(messenger: FakeDiscord) -> None:
    async def act(harness: AdapterHarness) -> None:
        harness.server.limit(2, 600)
        for number in range(2):
            await harness.adapter.send(harness.private, "Hi", key=f"{number}")
        with pytest.raises(RateLimited) as limited:
            await harness.adapter.send(harness.private, "Hi", key="3")
        assert 0 < limited.value.retry_after <= 600
        assert harness.server.asked.count(("send", harness.private.chat_id)) == 2
        # Others are not concerned.
        await harness.adapter.send(Target("discord", GENERAL), "Hi", key="4")

    run_adapter(messenger, act)


def test_many_at_once_are_not_limited_by_us(messenger: FakeDiscord) -> None:
    async def act(harness: AdapterHarness) -> None:
        sends = (harness.adapter.send(harness.private, "Hi", key=f"{each}") for each in range(20))
        assert len(set(await asyncio.gather(*sends))) == 20

    run_adapter(messenger, act)


@pytest.mark.parametrize(
    ("refusal", "error", "words"),
    [
        (Refusal(403, 50007, "x"), Undeliverable, "blocked"),
        (Refusal(403, 50001, "x"), Undeliverable, "View Channel"),
        (Refusal(403, 50013, "x"), Undeliverable, "Send Messages"),
        (Refusal(404, 10003, "x"), Undeliverable, "channel no longer exists"),
        (Refusal(400, 50083, "x"), Undeliverable, "archived"),
        (Refusal(400, 99999, "Something new"), Undeliverable, "Something new"),
        (Refusal(401, 0, "x"), LoginRefused, "Reset Token"),
        (Refusal(503, 0, "x"), Unreachable, "503"),
        (too_many(3, is_global=True), RateLimited, "rate limit was reached"),
        (Refusal(429, 0, "x", {"Retry-After": "5"}), RateLimited, "rate limit was reached"),
        (
            Refusal(429, 0, "x", {"Content-Type": "text/html"}),
            RateLimited,
            "rate limit was reached",
        ),
        (Refusal(200, 0, "x", {"Content-Type": "text/html"}), Unreachable, "not readable"),
    ],
)
def test_what_discord_refuses(
    messenger: FakeDiscord, refusal: Refusal, error: type[Exception], words: str
) -> None:
    async def act(harness: AdapterHarness) -> None:
        harness.server.fail("send", refusal)
        with pytest.raises(error, match=words):
            await harness.adapter.send(harness.private, "Hi", key="1")
        await harness.adapter.send(harness.private, "Hi", key="1")
        assert len(harness.server.sent) == 1

    run_adapter(messenger, act)


def test_nobody_is_called_by_accident(messenger: FakeDiscord) -> None:
    async def act(harness: AdapterHarness) -> None:
        await harness.adapter.send(harness.private, "@everyone @here <@&1> <@7>", key="1")
        assert harness.server.state.bodies[-1]["allowed_mentions"]["parse"] == ["users"]

    run_adapter(messenger, act)


def test_a_message_of_somebody_else_cannot_be_changed(messenger: FakeDiscord) -> None:
    async def act(harness: AdapterHarness) -> None:
        message_id = harness.server.write("mine")
        with pytest.raises(Undeliverable):
            await harness.adapter.edit(harness.private, message_id, "yours")

    run_adapter(messenger, act)


def test_typing_is_shown(messenger: FakeDiscord) -> None:
    async def act(harness: AdapterHarness) -> None:
        await harness.adapter.typing(Target("discord", GENERAL, THREAD))
        assert harness.server.state.typing == [THREAD]

    run_adapter(messenger, act)


def test_files_come_by_reference(messenger: FakeDiscord) -> None:
    async def act(harness: AdapterHarness) -> None:
        picture = attachment(harness.server, b"pixels", content_type="image/png", filename="a.png")
        large = attachment(harness.server, b"x" * 101, filename="large.bin")
        harness.server.write("Look", attachments=[picture, large])
        await harness.services.texts(1)
        inbound = harness.services.accepted[0]
        (file,) = inbound.attachments
        assert (file.kind, file.name, file.size) == ("photo", "a.png", 6)
        assert "'large.bin' of 101 bytes was skipped" in inbound.text
        assert await harness.adapter.fetch(file, limit=100) == b"pixels"
        with pytest.raises(Undeliverable, match="over 5"):
            await harness.adapter.fetch(file, limit=5)

    run_adapter(messenger, act, max_file_bytes=100)


def test_files_of_a_message_that_was_forwarded(messenger: FakeDiscord) -> None:
    async def act(harness: AdapterHarness) -> None:
        picture = attachment(harness.server, b"pixels", content_type="image/png", filename="a.png")
        harness.server.write(
            "",
            message_reference={"type": 1, "message_id": "9"},
            message_snapshots=[{"message": {"content": "", "attachments": [picture]}}],
        )
        await harness.services.texts(1)
        (file,) = harness.services.accepted[0].attachments
        assert await harness.adapter.fetch(file, limit=100) == b"pixels"

    run_adapter(messenger, act)


def test_files_that_cannot_be_fetched(messenger: FakeDiscord) -> None:
    async def act(harness: AdapterHarness) -> None:
        lying = attachment(harness.server, b"x" * 50) | {"size": 1}
        gone = attachment(harness.server, b"x") | {"url": f"{harness.server.base_url}/files/0"}
        harness.server.write("", attachments=[lying, gone])
        await harness.services.texts(1)
        files = harness.services.accepted[0].attachments
        with pytest.raises(Undeliverable, match="more than 10"):
            await harness.adapter.fetch(files[0], limit=10)
        with pytest.raises(Undeliverable, match="no longer exists"):
            await harness.adapter.fetch(files[1], limit=10)
        channel, message, _ = files[0].reference.split("/")
        for reference in ("", "x/y/z", f"{channel}/1/1", f"{channel}/{message}/1"):
            with pytest.raises(Undeliverable):
                await harness.adapter.fetch(Attachment("document", reference), limit=10)

    run_adapter(messenger, act)


def test_nothing_secret_is_logged(messenger: FakeDiscord, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    async def act(harness: AdapterHarness) -> None:
        harness.server.write("a secret of Anna's")
        await harness.services.texts(1)
        await harness.adapter.send(harness.private, "a secret of Hermes", key="1")
        harness.server.drop()
        await harness.until(lambda: "resume" in harness.server.done)

    run_adapter(messenger, act)
    assert f"connected as {BOT['username']}" in caplog.text
    assert TOKEN not in caplog.text
    assert "secret" not in caplog.text
    assert TOKEN not in repr(messenger.settings())
