"""`hermes doctor` and `hermes status` as a user runs them; the checks are in tests/care/doctor."""

from __future__ import annotations

from pathlib import Path

from hermes_sessions.gateway.events import Inbound
from hermes_sessions.gateway.inbound_spool import Spool, spool_directory
from hermes_sessions.model.source import Platform, SessionSource
from hermes_sessions.storage.repositories.processes import Processes
from tests.cli.harness import NOW, Hermes


def test_a_healthy_store(filled: Hermes) -> None:
    filled.home.chmod(0o700)
    result = filled.call("doctor")
    assert (result.code, result.err) == (0, "")
    assert result.out.splitlines()[-1].startswith("Healthy: ")
    assert filled.call("doctor", "--full").code == 0
    assert filled.call("doctor", "--fix", "--plain").code == 0


def test_a_wrong_configuration_cannot_be_looked_at(filled: Hermes) -> None:
    (filled.home / "config.yaml").write_text("sessiondb:\n  provider: 7\n")
    result = filled.call("doctor", "--json")
    assert (result.code, result.out) == (2, "")


def test_the_real_command(filled: Hermes) -> None:
    filled.home.chmod(0o700)
    result = filled.run("doctor", "--json")
    assert (result.code, result.err) == (0, "")
    assert result.json["state"] == "healthy"


def test_status_of_a_healthy_store(filled: Hermes) -> None:
    result = filled.call("status")
    assert (result.code, result.err) == (0, "")
    lines = dict(line.split(": ", 1) for line in result.out.splitlines())
    assert lines["Store"] == f"{filled.store} (sqlite)"
    assert lines["State"] == "healthy"
    assert lines["Sessions"].startswith("10 (")
    assert (lines["Search index"], lines["Gateway"]) == ("complete", "not running")


def test_status_before_the_first_session(hermes: Hermes) -> None:
    result = hermes.call("status")
    assert (result.code, "There is no store yet" in result.out) == (0, True)
    assert not hermes.home.exists()


def test_status_of_a_store_that_is_not_a_database(filled: Hermes) -> None:
    filled.store.write_bytes(b"Dear diary, " * 100)
    result = filled.call("status")
    assert result.code == 1
    assert f"State: down: {filled.store} is not a database." in result.out
    assert result.out.splitlines()[-1] == "For details and next steps, run: hermes doctor"
    document = filled.call("status", "--json").json
    assert (document["state"], document["sessions"]) == ("down", None)


def test_status_tells_what_runs_and_what_waits(filled: Hermes) -> None:
    with filled.db() as db:
        Processes(db.store).register("main", "gateway")
    spool = Spool(spool_directory(filled.home))
    spool.append(Inbound(SessionSource(Platform.TELEGRAM, "1", user_id="u"), "Hello", "1"))
    result = filled.call("status", now=NOW + 5)
    spool.close()
    assert result.code == 1
    assert "Gateway: running (1)" in result.out
    assert "Waiting to be stored: 0 from chats, 1 from messengers" in result.out
    assert "State: degraded: 1 in " in result.out


def test_nothing_is_made_by_looking(hermes: Hermes, tmp_path: Path) -> None:
    assert hermes.call("doctor").code == 0
    assert list(tmp_path.iterdir()) == []


def test_status_beside_a_spool_that_cannot_be_read(filled: Hermes) -> None:
    (filled.home / "spool").write_text("no directory")
    (filled.home / "spool").chmod(0o600)
    assert filled.run("status", "--json").json["waiting"] == {"chat": None, "gateway": 0}
    assert "an unknown number from chats, 0 from messengers" in filled.run("status").out
