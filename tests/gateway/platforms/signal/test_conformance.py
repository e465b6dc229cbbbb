"""The conformance kit of platforms on Signal: over TCP and over a socket."""

from collections.abc import Iterator

import pytest

from hermes_sessions_testing.platforms import *  # noqa: F403 - that is how the kit is used
from tests.gateway.platforms.signal.fake_signal import FakeSignal, FakeSignalSocket


@pytest.fixture(params=[FakeSignal, FakeSignalSocket], ids=["tcp", "socket"])
def messenger(request: pytest.FixtureRequest) -> Iterator[FakeSignal]:
    messenger = request.param()
    yield messenger
    messenger.close()
