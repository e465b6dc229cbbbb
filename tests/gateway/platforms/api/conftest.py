"""A gateway with the HTTP API."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.gateway.platforms.api.harness import House


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with House(tmp_path) as house:
        yield house


@pytest.fixture
def client(house: House) -> Iterator[httpx.Client]:
    with house.client() as client:
        yield client
