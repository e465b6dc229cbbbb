"""The adapter for Telegram: what is its own, besides what every platform does."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes_sessions.agent.slash_commands import commands_for
from hermes_sessions.config.gateway_settings import PlatformSettings
from hermes_sessions.config.sections import NamedValues
from hermes_sessions.errors import StoreUnavailable
from hermes_sessions.gateway.events import Attachment, Inbound, Receipt, Target
from hermes_sessions.gateway.platforms.port import LoginRefused, Undeliverable, Unreachable
from hermes_sessions.gateway.platforms.telegram.adapter import TelegramAdapter
from hermes_sessions.gateway.platforms.telegram.spec import SPEC
from hermes_sessions_testing.fake_servers.telegram.server import (
    ANNA,
    BERT,
    GROUP,
    Refusal,
    bad_request,
    too_many,
)
from hermes_sessions_testing.platforms import RecordingServices
from tests.gateway.platforms.telegram.fake_telegram import FakeTelegram, at_once

PRIVATE = Target("telegram", str(ANNA["id"]))


@pytest.fixture
def messenger() -> Iterator[FakeTelegram]:
    messenger = FakeTelegram()
    yield messenger
    messenger.close()


class AdapterHarness:
    """A connected adapter that remembers its pauses."""

    def __init__(self, messenger: FakeTelegram, **settings: Any) -> None:
        self.server = messenger.server
        self.services = RecordingServices()
        self.pauses: list[float] = []
        self.on_pause: Callable[[], object] = lambda: None
        commands = [("help", "Show the commands."), ("new", "Start anew.")]
        self.adapter = TelegramAdapter(
            messenger.settings(**settings), commands=commands, sleep=self._pause
        )

    async def _pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.on_pause()
        await at_once(seconds)

    async def is_polling(self) -> None:
        """Return when the adapter waits for updates: then the next question is another one."""
        asked = self.server.calls_of
        await self.until(lambda: len(asked("getUpdates")) > 1)

    async def go_on(self) -> None:
        """Let the poll that waits end with a message, and those after it until another comes."""
        before = len(self.services.accepted)
        for number in (1, 2):
            self.server.write("Hello")
            await self.services.texts(before + number)

    async def until(self, condition: Callable[[], Any]) -> None:
        await asyncio.to_thread(self.server.wait_for, condition)


def run_adapter(harness: AdapterHarness, act: Callable[[AdapterHarness], Awaitable[None]]) -> None:
    async def main() -> None:
        await harness.adapter.connect(harness.services)
        try:
            await act(harness)
        finally:
            await harness.adapter.disconnect()

    asyncio.run(main())


def test_a_webhook_of_earlier_is_taken_back_and_what_waits_stays(messenger: FakeTelegram) -> None:
    messenger.server.write("before")

    async def act(harness: AdapterHarness) -> None:
        assert await harness.services.texts(1) == ["before"]
        (call,) = harness.server.calls_of("deleteWebhook")
        assert "drop_pending_updates" not in call.params or (
            str(call.params["drop_pending_updates"]).lower() == "false"
        )

    run_adapter(AdapterHarness(messenger), act)


def test_the_menu_shows_the_commands(messenger: FakeTelegram) -> None:
    async def act(harness: AdapterHarness) -> None:
        assert harness.server.commands == {"help": "Show the commands.", "new": "Start anew."}

    run_adapter(AdapterHarness(messenger), act)


def test_a_menu_that_cannot_be_set_stops_nothing(messenger: FakeTelegram) -> None:
    messenger.server.fail("setMyCommands", too_many(60))

    async def act(harness: AdapterHarness) -> None:
        assert harness.adapter.is_connected
        assert harness.server.commands == {}

    run_adapter(AdapterHarness(messenger), act)


def test_the_configured_adapter_shows_what_the_gateway_can_do(messenger: FakeTelegram) -> None:
    extra = NamedValues({"base_url": messenger.server.base_url})
    adapter = SPEC.build(PlatformSettings(token=messenger.server.token, extra=extra), Path())

    async def main() -> None:
        await adapter.connect(RecordingServices())
        await adapter.disconnect()

    asyncio.run(main())
    assert list(messenger.server.commands) == [command.name for command in commands_for("gateway")]


def test_a_proxy_of_the_environment_is_used(
    messenger: FakeTelegram, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For those whose network does not let them reach Telegram."""
    monkeypatch.setenv("HTTP_PROXY", messenger.server.base_url)
    monkeypatch.setenv("http_proxy", messenger.server.base_url)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)

    async def act(harness: AdapterHarness) -> None:
        harness.server.write("Hello")
        assert await harness.services.texts(1) == ["Hello"]

    run_adapter(AdapterHarness(messenger, base_url="http://telegram.invalid"), act)


