"""hermes backup: create, list, verify, restore, prune."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes_sessions import SessionDB
from tests.cli.harness import DAY, NOW, Hermes
from tests.cli.test_error_output import assert_one_line
from tests.servers.server_processes import Server
from tests.servers.stores import postgresql_place

BACKUPS = "backups"


def names(hermes: Hermes, directory: str = BACKUPS) -> list[str]:
    return sorted(path.name for path in (hermes.home / directory).glob("*.hsb"))


def test_there_and_back(filled: Hermes) -> None:
    made = filled.call("backup", "create")
    assert (made.code, made.err) == (0, "")
    [name] = names(filled)
    assert made.out.startswith(f"{filled.home / BACKUPS / name}: 10 sessions, 18 messages, ")
    listed = filled.call("backup", "list")
    assert listed.out.startswith(name)
    assert "complete  image of sqlite: 10 sessions, 18 messages" in listed.out
    assert filled.call("backup", "verify").out == f"{name}: verified, 10 sessions, 18 messages\n"
    with filled.db() as db:
        db.create_session("later", "cli")
    done = filled.call("backup", "restore", "latest", "--yes", "--json").json
    assert done["backup"]["name"] == name
    with filled.db() as db:
        assert db.get_session("later") is None
        assert db.session_count() == 9
    with SessionDB(done["kept"]) as db:
        assert db.get_session("later") is not None


def test_no_store_yet(hermes: Hermes, tmp_path: Path) -> None:
    hermes.home.mkdir()
    missing = f"There is no store in {hermes.store} yet, so there is nothing to back up"
    assert_one_line(hermes.call("backup", "create"), 3, missing)
    named = str(tmp_path / "other.db")
    assert_one_line(hermes.call("backup", "create", named), 3, f"no store in {named} yet,")
    assert list(hermes.home.iterdir()) == []
    assert not Path(named).exists()


def test_a_store_that_was_emptied(filled: Hermes) -> None:
    """It is never mistaken for a new store, and a backup can replace it."""
    with filled.db() as db:
        db.create_session("later", "cli")
    assert filled.call("backup", "create").code == 0
    filled.store.write_bytes(b"")
    for command in (["sessions", "list"], ["sessions", "search", "x"], ["backup", "create"]):
        assert_one_line(filled.call(*command), 3, "it is empty", "hermes backup list")
    refused = filled.call("sessions", "import", str(filled.store), "--into", "new.db")
    assert_one_line(refused, 3, "it is empty", "hermes backup list")
    assert len(names(filled)) == 1
    assert filled.call("backup", "restore", "latest", "--yes").code == 0
    with filled.db() as db:
        assert db.get_session("later") is not None


def test_portable_elsewhere(filled: Hermes, tmp_path: Path) -> None:
    aside = str(tmp_path / "aside")
    made = filled.call("backup", "create", "--portable", "--to", aside, "--json").json
    assert made["backup"]["kind"] == "portable"
    assert made["removed"] == []
    name = made["backup"]["name"]
    assert filled.call("backup", "list").out.startswith("There are no backups in")
    listed = filled.call("backup", "list", "--in", aside, "--json").json
    assert [each["name"] for each in listed["backups"]] == [name]
    checked = filled.call("backup", "verify", name, "--in", aside, "--json").json
    assert checked["backups"][0]["verified"] is True
    target = str(tmp_path / "new.db")
    done = filled.call("backup", "restore", name, "--in", aside, "--into", target, "-y")
    assert done.out == f"Restored 10 sessions, 18 messages to sqlite:///{target}.\n"
    with SessionDB(target) as db:
        assert db.session_count() == 9


def test_another_store(filled: Hermes, tmp_path: Path) -> None:
    with SessionDB(tmp_path / "other.db") as db:
        db.create_session("s", "cli")
    made = filled.call("backup", "create", str(tmp_path / "other.db"))
    assert ": 1 session, 0 messages, " in made.out


def test_the_latest_is_of_this_store(filled: Hermes, tmp_path: Path) -> None:
    """A newer backup of another store is not put in its place."""
    other, third = str(tmp_path / "other.db"), str(tmp_path / "third.db")
    for path in (other, third):
        with SessionDB(path) as db:
            db.create_session("s", "cli")
    filled.call("backup", "create", other, now=NOW + DAY)
    filled.call("backup", "create", third, now=NOW + DAY)
    refused = filled.call("backup", "restore", "latest", "--yes")
    assert_one_line(refused, 1)
    assert "backups of several stores" in refused.err
    with filled.db() as db:
        assert db.session_count() == 9
    own = filled.call("backup", "create", "--json").json["backup"]["name"]
    assert f"image of sqlite:///{other}: 1 session" in filled.call("backup", "list").out
    asked = filled.call("backup", "restore", "latest", stdin="n\n")
    assert f"from sqlite:///{filled.home / 'state.db'}" in asked.err
    done = filled.call("backup", "restore", "latest", "--yes", "--json").json
    assert done["backup"]["name"] == own


def test_asking_first(filled: Hermes) -> None:
    filled.call("backup", "create")
    asked = filled.call("backup", "restore", "latest", stdin="n\n")
    assert asked.code == 1
    assert "10 sessions, 18 messages" in asked.err
    assert "Nothing was changed." in asked.err
    assert not list(filled.home.glob("*.replaced-*"))


def test_rotation(filled: Hermes) -> None:
    (filled.home / "config.yaml").write_text("backups: {keep: 2}\n", encoding="utf-8")
    for day in range(3):
        made = filled.call("backup", "create", now=NOW + day * DAY)
    assert made.out.endswith("Removed 1 old backup.\n")
    assert len(names(filled)) == 2
    filled.call("backup", "create", "--no-prune", now=NOW + 3 * DAY)
    oldest, *others = names(filled)
    assert len(others) == 2
    late = NOW + 3 * DAY
    dry = filled.call("backup", "prune", "--max-age-days", "1.5", "--dry-run", now=late)
    assert dry.out.startswith(f"Would remove {oldest} (")
    refused = filled.call("backup", "prune", stdin="\n", now=late)
    assert (refused.code, len(names(filled))) == (1, 3)
    done = filled.call("backup", "prune", "--yes", "--json", now=late).json
    assert [each["name"] for each in done["removed"]] == [oldest]
    assert sorted(done["kept"]) == others
    filled.call("backup", "prune", "--max-bytes", "0", "-y", "--in", str(filled.home / BACKUPS))
    assert names(filled) == others[-1:]
    none = filled.call("backup", "prune", "--keep", "1")
    assert none.out == "Nothing to remove.\n"


@pytest.mark.parametrize(
    "arguments", [("--keep", "0"), ("--max-age-days", "x"), ("--max-bytes", "-1")]
)
def test_wrong_numbers(filled: Hermes, arguments: tuple[str, str]) -> None:
    assert filled.call("backup", "prune", *arguments).code == 2


def test_a_damaged_backup(filled: Hermes) -> None:
    filled.call("backup", "create")
    [name] = names(filled)
    path = filled.home / BACKUPS / name
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 1
    path.write_bytes(content)
    verified = filled.call("backup", "verify", "latest")
    assert verified.code == 1
    assert "is damaged" in verified.out
    assert filled.call("backup", "verify", "--json").json["backups"][0]["verified"] is False
    before = filled.store.read_bytes()
    restored = filled.call("backup", "restore", name, "--yes")
    assert restored.code == 1
    assert_one_line(restored, 1)
    assert filled.store.read_bytes() == before
    path.write_bytes(content[:-1])
    assert "  damaged" in filled.call("backup", "list").out


def test_a_backup_that_is_not_there(filled: Hermes) -> None:
    result = filled.call("backup", "restore", "nonsense", "--yes")
    assert result.code == 1
    assert_one_line(result, 1)
    verified = filled.call("backup", "verify")
    assert (verified.code, verified.err) == (1, "")
    assert verified.out.startswith("There are no backups in")


def test_a_store_in_use(filled: Hermes) -> None:
    filled.call("backup", "create")
    with filled.db() as db:
        db.session_count()
        refused = filled.call("backup", "restore", "latest", "--yes")
    assert refused.code == 3
    assert "in use by this process" in refused.err


def test_from_the_home_to_the_configured_server(filled: Hermes, postgresql: Server) -> None:
    filled.call("backup", "create")
    url = postgresql_place(postgresql, "unused").new_url()
    (filled.home / "config.yaml").write_text(
        f"sessiondb:\n  provider: postgresql\n  postgresql: {{dsn: '{url.partition('?')[0]}', "
        f"schema: {url.partition('schema=')[2]}}}\n",
        encoding="utf-8",
    )
    done = filled.call("backup", "restore", "latest", "--yes")
    assert done.out.startswith("Restored 10 sessions, 18 messages to postgresql://")
    # A second time it is not empty.
    again = filled.call("backup", "restore", "latest", "--yes")
    assert (again.code, "not empty" in again.err) == (1, True)
    made = filled.call("backup", "create", "--json").json["backup"]
    assert (made["provider"], made["kind"], made["counts"]["messages"]) == (
        "postgresql",
        "portable",
        18,
    )
