"""The adapter for Telegram: what is its own, besides what every platform does."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes_sessions.agent.command_table import commands_for
from hermes_sessions.config.settings import PlatformSettings
from hermes_sessions.errors import StoreUnavailable
from hermes_sessions.gateway.events import Attachment, Inbound, Receipt, Target
from hermes_sessions.gateway.platforms.port import LoginRefused, Undeliverable, Unreachable
from hermes_sessions.gateway.platforms.telegram.adapter import TelegramAdapter
from hermes_sessions.gateway.platforms.telegram.spec import make_adapter
from hermes_sessions.testing.platforms import RecordingServices
from hermes_sessions.testing.telegram_server import (
    ANNA,
    BERT,
    GROUP,
    Refusal,
    bad_request,
    too_many,
)
from tests.gateway.platforms.telegram.fake_telegram import TelegramWorld, at_once

PRIVATE = Target("telegram", str(ANNA["id"]))


@pytest.fixture
def world() -> Iterator[TelegramWorld]:
    world = TelegramWorld()
    yield world
    world.close()


class Scene:
    """A connected adapter that remembers its pauses."""

    def __init__(self, world: TelegramWorld, **settings: Any) -> None:
        self.server = world.server
        self.services = RecordingServices()
        self.pauses: list[float] = []
        self.on_pause: Callable[[], object] = lambda: None
        commands = [("help", "Show the commands."), ("new", "Start anew.")]
        self.adapter = TelegramAdapter(
            world.settings(**settings), commands=commands, sleep=self._pause
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


def play(scene: Scene, act: Callable[[Scene], Awaitable[None]]) -> None:
    async def main() -> None:
        await scene.adapter.connect(scene.services)
        try:
            await act(scene)
        finally:
            await scene.adapter.disconnect()

    asyncio.run(main())


def test_a_webhook_of_earlier_is_taken_back_and_what_waits_stays(world: TelegramWorld) -> None:
    world.server.write("before")

    async def act(scene: Scene) -> None:
        assert await scene.services.texts(1) == ["before"]
        (call,) = scene.server.calls_of("deleteWebhook")
        assert "drop_pending_updates" not in call.params or (
            str(call.params["drop_pending_updates"]).lower() == "false"
        )

    play(Scene(world), act)


def test_the_menu_shows_the_commands(world: TelegramWorld) -> None:
    async def act(scene: Scene) -> None:
        assert scene.server.commands == {"help": "Show the commands.", "new": "Start anew."}

    play(Scene(world), act)


def test_a_menu_that_cannot_be_set_stops_nothing(world: TelegramWorld) -> None:
    world.server.fail("setMyCommands", too_many(60))

    async def act(scene: Scene) -> None:
        assert scene.adapter.is_connected
        assert scene.server.commands == {}

    play(Scene(world), act)


def test_the_configured_adapter_shows_what_the_gateway_can_do(world: TelegramWorld) -> None:
    adapter = make_adapter(
        PlatformSettings(
            **dict.fromkeys(PlatformSettings.__annotations__)
            | {"token": world.server.token, "extra": {"base_url": world.server.base_url}}
        ),
        Path(),
    )

    async def main() -> None:
        await adapter.connect(RecordingServices())
        await adapter.disconnect()

    asyncio.run(main())
    assert list(world.server.commands) == [command.name for command in commands_for("gateway")]


def test_a_proxy_of_the_environment_is_used(
    world: TelegramWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For those whose network does not let them reach Telegram."""
    monkeypatch.setenv("HTTP_PROXY", world.server.base_url)
    monkeypatch.setenv("http_proxy", world.server.base_url)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)

    async def act(scene: Scene) -> None:
        scene.server.write("Hello")
        assert await scene.services.texts(1) == ["Hello"]

    play(Scene(world, base_url="http://telegram.invalid"), act)


