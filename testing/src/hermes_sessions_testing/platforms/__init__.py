"""The conformance kit for platforms: the tests that every messenger adapter must pass.

Write a `MessengerServer`: a server that speaks the messenger's protocol over a real socket, so that
the tests exercise the real SDK. Then import everything into a test module and supply one fixture,
``messenger``::

    import pytest

    from hermes_sessions_testing.platforms import *


    @pytest.fixture
    def messenger():
        messenger = MyMessengerServer()
        yield messenger
        messenger.close()

The tests use only the port (`hermes_sessions.gateway.platforms.port`) and a gateway that records
what it receives. They do not depend on timing, so they can run in parallel.
"""
# ruff: noqa: E402 - assertion rewriting must be registered before the imports

from __future__ import annotations

from typing import Final

import pytest

#: One module per subject.
SUBJECTS: Final = ("connection", "mapping", "inbound", "outbound")

# Makes failures show the compared values. Must run before these modules are imported.
pytest.register_assert_rewrite(*(f"{__name__}.{module}" for module in SUBJECTS))

from hermes_sessions_testing.platforms.connection import TestConnecting
from hermes_sessions_testing.platforms.harness import (
    MessengerServer,
    RecordingServices,
    Room,
    Sender,
    Shown,
)
from hermes_sessions_testing.platforms.inbound import TestReceiving
from hermes_sessions_testing.platforms.mapping import TestMapping
from hermes_sessions_testing.platforms.outbound import TestEditing, TestSending

#: The old name of `MessengerServer`.
PlatformWorld: Final = MessengerServer

__all__ = [
    "MessengerServer",
    "RecordingServices",
    "Room",
    "Sender",
    "Shown",
    "TestConnecting",
    "TestEditing",
    "TestMapping",
    "TestReceiving",
    "TestSending",
]
