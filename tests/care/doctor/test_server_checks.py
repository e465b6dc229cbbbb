"""Doctor checks of servers, each on a really broken server."""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path

import pytest

from hermes_sessions.config import load_settings
from hermes_sessions.storage.care.doctor.access_checks import opened
from hermes_sessions.storage.care.doctor.check_runner import ExaminedStore, run_checks
from hermes_sessions.storage.care.doctor.environment_checks import CLOCK_CHECKS
from hermes_sessions.storage.care.doctor.report import Report
from hermes_sessions.storage.care.doctor.stalled_work_checks import STALLED_WORK_CHECKS
from tests.care.doctor.conftest import on_server
from tests.care.doctor.harness import SESSION, DoctorHarness
from tests.servers.server_processes import free_port
from tests.servers.stores import Place


def test_a_server_that_is_not_there(place: Place, tmp_path: Path) -> None:
    harness = on_server(tmp_path / "home", place, free_port())
    found = harness.look()
    assert (found.code, found.found) == (1, ["unreachable"])
    assert found.document["state"] == "down"
    assert {"newer-schema", "locked", "damaged-page"} <= set(found.unknown)
    assert "disk-nearly-full" in found.document["absent"]


def test_a_server_that_takes_the_call_and_never_says_a_word(tmp_path: Path) -> None:
    """As one does that is frozen. PostgreSQL's own library has a limit for that."""
    with socket.create_server(("127.0.0.1", 0)) as frozen:
        url = f"mysql://root@127.0.0.1:{frozen.getsockname()[1]}/hermes"
        config = f"sessiondb:\n  provider: mysql\n  mysql:\n    dsn: {url}\n"
        found = DoctorHarness(tmp_path / "home", config).look()
    assert (found.code, found.found) == (1, ["unreachable"])
    assert found.document["state"] == "down"


def test_a_server_that_freezes_in_the_middle_of_a_look(
    server: DoctorHarness, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the doctor has time for is all that it waits: a second, here."""
    monkeypatch.setenv("HERMES_HOME", str(server.home))
    is_frozen = False
    since: list[float] = []
    reports: list[Report] = []

    def stopwatch() -> float:
        if not is_frozen:
            return 0.0
        # The second begins when the first check asks for the time: it begins in any case.
        since.append(time.monotonic())
        return 19.0 + since[-1] - since[0]

    def look() -> None:
        nonlocal is_frozen
        with opened(ExaminedStore(load_settings(), {}, stopwatch=stopwatch, until=20.0)) as subject:
            assert subject.failure is None
            place.server.freeze()
            is_frozen = True
            reports.append(run_checks(subject, (*CLOCK_CHECKS, *STALLED_WORK_CHECKS)))

    looking = threading.Thread(target=look)
    looking.start()
    try:
        looking.join(120)
        assert not looking.is_alive()
    finally:
        place.server.thaw()
        looking.join()
    [report] = reports
    why = {each.condition.name: each.why for each in report.unknown}
    assert {"clock-jump", "clock-skew", "dead-letters"} <= set(why)
    assert str(place.server.port) in why["clock-jump"]
    assert "the time limit was reached" in why["dead-letters"]


def test_before_there_are_tables(place: Place, tmp_path: Path) -> None:
    harness = on_server(tmp_path / "home", place)
    url = place.new_url()
    config = harness.home / "config.yaml"
    if place.kind == "postgresql":
        name = url.rpartition("=")[2]
        config.write_text(config.read_text().replace("schema: doctor", f"schema: {name}"))
    else:
        config.write_text(config.read_text().replace(place.url(), url))
    found = harness.look()
    assert (found.code, found.found, found.unknown) == (0, [], [])
    assert "There is no store yet" in found.document["notes"][0]


def test_a_newer_version_changed_the_tables(server: DoctorHarness, place: Place) -> None:
    place.run("UPDATE store_migrations SET writer_level = 99 WHERE name = '0002_search'")
    found = server.look()
    place.run("UPDATE store_migrations SET writer_level = 1 WHERE name = '0002_search'")
    assert (found.code, found.found) == (1, ["newer-schema"])


def test_a_step_that_was_not_taken(server: DoctorHarness, place: Place) -> None:
    [(name,)] = place.run("SELECT MAX(name) FROM store_migrations WHERE name < 'a'")
    place.run(f"UPDATE store_migrations SET name = 'zzz_another' WHERE name = '{name}'")
    found = server.look()
    place.run(f"UPDATE store_migrations SET name = '{name}' WHERE name = 'zzz_another'")
    assert (found.code, found.found) == (1, ["unfinished-migration"])
    assert found.what("unfinished-migration") == f"Pending: {name}."


def test_who_is_waited_for(server: DoctorHarness, place: Place) -> None:
    with server.db() as db:
        waiter = threading.Thread(target=db.append_message, args=(SESSION, "user", "I wait"))
        with place.holding(f"UPDATE sessions SET title = 'held' WHERE id = '{SESSION}'"):
            waiter.start()
            # A check before the thread waits finds nothing.
            while not (found := server.look()).found:
                pass
        waiter.join()
        assert db.message_count(SESSION) == 201
    assert (found.code, found.found) == (1, ["locked"])
    assert "holds a lock that others wait for" in found.what("locked")
    assert found.document["state"] == "read-only"


def test_clocks_that_differ(server: DoctorHarness) -> None:
    found = server.look(after=-3600)
    assert "clock-skew" in found.found
    assert "ahead of this machine's" in found.what("clock-skew")
    found = server.look(after=3600)
    assert (found.code, found.found) == (1, ["clock-skew"])
    assert "behind this machine's" in found.what("clock-skew")


def test_a_password_is_never_shown(place: Place, tmp_path: Path) -> None:
    harness = on_server(tmp_path / "home", place, free_port())
    config = harness.home / "config.yaml"
    config.write_text(config.read_text().replace("@127", ":sesame@127"))
    found = harness.look()
    assert found.found == ["unreachable"]
    assert "sesame" not in str(found.document)


@pytest.mark.parametrize("provider", ["postgresql", "mysql"])
def test_nothing_says_where_the_server_is(provider: str, tmp_path: Path) -> None:
    harness = DoctorHarness(tmp_path / "home", f"sessiondb:\n  provider: {provider}\n")
    code, out, err = harness.call("doctor")
    assert (code, out) == (2, "")
    assert err.startswith("Error: sessiondb.provider is ")