def test_pauses_grow_until_it_works_again(world: TelegramWorld) -> None:
    async def act(scene: Scene) -> None:
        await scene.is_polling()
        scene.server.cut("getUpdates", times=3)
        scene.server.fail(
            "getUpdates",
            Refusal(500, "Internal Server Error"),
            Refusal(409, "Conflict: terminated by other getUpdates request"),
        )
        scene.server.babble("getUpdates")
        await scene.go_on()
        assert scene.pauses == [1, 2, 4, 8, 16, 32]
        await scene.until(lambda: not scene.server.waiting)
        scene.server.cut("getUpdates")
        await scene.go_on()
        assert scene.pauses[6:] == [1]

    play(Scene(world), act)


def test_telegram_says_how_long_to_wait(world: TelegramWorld) -> None:
    async def act(scene: Scene) -> None:
        await scene.is_polling()
        scene.server.fail("getUpdates", too_many(17))
        await scene.go_on()
        assert scene.pauses == [17]

    play(Scene(world), act)


def test_a_token_that_is_taken_back_is_no_end(world: TelegramWorld) -> None:
    scene = Scene(world)
    seen: list[bool] = []
    scene.on_pause = lambda: seen.append(scene.adapter.is_connected)

    async def act(scene: Scene) -> None:
        await scene.is_polling()
        scene.server.fail("getUpdates", Refusal(401, "Unauthorized"))
        await scene.go_on()
        assert seen == [False]
        assert scene.adapter.is_connected

    play(scene, act)


def test_while_telegram_is_away_nothing_is_connected(world: TelegramWorld) -> None:
    world.server.cut("getUpdates")
    with pytest.raises(Unreachable):
        play(Scene(world), lambda _: at_once(0))


def test_what_nobody_foresaw_is_waited_for(world: TelegramWorld) -> None:
    async def act(scene: Scene) -> None:
        scene.services.fail_with(*[RuntimeError("a bug")] * 20)
        scene.server.write("patient")
        scene.server.write("next")
        assert await scene.services.texts(2) == ["patient", "next"]

    play(Scene(world), act)


def test_a_store_that_is_away_is_waited_for(world: TelegramWorld) -> None:
    async def act(scene: Scene) -> None:
        scene.services.fail_with(*[Unreachable("away")] * 20)
        scene.server.write("patient")
        assert await scene.services.texts(1) == ["patient"]
        assert max(scene.pauses) == 60
        assert scene.adapter.is_connected

    play(Scene(world), act)


class KnowsNotEverybody(RecordingServices):
    """Cannot take what somebody says, as a gateway who does not know whether they may say it."""

    def __init__(self, unknown: str) -> None:
        super().__init__()
        self.unknown = {unknown}

    async def accept(self, inbound: Inbound) -> Receipt:
        if inbound.source.user_id in self.unknown:
            raise Unreachable("It is not known who may talk to me")
        return await super().accept(inbound)


def test_what_cannot_be_taken_yet_holds_up_its_own_chat_alone(world: TelegramWorld) -> None:
    scene = Scene(world)
    scene.services = services = KnowsNotEverybody(str(BERT["id"]))
    for person, text in ((ANNA, "One"), (BERT, "Two"), (ANNA, "Three"), (BERT, "Four")):
        scene.server.write(text, user=person)

    async def act(scene: Scene) -> None:
        assert await services.texts(2) == ["One", "Three"]
        scene.server.write("Five")
        assert await services.texts(3) == ["One", "Three", "Five"], "what comes again is known"
        # From the first that was not taken on, nothing is confirmed.
        await scene.until(lambda: len(scene.server.waiting) == 4)
        services.unknown.clear()
        assert await services.texts(5) == ["One", "Three", "Five", "Two", "Four"]
        await scene.until(lambda: not scene.server.waiting)
        assert len(services.accepted) == 5

    play(scene, act)


def test_updates_without_numbers_are_not_asked_for_in_a_hurry(world: TelegramWorld) -> None:
    async def act(scene: Scene) -> None:
        await scene.is_polling()
        for result in (b', "result": [{"message": {}}, 5]', b', "result": {}', b""):
            scene.server.babble("getUpdates", b'{"ok": true' + result + b"}")
        await scene.go_on()
        assert scene.pauses == [1, 2, 4]

    play(Scene(world), act)


