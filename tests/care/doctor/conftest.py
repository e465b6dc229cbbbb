"""A healthy store on each database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.care.doctor.harness import DoctorHarness
from tests.servers.stores import (
    Place,
    mysql_place,
    mysql_store,
    postgresql_place,
    postgresql_store,
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-diagnoses", action="store_true", help="write what the doctor prints to golden/"
    )


@pytest.fixture
def file(tmp_path: Path) -> DoctorHarness:
    harness = DoctorHarness(tmp_path / "home")
    harness.fill()
    return harness


_SERVERS = {
    "postgresql": (postgresql_place, postgresql_store),
    "mariadb": (mysql_place, mysql_store),
}
_SECTIONS = {"postgresql": "postgresql", "mariadb": "mysql"}


@pytest.fixture(params=_SERVERS)
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    server = request.getfixturevalue(request.param)
    place_of, store_of = _SERVERS[request.param]
    with store_of(server, "doctor"):
        yield place_of(server, "doctor")


def on_server(home: Path, place: Place, port: int | None = None) -> DoctorHarness:
    section = _SECTIONS[place.kind]
    url = place.url(port).partition("?")[0]
    schema = f"\n    schema: {place.name}" if place.kind == "postgresql" else ""
    return DoctorHarness(
        home,
        f"sessiondb:\n  provider: {section}\n  {section}:\n    dsn: {url}{schema}\n"
        f"    lock_timeout: 120\n",
    )


@pytest.fixture
def server(place: Place, tmp_path: Path) -> DoctorHarness:
    harness = on_server(tmp_path / "home", place)
    harness.fill()
    return harness


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[DoctorHarness]:
    """Any database."""
    if request.param == "sqlite":
        found = DoctorHarness(tmp_path / "home")
        found.fill()
        yield found
        return
    server = request.getfixturevalue(request.param)
    place_of, store_of = _SERVERS[request.param]
    with store_of(server, "doctor"):
        found = on_server(tmp_path / "home", place_of(server, "doctor"))
        found.fill()
        yield found
