"""A gateway with the HTTP API."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.gateway.platforms.api.harness import ApiHarness


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[ApiHarness]:
    with ApiHarness(tmp_path) as harness:
        yield harness


@pytest.fixture
def client(harness: ApiHarness) -> Iterator[httpx.Client]:
    with harness.client() as client:
        yield client