def test_the_rest_of_an_album_is_waited_for(world: TelegramWorld) -> None:
    def photo(name: str) -> dict[str, Any]:
        return {"media_group_id": "g", "photo": [{"file_id": name, "file_size": 1}]}

    world.server.write(**photo("a"), caption="Two pictures")
    scene = Scene(world, album_milliseconds=250)
    scene.on_pause = lambda: world.server.write(**photo("b"))

    async def act(scene: Scene) -> None:
        await scene.services.texts(1)
        (inbound,) = scene.services.accepted
        assert inbound.text == "Two pictures"
        assert [file.reference for file in inbound.attachments] == ["a", "b"]
        assert scene.pauses == [0.25]
        await scene.until(lambda: not scene.server.waiting)

    play(scene, act)


def photo(name: str, **message: Any) -> dict[str, Any]:
    """A picture of an album."""
    return {"media_group_id": "g", "photo": [{"file_id": name, "file_size": 1}], **message}


def pictures(services: RecordingServices) -> list[str]:
    return [file.reference for inbound in services.accepted for file in inbound.attachments]


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_picture_that_comes_late_is_part_of_the_album(
    world: TelegramWorld, is_restarted: bool
) -> None:
    """In a group only one of them names the bot; the others come when they come."""
    first = Scene(world)

    async def act(scene: Scene) -> None:
        world.server.write(**photo("a", chat=GROUP, caption="@hermes_bot Three"))
        await scene.until(lambda: not scene.server.waiting)
        assert pictures(scene.services) == ["a"]
        if not is_restarted:
            await act_late(scene)

    async def act_late(scene: Scene) -> None:
        world.server.write(**photo("b", chat=GROUP))
        world.server.write("Nobody is meant", chat=GROUP)
        await scene.until(lambda: not scene.server.waiting)
        world.server.write(**photo("c", chat=GROUP))
        world.server.write(**photo("x", chat=GROUP, media_group_id="not for the bot"))
        await scene.until(lambda: not scene.server.waiting)

    play(first, act)
    last = first
    if is_restarted:
        last = Scene(world)
        last.services = RecordingServices(first.services.states)
        play(last, act_late)
    assert pictures(last.services)[-2:] == ["b", "c"]
    assert {inbound.extra["album"] for inbound in last.services.accepted} == {"g"}


def test_a_caption_that_comes_last_is_waited_for(world: TelegramWorld) -> None:
    world.server.write(**photo("a", chat=GROUP))
    scene = Scene(world)
    scene.on_pause = lambda: world.server.write(**photo("b", chat=GROUP, caption="@hermes_bot Two"))

    async def act(scene: Scene) -> None:
        await scene.services.texts(1)
        assert pictures(scene.services) == ["a", "b"]

    play(scene, act)


class ForgetfulServices(RecordingServices):
    """A gateway whose database is away."""

    is_away = True

    async def load_state(self, name: str) -> str | None:
        if self.is_away:
            raise StoreUnavailable("The database is away.")
        return await super().load_state(name)


def test_an_album_waits_for_the_database(world: TelegramWorld) -> None:
    """Whether it is for the bot is known there; other chats do not wait."""
    scene = Scene(world)
    scene.services = services = ForgetfulServices()
    world.server.write(**photo("a", chat=GROUP, caption="@hermes_bot One"))
    world.server.write("Hello")

    async def act(scene: Scene) -> None:
        assert await services.texts(1) == ["Hello"]
        services.is_away = False
        assert await services.texts(2) == ["Hello", "One"]

    play(scene, act)


def test_unreadable_updates_are_counted(world: TelegramWorld) -> None:
    async def act(scene: Scene) -> None:
        scene.server.push({"message": []}, {"message": {"chat": 5}})
        scene.server.write("Hello")
        await scene.services.texts(1)
        assert scene.adapter.unreadable == 2

    play(Scene(world), act)


def test_markup_that_telegram_refuses_is_sent_as_text(world: TelegramWorld) -> None:
    async def act(scene: Scene) -> None:
        scene.server.write("Hello")
        await scene.services.texts(1)
        scene.server.fail("sendMessage", bad_request("can't parse entities: who knows why"))
        message_id = await scene.adapter.send(PRIVATE, "**bold**", key="k")
        assert (scene.server.sent[0].text, scene.server.sent[0].parse_mode) == ("**bold**", None)
        scene.server.fail("editMessageText", bad_request("can't parse entities: again"))
        await scene.adapter.edit(PRIVATE, message_id, "**bolder**")
        assert scene.server.sent[0].text == "**bolder**"

    play(Scene(world), act)


