"""WhatsApp on this machine."""

from collections.abc import Iterator

import pytest

from tests.gateway.platforms.whatsapp.fake_whatsapp import FakeWhatsApp


@pytest.fixture
def messenger() -> Iterator[FakeWhatsApp]:
    messenger = FakeWhatsApp()
    yield messenger
    messenger.close()
