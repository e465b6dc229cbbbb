"""A gateway with the local socket."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gateway.platforms.local.harness import LocalHarness


@pytest.fixture
def tmp_path(short_path: Path) -> Path:
    """The socket is in it."""
    return short_path


@pytest.fixture
def home(tmp_path: Path) -> Iterator[LocalHarness]:
    home = LocalHarness(tmp_path)
    yield home
    home.close()