def test_pauses_grow_until_it_works_again(messenger: FakeTelegram) -> None:
    async def act(harness: AdapterHarness) -> None:
        await harness.is_polling()
        harness.server.cut("getUpdates", times=3)
        harness.server.fail(
            "getUpdates",
            Refusal(500, "Internal Server Error"),
            Refusal(409, "Conflict: terminated by other getUpdates request"),
        )
        harness.server.babble("getUpdates")
        await harness.go_on()
        assert harness.pauses == [1, 2, 4, 8, 16, 32]
        await harness.until(lambda: not harness.server.waiting)
        harness.server.cut("getUpdates")
        await harness.go_on()
        assert harness.pauses[6:] == [1]

    run_adapter(AdapterHarness(messenger), act)


def test_telegram_says_how_long_to_wait(messenger: FakeTelegram) -> None:
    async def act(harness: AdapterHarness) -> None:
        await harness.is_polling()
        harness.server.fail("getUpdates", too_many(17))
        await harness.go_on()
        assert harness.pauses == [17]

    run_adapter(AdapterHarness(messenger), act)


def test_a_token_that_is_taken_back_is_no_end(messenger: FakeTelegram) -> None:
    harness = AdapterHarness(messenger)
    seen: list[bool] = []
    harness.on_pause = lambda: seen.append(harness.adapter.is_connected)

    async def act(harness: AdapterHarness) -> None:
        await harness.is_polling()
        harness.server.fail("getUpdates", Refusal(401, "Unauthorized"))
        await harness.go_on()
        assert seen == [False]
        assert harness.adapter.is_connected

    run_adapter(harness, act)


def test_while_telegram_is_away_nothing_is_connected(messenger: FakeTelegram) -> None:
    messenger.server.cut("getUpdates")
    with pytest.raises(Unreachable):
        run_adapter(AdapterHarness(messenger), lambda _: at_once(0))


def test_what_nobody_foresaw_is_waited_for(messenger: FakeTelegram) -> None:
    async def act(harness: AdapterHarness) -> None:
        harness.services.fail_with(*[RuntimeError("a bug")] * 20)
        harness.server.write("patient")
        harness.server.write("next")
        assert await harness.services.texts(2) == ["patient", "next"]

    run_adapter(AdapterHarness(messenger), act)


def test_a_store_that_is_away_is_waited_for(messenger: FakeTelegram) -> None:
    async def act(harness: AdapterHarness) -> None:
        harness.services.fail_with(*[Unreachable("away")] * 20)
        harness.server.write("patient")
        assert await harness.services.texts(1) == ["patient"]
        assert max(harness.pauses) == 60
        assert harness.adapter.is_connected

    run_adapter(AdapterHarness(messenger), act)


class KnowsNotEverybody(RecordingServices):
    """Cannot take what somebody says, as a gateway who does not know whether they may say it."""

    def __init__(self, unknown: str) -> None:
        super().__init__()
        self.unknown = {unknown}

    async def accept(self, inbound: Inbound) -> Receipt:
        if inbound.source.user_id in self.unknown:
            raise Unreachable("The sender's access cannot be checked")
        return await super().accept(inbound)


def test_what_cannot_be_taken_yet_holds_up_its_own_chat_alone(messenger: FakeTelegram) -> None:
    harness = AdapterHarness(messenger)
    harness.services = services = KnowsNotEverybody(str(BERT["id"]))
    for person, text in ((ANNA, "One"), (BERT, "Two"), (ANNA, "Three"), (BERT, "Four")):
        harness.server.write(text, user=person)

    async def act(harness: AdapterHarness) -> None:
        assert await services.texts(2) == ["One", "Three"]
        harness.server.write("Five")
        assert await services.texts(3) == ["One", "Three", "Five"], "what comes again is known"
        # From the first that was not taken on, nothing is confirmed.
        await harness.until(lambda: len(harness.server.waiting) == 4)
        services.unknown.clear()
        assert await services.texts(5) == ["One", "Three", "Five", "Two", "Four"]
        await harness.until(lambda: not harness.server.waiting)
        assert len(services.accepted) == 5

    run_adapter(harness, act)


def test_updates_without_numbers_are_not_asked_for_in_a_hurry(messenger: FakeTelegram) -> None:
    async def act(harness: AdapterHarness) -> None:
        await harness.is_polling()
        for result in (b', "result": [{"message": {}}, 5]', b', "result": {}', b""):
            harness.server.babble("getUpdates", b'{"ok": true' + result + b"}")
        await harness.go_on()
        assert harness.pauses == [1, 2, 4]

    run_adapter(AdapterHarness(messenger), act)


