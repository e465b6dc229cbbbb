"""Discord on this machine."""

from collections.abc import Iterator

import pytest

from tests.gateway.platforms.discord.fake_discord import FakeDiscord


@pytest.fixture
def messenger() -> Iterator[FakeDiscord]:
    messenger = FakeDiscord()
    yield messenger
    messenger.close()
