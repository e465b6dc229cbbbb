"""The conformance kit for platforms is complete, and detects adapters that do not conform."""

import importlib
import inspect
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hermes_sessions.gateway.events import Inbound, Target
from hermes_sessions.gateway.platforms.port import PlatformError, RateLimited
from hermes_sessions.gateway.platforms.telegram.adapter import TelegramAdapter
from hermes_sessions.gateway.platforms.telegram.mapping import InboundReader
from hermes_sessions_testing import platforms
from hermes_sessions_testing.platforms import harness
from hermes_sessions_testing.platforms.connection import TestConnecting as Connecting
from hermes_sessions_testing.platforms.harness import MessengerServer
from hermes_sessions_testing.platforms.inbound import TestReceiving as Receiving
from hermes_sessions_testing.platforms.mapping import TestMapping as Mapping
from hermes_sessions_testing.platforms.outbound import TestEditing as Editing
from hermes_sessions_testing.platforms.outbound import TestSending as Sending
from tests.gateway.platforms.telegram.fake_telegram import FakeTelegram, at_once

Check = Callable[[MessengerServer], None]


def test_every_suite_is_offered() -> None:
    folder = Path(platforms.__file__).parent
    own = {"__init__", "harness"}
    assert {file.stem for file in folder.glob("*.py")} - own == set(platforms.SUBJECTS)
    found = {
        name
        for subject in platforms.SUBJECTS
        for name, suite in inspect.getmembers(
            importlib.import_module(f"{platforms.__name__}.{subject}"), inspect.isclass
        )
        if name.startswith("Test")
    }
    assert found == {name for name in platforms.__all__ if name.startswith("Test")}


class ConfirmsTooEarly(TelegramAdapter):
    async def _offer(self, inbound: Inbound, number: int) -> bool:
        await super()._offer(inbound, number)
        return True


class GivesUpForGood(TelegramAdapter):
    async def _poll(self) -> None:
        await self._receive()


class ForgetsTopics(TelegramAdapter):
    async def send(self, target: Target, text: str, *, key: str) -> str:
        return await super().send(Target(target.platform, target.chat_id), text, key=key)


class WaitsByItself(TelegramAdapter):
    async def send(self, target: Target, text: str, *, key: str) -> str:
        try:
            return await super().send(target, text, key=key)
        except RateLimited:
            return await super().send(target, text, key=key)


class TrustsMarkup(TelegramAdapter):
    async def send(self, target: Target, text: str, *, key: str) -> str:
        return await self._bot.send(
            target.chat_id, text, is_html=True, thread_id=None, reply_to=None
        )


class SwallowsErrors(TelegramAdapter):
    async def send(self, target: Target, text: str, *, key: str) -> str:
        try:
            return await super().send(target, text, key=key)
        except PlatformError:
            return "0"

    async def edit(self, target: Target, message_id: str, text: str) -> None:
        with suppress(PlatformError):
            await super().edit(target, message_id, text)


class TellsNobodyApart(TelegramAdapter):
    async def _offer(self, inbound: Inbound, number: int) -> bool:
        source = replace(inbound.source, user_id="1", chat_id="1", thread_id=None)
        return await super()._offer(replace(inbound, source=source), number)


class StaysConnected(TelegramAdapter):
    @property
    def is_connected(self) -> bool:
        return True


@pytest.fixture
def open_messenger(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[type], FakeTelegram]]:
    # What these adapters never do is not waited for as long as what others do late.
    monkeypatch.setattr(harness, "_PATIENCE", 0.5)
    messenger = FakeTelegram()

    def open_with(kind: type[TelegramAdapter]) -> FakeTelegram:
        monkeypatch.setattr(
            messenger,
            "make_adapter",
            lambda: kind(messenger.settings(), sleep=at_once),
            raising=True,
        )
        return messenger

    yield open_with
    messenger.close()


@pytest.mark.parametrize(
    ("kind", "check"),
    [
        (
            ConfirmsTooEarly,
            lambda messenger: Receiving().test_a_message_that_cannot_be_stored_is_retried(
                messenger, PlatformError("no")
            ),
        ),
        (GivesUpForGood, Receiving().test_a_lost_connection_is_made_again),
        (
            ForgetsTopics,
            lambda messenger: Sending().test_a_reply_is_shown_where_it_belongs(messenger, "topic"),
        ),
        (WaitsByItself, Sending().test_one_message_too_many),
        (TrustsMarkup, Sending().test_no_markup_is_refused),
        (SwallowsErrors, Sending().test_a_chat_that_is_closed),
        (SwallowsErrors, Sending().test_a_chat_that_does_not_exist),
        (SwallowsErrors, Sending().test_a_connection_that_is_lost),
        (SwallowsErrors, Editing().test_a_message_that_is_gone),
        (TellsNobodyApart, Mapping().test_people_are_told_apart),
        (TellsNobodyApart, Mapping().test_rooms_are_told_apart),
        (StaysConnected, Connecting().test_it_says_whether_it_is_connected),
    ],
)
def test_the_kit_notices(
    open_messenger: Callable[[type], FakeTelegram], kind: type[TelegramAdapter], check: Check
) -> None:
    failed: tuple[Any, ...] = (AssertionError, TimeoutError, PlatformError, pytest.fail.Exception)
    with pytest.raises(failed):
        check(open_messenger(kind))


def test_the_kit_notices_who_listens_to_programs(
    open_messenger: Callable[[type], FakeTelegram], monkeypatch: pytest.MonkeyPatch
) -> None:
    read = InboundReader.read

    def without_look(self: InboundReader, update: Any, **options: Any) -> Inbound | None:
        update["message"]["from"] = {**update["message"]["from"], "is_bot": False}
        return read(self, update, **options)

    monkeypatch.setattr(InboundReader, "read", without_look)
    with pytest.raises(AssertionError):
        Mapping().test_programs_are_not_listened_to(open_messenger(TelegramAdapter))
