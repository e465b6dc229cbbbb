"""Fixtures of the command-line tests."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.harness import Hermes
from tests.cli.sample_store import populate
from tests.timezones import host_in


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write what is printed to tests/cli/golden"
    )


@pytest.fixture(autouse=True)
def _in_utc() -> Iterator[None]:
    with host_in("UTC"):
        yield


@pytest.fixture
def hermes(tmp_path: Path) -> Hermes:
    """The command on a home that does not exist yet."""
    return Hermes(tmp_path / "home")


@pytest.fixture(scope="session")
def _template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("template") / "state.db"
    populate(path)
    return path


@pytest.fixture
def filled(hermes: Hermes, _template: Path) -> Hermes:
    """The command on a store with one of everything."""
    hermes.home.mkdir()
    shutil.copy2(_template, hermes.store)
    return hermes
