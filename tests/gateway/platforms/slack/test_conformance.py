"""The conformance kit of platforms on Slack, over both of its lines."""

from collections.abc import Iterator

import pytest

from hermes_sessions_testing.platforms import *  # noqa: F403 - that is how the kit is used
from tests.gateway.platforms.slack.fake_slack import FakeSlack, Mode


@pytest.fixture(params=["socket", "events"])
def messenger(request: pytest.FixtureRequest) -> Iterator[FakeSlack]:
    mode: Mode = request.param
    messenger = FakeSlack(mode)
    yield messenger
    messenger.close()
