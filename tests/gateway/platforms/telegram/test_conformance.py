"""The conformance kit of platforms on Telegram, asked and brought."""

from collections.abc import Iterator

import pytest

from hermes_sessions.testing.platforms import *  # noqa: F403 - that is how the kit is used
from tests.gateway.platforms.telegram.fake_telegram import TelegramWebhookWorld, TelegramWorld


@pytest.fixture(params=[TelegramWorld, TelegramWebhookWorld], ids=["polling", "webhook"])
def world(request: pytest.FixtureRequest) -> Iterator[TelegramWorld]:
    world = request.param()
    yield world
    world.close()
