"""Matrix on this machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gateway.platforms.matrix.synapse import Synapse, running_synapse
from tests.gateway.platforms.matrix.synapse_platform import People, SynapsePlatform


@pytest.fixture(scope="session")
def synapse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Synapse]:
    if sys.platform != "linux":
        pytest.skip("there is no Synapse for this system")
    folder = tmp_path_factory.getbasetemp()
    if os.environ.get("PYTEST_XDIST_WORKER"):
        folder = folder.parent  # which all processes of the run share
    with running_synapse(Path(folder) / "synapse") as server:
        yield server


@pytest.fixture(scope="session")
def people(synapse: Synapse) -> People:
    return People(synapse)


@pytest.fixture
def messenger(people: People) -> Iterator[SynapsePlatform]:
    messenger = SynapsePlatform(people)
    yield messenger
    messenger.close()
