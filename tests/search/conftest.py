from collections.abc import Iterator

import pytest

from tests.search.stores import PROVIDERS
from tests.servers.stores import OpenStore


@pytest.fixture(scope="module", params=PROVIDERS)
def open_store(request: pytest.FixtureRequest) -> Iterator[OpenStore]:
    """Opens handles on one store for all tests of a module; once for each database."""
    with PROVIDERS[request.param](request) as open_handle:
        yield open_handle