def test_answers_refer_to_the_message(world: TelegramWorld) -> None:
    async def act(scene: Scene) -> None:
        message_id = scene.server.write("@hermes_bot Hello", chat=GROUP)
        await scene.services.texts(1)
        target = Target("telegram", str(GROUP["id"]), reply_to=str(message_id))
        await scene.adapter.send(target, "Hi", key="k")
        assert scene.server.sent[0].reply_to == message_id
        assert "allow_sending_without_reply" in str(scene.server.calls_of("sendMessage")[0].params)

    play(Scene(world), act)


def test_the_general_topic_is_not_named(world: TelegramWorld) -> None:
    async def act(scene: Scene) -> None:
        scene.server.write("/help", chat=GROUP)
        await scene.services.texts(1)
        await scene.adapter.send(Target("telegram", str(GROUP["id"]), "1"), "Hi", key="k")
        assert scene.server.sent[0].thread_id is None

    play(Scene(world), act)


def test_a_reply_to_a_deleted_topic_goes_to_the_chat(world: TelegramWorld) -> None:
    async def act(scene: Scene) -> None:
        scene.server.write("Hello", thread_id=5)
        await scene.services.texts(1)
        scene.server.delete_topic(ANNA["id"], 5)  # type: ignore[arg-type]
        await scene.adapter.send(Target("telegram", "7", "5"), "Hi", key="k")
        assert (scene.server.sent[0].chat_id, scene.server.sent[0].thread_id) == (7, None)

    play(Scene(world), act)


def test_a_group_that_moved_is_followed(world: TelegramWorld) -> None:
    async def act(scene: Scene) -> None:
        scene.server.write("/help", chat={"id": -5, "type": "group", "title": "Old"})
        await scene.services.texts(1)
        scene.server.move(-5, -1005)
        await scene.adapter.send(Target("telegram", "-5"), "Hi", key="k")
        assert scene.server.sent[0].chat_id == -1005

    play(Scene(world), act)


def test_files_are_fetched_within_a_limit(world: TelegramWorld) -> None:
    world.server.files["f"] = b"content"

    async def act(scene: Scene) -> None:
        assert await scene.adapter.fetch(Attachment("document", "f"), limit=7) == b"content"
        with pytest.raises(Undeliverable, match="over 6"):
            await scene.adapter.fetch(Attachment("document", "f"), limit=6)
        with pytest.raises(Undeliverable, match=r"(?i)wrong file_id"):
            await scene.adapter.fetch(Attachment("document", "gone"), limit=7)

    play(Scene(world), act)


def test_typing_is_shown_in_the_topic(world: TelegramWorld) -> None:
    async def act(scene: Scene) -> None:
        scene.server.write("Hello", thread_id=5)
        await scene.services.texts(1)
        await scene.adapter.typing(Target("telegram", "7", "5"))
        (call,) = scene.server.calls_of("sendChatAction")
        assert (call.params["action"], call.params["message_thread_id"]) == ("typing", "5")

    play(Scene(world), act)


def test_the_token_is_in_no_log(world: TelegramWorld, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    async def act(scene: Scene) -> None:
        await scene.is_polling()
        scene.server.cut("getUpdates")
        scene.server.write("a secret message")
        await scene.services.texts(1)
        await scene.go_on()
        with pytest.raises(Undeliverable):
            await scene.adapter.send(Target("telegram", "404"), "Hi", key="k")

    play(Scene(world), act)
    assert "/bot…/" in caplog.text
    assert world.server.token not in caplog.text
    assert "telegram: connected" in caplog.text
    assert "a secret message" not in caplog.text


def test_the_reason_of_a_refused_login_is_said(world: TelegramWorld) -> None:
    world.refuse_logins()
    scene = Scene(world)
    with pytest.raises(LoginRefused, match="BotFather") as refused:
        play(scene, lambda _: at_once(0))
    assert "wrong" not in str(refused.value)
