"""WhatsApp on this machine."""

from collections.abc import Iterator

import pytest

from tests.gateway.platforms.whatsapp.fake_whatsapp import FakeWhatsApp


@pytest.fixture
def world() -> Iterator[FakeWhatsApp]:
    world = FakeWhatsApp()
    yield world
    world.close()
