"""Slack on this machine."""

from collections.abc import Iterator

import pytest

from tests.gateway.platforms.slack.fake_slack import SlackWorld


@pytest.fixture
def world() -> Iterator[SlackWorld]:
    world = SlackWorld()
    yield world
    world.close()