def test_the_rest_of_an_album_is_waited_for(messenger: FakeTelegram) -> None:
    def photo(name: str) -> dict[str, Any]:
        return {"media_group_id": "g", "photo": [{"file_id": name, "file_size": 1}]}

    messenger.server.write(**photo("a"), caption="Two pictures")
    harness = AdapterHarness(messenger, album_milliseconds=250)
    harness.on_pause = lambda: messenger.server.write(**photo("b"))

    async def act(harness: AdapterHarness) -> None:
        await harness.services.texts(1)
        (inbound,) = harness.services.accepted
        assert inbound.text == "Two pictures"
        assert [file.reference for file in inbound.attachments] == ["a", "b"]
        assert harness.pauses == [0.25]
        await harness.until(lambda: not harness.server.waiting)

    run_adapter(harness, act)


def photo(name: str, **message: Any) -> dict[str, Any]:
    """A picture of an album."""
    return {"media_group_id": "g", "photo": [{"file_id": name, "file_size": 1}], **message}


def pictures(services: RecordingServices) -> list[str]:
    return [file.reference for inbound in services.accepted for file in inbound.attachments]


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_picture_that_comes_late_is_part_of_the_album(
    messenger: FakeTelegram, is_restarted: bool
) -> None:
    """In a group only one of them names the bot; the others come when they come."""
    first = AdapterHarness(messenger)

    async def act(harness: AdapterHarness) -> None:
        messenger.server.write(**photo("a", chat=GROUP, caption="@hermes_bot Three"))
        await harness.until(lambda: not harness.server.waiting)
        assert pictures(harness.services) == ["a"]
        if not is_restarted:
            await act_late(harness)

    async def act_late(harness: AdapterHarness) -> None:
        messenger.server.write(**photo("b", chat=GROUP))
        messenger.server.write("Nobody is meant", chat=GROUP)
        await harness.until(lambda: not harness.server.waiting)
        messenger.server.write(**photo("c", chat=GROUP))
        messenger.server.write(**photo("x", chat=GROUP, media_group_id="not for the bot"))
        await harness.until(lambda: not harness.server.waiting)

    run_adapter(first, act)
    last = first
    if is_restarted:
        last = AdapterHarness(messenger)
        last.services = RecordingServices(first.services.states)
        run_adapter(last, act_late)
    assert pictures(last.services)[-2:] == ["b", "c"]
    assert {inbound.extra["album"] for inbound in last.services.accepted} == {"g"}


def test_a_caption_that_comes_last_is_waited_for(messenger: FakeTelegram) -> None:
    messenger.server.write(**photo("a", chat=GROUP))
    harness = AdapterHarness(messenger)
    harness.on_pause = lambda: messenger.server.write(
        **photo("b", chat=GROUP, caption="@hermes_bot Two")
    )

    async def act(harness: AdapterHarness) -> None:
        await harness.services.texts(1)
        assert pictures(harness.services) == ["a", "b"]

    run_adapter(harness, act)


class ForgetfulServices(RecordingServices):
    """A gateway whose database is away."""

    is_away = True

    async def load_state(self, name: str) -> str | None:
        if self.is_away:
            raise StoreUnavailable("The database is away.")
        return await super().load_state(name)


def test_an_album_waits_for_the_database(messenger: FakeTelegram) -> None:
    """Whether it is for the bot is known there; other chats do not wait."""
    harness = AdapterHarness(messenger)
    harness.services = services = ForgetfulServices()
    messenger.server.write(**photo("a", chat=GROUP, caption="@hermes_bot One"))
    messenger.server.write("Hello")

    async def act(harness: AdapterHarness) -> None:
        assert await services.texts(1) == ["Hello"]
        services.is_away = False
        assert await services.texts(2) == ["Hello", "One"]

    run_adapter(harness, act)


def test_unreadable_updates_are_counted(messenger: FakeTelegram) -> None:
    async def act(harness: AdapterHarness) -> None:
        harness.server.push({"message": []}, {"message": {"chat": 5}})
        harness.server.write("Hello")
        await harness.services.texts(1)
        assert harness.adapter.unreadable == 2

    run_adapter(AdapterHarness(messenger), act)


