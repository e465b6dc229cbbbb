"""The conformance kit of platforms on Telegram, asked and brought."""

from collections.abc import Iterator

import pytest

from hermes_sessions_testing.platforms import *  # noqa: F403 - that is how the kit is used
from tests.gateway.platforms.telegram.fake_telegram import FakeTelegram, FakeTelegramWebhook


@pytest.fixture(params=[FakeTelegram, FakeTelegramWebhook], ids=["polling", "webhook"])
def messenger(request: pytest.FixtureRequest) -> Iterator[FakeTelegram]:
    messenger = request.param()
    yield messenger
    messenger.close()
