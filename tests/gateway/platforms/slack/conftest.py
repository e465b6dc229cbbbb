"""Slack on this machine."""

from collections.abc import Iterator

import pytest

from tests.gateway.platforms.slack.fake_slack import FakeSlack


@pytest.fixture
def messenger() -> Iterator[FakeSlack]:
    messenger = FakeSlack()
    yield messenger
    messenger.close()
