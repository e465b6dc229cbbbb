"""WhatsApp on this machine."""

from collections.abc import Iterator

import pytest

from tests.gateway.platforms.whatsapp.world import WhatsAppWorld


@pytest.fixture
def world() -> Iterator[WhatsAppWorld]:
    world = WhatsAppWorld()
    yield world
    world.close()
