"""Discord on this machine."""

from collections.abc import Iterator

import pytest

from tests.gateway.platforms.discord.fake_discord import DiscordWorld


@pytest.fixture
def world() -> Iterator[DiscordWorld]:
    world = DiscordWorld()
    yield world
    world.close()
