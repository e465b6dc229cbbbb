"""The conformance kit of platforms: what every adapter must do, as tests.

A platform passes when all of it passes. Write a `PlatformWorld`: a server that speaks the
platform's protocol over a real socket, so that the real SDK is exercised. Then import everything
into a test module and supply one fixture, ``world``::

    import pytest

    from hermes_sessions_testing.platforms import *


    @pytest.fixture
    def world():
        world = MyWorld()
        yield world
        world.close()

The tests use the port alone (`hermes_sessions.gateway.platforms.port`), and a gateway that
remembers what it was given. They make no claim on time, so they may run in parallel.
"""
# ruff: noqa: E402 - assertions can only be made to explain themselves before the imports

from __future__ import annotations

from typing import Final

import pytest

#: One module per subject.
SUBJECTS: Final = ("connection", "mapping", "inbound", "outbound")

# Failures then show the values that were compared; it must happen before the modules are imported.
pytest.register_assert_rewrite(*(f"{__name__}.{module}" for module in SUBJECTS))

from hermes_sessions_testing.platforms.connection import TestConnecting
from hermes_sessions_testing.platforms.harness import (
    PlatformWorld,
    RecordingServices,
    Room,
    Sender,
    Shown,
)
from hermes_sessions_testing.platforms.inbound import TestReceiving
from hermes_sessions_testing.platforms.mapping import TestMapping
from hermes_sessions_testing.platforms.outbound import TestEditing, TestSending

__all__ = [
    "PlatformWorld",
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
