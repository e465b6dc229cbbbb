"""A healthy store on each database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.care.doctor.harness import Patient
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
def file(tmp_path: Path) -> Patient:
    patient = Patient(tmp_path / "home")
    patient.fill()
    return patient


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


def on_server(home: Path, place: Place, port: int | None = None) -> Patient:
    section = _SECTIONS[place.kind]
    url = place.url(port).partition("?")[0]
    schema = f"\n    schema: {place.name}" if place.kind == "postgresql" else ""
    return Patient(
        home,
        f"sessiondb:\n  provider: {section}\n  {section}:\n    dsn: {url}{schema}\n"
        f"    lock_timeout: 120\n",
    )


@pytest.fixture
def server(place: Place, tmp_path: Path) -> Patient:
    patient = on_server(tmp_path / "home", place)
    patient.fill()
    return patient


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def patient(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Patient]:
    """Any database."""
    if request.param == "sqlite":
        found = Patient(tmp_path / "home")
        found.fill()
        yield found
        return
    server = request.getfixturevalue(request.param)
    place_of, store_of = _SERVERS[request.param]
    with store_of(server, "doctor"):
        found = on_server(tmp_path / "home", place_of(server, "doctor"))
        found.fill()
        yield found
