"""Slack on this machine."""

from collections.abc import Iterator

import pytest

from tests.gateway.platforms.slack.fake_slack import FakeSlack


@pytest.fixture
def world() -> Iterator[FakeSlack]:
    world = FakeSlack()
    yield world
    world.close()
