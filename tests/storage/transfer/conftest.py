"""Fixtures of the transfer tests."""

from pathlib import Path

import pytest

from tests.storage.transfer.stores import NewStore, stores_in


@pytest.fixture
def new_store(tmp_path: Path, request: pytest.FixtureRequest) -> NewStore:
    return stores_in(tmp_path, request)