def test_markup_that_telegram_refuses_is_sent_as_text(messenger: FakeTelegram) -> None:
    async def act(harness: AdapterHarness) -> None:
        harness.server.write("Hello")
        await harness.services.texts(1)
        harness.server.fail("sendMessage", bad_request("can't parse entities: who knows why"))
        message_id = await harness.adapter.send(PRIVATE, "**bold**", key="k")
        assert (harness.server.sent[0].text, harness.server.sent[0].parse_mode) == (
            "**bold**",
            None,
        )
        harness.server.fail("editMessageText", bad_request("can't parse entities: again"))
        await harness.adapter.edit(PRIVATE, message_id, "**bolder**")
        assert harness.server.sent[0].text == "**bolder**"

    run_adapter(AdapterHarness(messenger), act)


def test_answers_refer_to_the_message(messenger: FakeTelegram) -> None:
    async def act(harness: AdapterHarness) -> None:
        message_id = harness.server.write("@hermes_bot Hello", chat=GROUP)
        await harness.services.texts(1)
        target = Target("telegram", str(GROUP["id"]), reply_to=str(message_id))
        await harness.adapter.send(target, "Hi", key="k")
        assert harness.server.sent[0].reply_to == message_id
        assert "allow_sending_without_reply" in str(
            harness.server.calls_of("sendMessage")[0].params
        )

    run_adapter(AdapterHarness(messenger), act)


def test_the_general_topic_is_not_named(messenger: FakeTelegram) -> None:
    async def act(harness: AdapterHarness) -> None:
        harness.server.write("/help", chat=GROUP)
        await harness.services.texts(1)
        await harness.adapter.send(Target("telegram", str(GROUP["id"]), "1"), "Hi", key="k")
        assert harness.server.sent[0].thread_id is None

    run_adapter(AdapterHarness(messenger), act)


def test_a_reply_to_a_deleted_topic_goes_to_the_chat(messenger: FakeTelegram) -> None:
    async def act(harness: AdapterHarness) -> None:
        harness.server.write("Hello", thread_id=5)
        await harness.services.texts(1)
        harness.server.delete_topic(ANNA["id"], 5)  # type: ignore[arg-type]
        await harness.adapter.send(Target("telegram", "7", "5"), "Hi", key="k")
        assert (harness.server.sent[0].chat_id, harness.server.sent[0].thread_id) == (7, None)

    run_adapter(AdapterHarness(messenger), act)


def test_a_group_that_moved_is_followed(messenger: FakeTelegram) -> None:
    async def act(harness: AdapterHarness) -> None:
        harness.server.write("/help", chat={"id": -5, "type": "group", "title": "Old"})
        await harness.services.texts(1)
        harness.server.move(-5, -1005)
        await harness.adapter.send(Target("telegram", "-5"), "Hi", key="k")
        assert harness.server.sent[0].chat_id == -1005

    run_adapter(AdapterHarness(messenger), act)


def test_files_are_fetched_within_a_limit(messenger: FakeTelegram) -> None:
    messenger.server.files["f"] = b"content"

    async def act(harness: AdapterHarness) -> None:
        assert await harness.adapter.fetch(Attachment("document", "f"), limit=7) == b"content"
        with pytest.raises(Undeliverable, match="over 6"):
            await harness.adapter.fetch(Attachment("document", "f"), limit=6)
        with pytest.raises(Undeliverable, match=r"(?i)wrong file_id"):
            await harness.adapter.fetch(Attachment("document", "gone"), limit=7)

    run_adapter(AdapterHarness(messenger), act)


def test_typing_is_shown_in_the_topic(messenger: FakeTelegram) -> None:
    async def act(harness: AdapterHarness) -> None:
        harness.server.write("Hello", thread_id=5)
        await harness.services.texts(1)
        await harness.adapter.typing(Target("telegram", "7", "5"))
        (call,) = harness.server.calls_of("sendChatAction")
        assert (call.params["action"], call.params["message_thread_id"]) == ("typing", "5")

    run_adapter(AdapterHarness(messenger), act)


def test_the_token_is_in_no_log(messenger: FakeTelegram, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    async def act(harness: AdapterHarness) -> None:
        await harness.is_polling()
        harness.server.cut("getUpdates")
        harness.server.write("a secret message")
        await harness.services.texts(1)
        await harness.go_on()
        with pytest.raises(Undeliverable):
            await harness.adapter.send(Target("telegram", "404"), "Hi", key="k")

    run_adapter(AdapterHarness(messenger), act)
    assert "/bot…/" in caplog.text
    assert messenger.server.token not in caplog.text
    assert "telegram: connected" in caplog.text
    assert "a secret message" not in caplog.text


def test_the_reason_of_a_refused_login_is_said(messenger: FakeTelegram) -> None:
    messenger.refuse_logins()
    harness = AdapterHarness(messenger)
    with pytest.raises(LoginRefused, match="BotFather") as refused:
        run_adapter(harness, lambda _: at_once(0))
    assert "wrong" not in str(refused.value)
