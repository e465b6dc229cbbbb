"""WhatsApp on this machine."""

from collections.abc import Iterator

import pytest

from tests.gateway.platforms.whatsapp.fake_whatsapp import WhatsAppWorld


@pytest.fixture
def world() -> Iterator[WhatsAppWorld]:
    world = WhatsAppWorld()
    yield world
    world.close()
