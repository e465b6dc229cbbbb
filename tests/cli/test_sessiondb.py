"""hermes sessiondb: status, migrate, verify, upgrade."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hermes_sessions import SessionDB
from hermes_sessions.storage.postgresql import migrations as postgresql_migrations
from hermes_sessions.storage.servers.migrations import Migration
from hermes_sessions.storage.sqlite import migrations
from tests.cli.harness import NOW, Hermes
from tests.cli.sample_store import AUTH, PROJECT
from tests.cli.terminal import SLOW_COMMAND, Terminal
from tests.cli.test_error_output import assert_one_line
from tests.cli.test_export_import import MEASURED
from tests.fixtures.hermes import stored
from tests.servers.server_processes import Server
from tests.servers.stores import postgresql_place
from tests.storage.sqlite.disks import on_a_small_disk, read_only


def configure(hermes: Hermes, text: str) -> None:
    (hermes.home / "config.yaml").write_text(text, encoding="utf-8")


def configure_server(hermes: Hermes, server: Server, schema: str) -> None:
    configure(
        hermes,
        f"sessiondb:\n  provider: postgresql\n  postgresql:\n    host: 127.0.0.1\n"
        f"    port: {server.port}\n    user: hermes\n    password: sesame\n"
        f"    database: postgres\n    schema: {schema}\n",
    )


@pytest.fixture
def server_url(postgresql: Server) -> str:
    return postgresql_place(postgresql, "unused").new_url()


# ── the configured store ──────────────────────────────────────────────────────────────────────


def test_from_the_home_to_the_configured_server(
    filled: Hermes, postgresql: Server, server_url: str
) -> None:
    schema = server_url.partition("schema=")[2]
    configure_server(filled, postgresql, schema)
    dry = filled.call("sessiondb", "migrate", "--dry-run")
    assert (dry.code, dry.err) == (0, "")
    assert dry.out.startswith("Would copy 10 sessions (18 messages) from sqlite:///")
    assert dry.out.endswith("to a new store.\n")
    result = filled.call("sessiondb", "migrate")
    assert (result.code, result.err) == (0, "")
    assert result.out == "Migrated 10 sessions, 18 messages, 18 FTS entries in 0.0s\n"
    listed = filled.call("sessions", "search", "token", "--json").json
    assert listed["hits"][0]["session_id"] == AUTH
    again = filled.call("sessiondb", "migrate", "--dry-run", "--json").json
    assert (again["sessions"], again["messages"], again["differences"]) == (0, 0, [])

    status = filled.call("sessiondb", "status")
    assert (status.code, status.err) == (0, "")
    lines = dict(line.split(": ", 1) for line in status.out.splitlines())
    place = f"postgresql://127.0.0.1:{postgresql.port}/postgres ({schema})"
    assert (lines["Provider"], lines["Location"]) == ("postgresql", place)
    assert lines["Version"].startswith("PostgreSQL 1")
    assert (lines["Sessions"], lines["Messages"]) == ("10 (1 archived)", "18")
    assert lines["Connections"].endswith("open, at most 10")
    assert lines["Schema"] == "up to date (0009_integrations)"
    whole = filled.call("sessiondb", "status", "--json")
    assert "sesame" not in whole.out + status.out
    assert whole.json["schema"] == {
        "taken": [
            "0001_base",
            "0002_search",
            "0003_lifecycle",
            "0004_gateway",
            "0006_erasure",
            "0007_holds",
            "0008_changes",
            "0009_integrations",
        ],
        "waiting": [],
        "finishing": [],
    }
    back = filled.call("sessiondb", "migrate", "--from", server_url, "--to", str(filled.store))
    assert (back.code, "did not come from" in back.err) == (1, True)
    new = str(filled.home / "new.db")
    back = filled.call("sessiondb", "migrate", "--from", server_url, "--to", new)
    assert back.err.endswith(f": sessiondb.provider: sqlite, and sessiondb.sqlite.path: {new}\n")
    assert filled.call("sessiondb", "upgrade").out == "The tables are up to date.\n"
    assert filled.call("sessiondb", "upgrade", "--finish").out == "Nothing to finish.\n"


def test_the_same_store_twice(filled: Hermes) -> None:
    assert_one_line(filled.call("sessiondb", "migrate"), 1, "sessiondb.provider is sqlite", "--to")
    assert_one_line(
        filled.call("sessiondb", "migrate", "--to", str(filled.store)), 1, "the same store"
    )
    assert_one_line(
        filled.call("sessiondb", "migrate", "--to", str(filled.store), "--dry-run"),
        1,
        "the same store",
    )


@pytest.mark.parametrize("command", ["list", "search needle"])
def test_commands_that_only_read_create_the_tables_of_a_server(
    hermes: Hermes, postgresql: Server, server_url: str, command: str
) -> None:
    hermes.home.mkdir()
    configure_server(hermes, postgresql, server_url.partition("schema=")[2])
    hermes.call("sessions", *command.split())
    assert "Schema: up to date" in hermes.call("sessiondb", "status").out
    assert not hermes.store.exists()


def test_back_from_a_server(filled: Hermes, server_url: str, tmp_path: Path) -> None:
    filled.call("sessiondb", "migrate", "--to", server_url)
    back = f"sqlite:///{tmp_path}/back.db"
    result = filled.call("sessiondb", "migrate", "--from", server_url, "--to", back)
    assert result.code == 0
    assert result.err == (
        f"To use this store, set in config.yaml: sessiondb.sqlite.path: {tmp_path}/back.db\n"
    )
    verified = filled.call("sessiondb", "verify", str(filled.store), back)
    assert (verified.code, verified.err) == (0, "")
    assert verified.out == "Identical: 10 sessions with 18 messages.\n"
    compared = filled.call("sessiondb", "verify", server_url, back, "--json").json
    assert (compared["same"], compared["differences"]) == (True, [])


def test_the_hint_for_a_server(filled: Hermes, server_url: str) -> None:
    result = filled.call("sessiondb", "migrate", "--to", server_url)
    assert result.err.endswith("sessiondb.provider: postgresql, and sessiondb.postgresql.dsn\n")


# ── the way back to Hermes ────────────────────────────────────────────────────────────────────


def test_a_file_for_hermes(filled: Hermes, tmp_path: Path) -> None:
    target = str(tmp_path / "hermes.db")
    result = filled.call("sessiondb", "export-hermes", target, "--schema", "11")
    assert (result.code, result.err) == (0, "")
    assert result.out.splitlines()[0] == f"Wrote 10 sessions with 18 messages to {target}."
    again = filled.call("sessiondb", "export-hermes", target)
    assert again.code == 1
    assert again.err == f"Error: {target} already exists. Choose a new file.\n"
    whole = filled.call("sessiondb", "export-hermes", str(tmp_path / "22.db"), "--json").json
    assert (whole["schema"], whole["sessions"], whole["messages"]) == (22, 10, 18)


# ── catching up ───────────────────────────────────────────────────────────────────────────────


def test_catching_up_and_finishing(filled: Hermes, tmp_path: Path) -> None:
    target = str(tmp_path / "copy.db")
    assert filled.call("sessiondb", "migrate", "--to", target).code == 0
    with filled.db() as db:
        db.append_message(AUTH, "user", "one more")
        db.set_session_title(PROJECT, "renamed")
    caught_up = filled.call("sessiondb", "migrate", "--to", target, "--since", "1h")
    assert (caught_up.code, caught_up.err) == (0, "")
    assert caught_up.out.splitlines() == [
        "Copied 1 of 2 sessions active since then, 5 messages in 0.0s",
        "To finish, run the command again without --since.",
    ]
    with filled.db() as db:
        db.delete_sessions([PROJECT])
    finished = filled.call("sessiondb", "migrate", "--to", target)
    assert finished.code == 0
    assert "Removed 1 session that the source no longer has." in finished.out
    assert filled.call("sessiondb", "verify", str(filled.store), target).code == 0
    wrong = filled.call("sessiondb", "migrate", "--to", target, "--since", "soon")
    assert wrong.code == 2
    assert "'soon' is not a date" in wrong.err


def test_what_was_changed_in_the_target(filled: Hermes, tmp_path: Path) -> None:
    target = tmp_path / "copy.db"
    filled.call("sessiondb", "migrate", "--to", str(target))
    with SessionDB(target, clock=lambda: NOW) as db:
        db.append_message(AUTH, "user", "written there")
    result = filled.call("sessiondb", "migrate", "--to", str(target))
    assert result.code == 1
    assert result.err.splitlines() == [
        "Error: 1 difference between source and target:",
        f"  {AUTH} was changed in the target after it was copied",
    ]
    found = filled.call("sessiondb", "migrate", "--to", str(target), "--json")
    assert (found.code, found.json["complete"]) == (1, False)
    assert [each["id"] for each in found.json["differences"]] == [AUTH]
    forced = filled.call("sessiondb", "migrate", "--to", str(target), "--merge", "overwrite")
    assert (forced.code, forced.out.splitlines()[-1]) == (0, f"Replaced: {AUTH}")


def test_a_target_with_other_sessions(filled: Hermes, tmp_path: Path) -> None:
    target = tmp_path / "copy.db"
    with SessionDB(target, clock=lambda: NOW) as db:
        db.create_session("x" * 100, "cli")
        for number in range(12):
            db.create_session(f"other {number}", "cli")
        db.set_session_title("other 1", "refactoring auth")
        db.create_session(AUTH, "cli")
    for flags in ([], ["--dry-run"]):
        assert_one_line(
            filled.call("sessiondb", "migrate", "--to", str(target), *flags),
            1,
            "holds 14 sessions that did not come from",
            "--merge skip",
        )
    dry = filled.call("sessiondb", "migrate", "--to", str(target), "--merge", "skip", "--dry-run")
    assert dry.out.splitlines()[1:] == [f"Would skip: {AUTH}"]
    merged = filled.call("sessiondb", "migrate", "--to", str(target), "--merge", "skip")
    assert (merged.code, merged.out.splitlines()[-1]) == (0, f"Skipped: {AUTH}")
    again = filled.call("sessiondb", "migrate", "--to", str(target), "--merge", "overwrite")
    assert again.code == 0
    assert again.err.startswith(f"Note: {AUTH} lost its title, which another session in the target")


def test_many_differences_are_not_all_listed(filled: Hermes, tmp_path: Path) -> None:
    target = tmp_path / "copy.db"
    with filled.db() as db:
        for number in range(12):
            db.create_session(f"new {number}", "cli")
    filled.call("sessiondb", "migrate", "--to", str(target))
    with SessionDB(target, clock=lambda: NOW) as db:
        for number in range(12):
            db.append_message(f"new {number}", "user", "there")
    result = filled.call("sessiondb", "migrate", "--to", str(target))
    assert len(result.err.splitlines()) == 12
    assert result.err.splitlines()[-1] == "  ... and 2 more (--json has all)"


# ── what goes wrong ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["migrate", "--to", "oracle://x/y"], 1, ["no database provider 'oracle'", "sqlite"]),
        (["migrate", "--to", "sqlite://x"], 1, ["not a SQLite URL"]),
        (["migrate", "--to", "postgresql://u:sesame@127.0.0.1:1/db"], 3, ["cannot be reached"]),
        (["migrate", "--to", "/proc/nowhere/copy.db"], 3, ["/proc/nowhere"]),
        (["migrate", "--from", "/nowhere.db", "--to", "copy.db"], 3, ["/nowhere.db", "exist"]),
        (["migrate", "--from", __file__, "--to", "copy.db"], 3, ["not a database"]),
        (["verify", "/nowhere.db", "/nowhere.db"], 3, ["does not exist"]),
        (["status", "/nowhere.db"], 3, ["does not exist"]),
        (["status", "postgresql://u:sesame@127.0.0.1:1/db"], 3, ["cannot be reached"]),
        (["upgrade", "/proc/nowhere/copy.db"], 3, ["/proc/nowhere"]),
    ],
)
def test_wrong_places(
    filled: Hermes,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    code: int,
    words: list[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    result = filled.call("sessiondb", *arguments)
    assert_one_line(result, code, *words)
    assert "sesame" not in result.err
    assert not (tmp_path / "copy.db").exists()


def test_wrong_options(filled: Hermes) -> None:
    assert filled.call("sessiondb", "migrate", "--merge", "both").code == 2
    assert filled.call("sessiondb", "verify", "one").code == 2
    assert filled.call("sessiondb", "migrat").err.count("Did you mean 'migrate'?") == 1


def test_an_older_layout_is_not_changed_by_looking(hermes: Hermes, tmp_path: Path) -> None:
    hermes.home.mkdir()
    stored.unpack("v11", hermes.store)
    before = hermes.store.read_bytes()
    for command in (["migrate", "--to", str(tmp_path / "copy.db")], ["status"]):
        assert_one_line(hermes.call("sessiondb", *command), 3, "upgraded first", "for writing")
    assert hermes.store.read_bytes() == before
    assert hermes.call("sessiondb", "upgrade").code == 0
    moved = hermes.call("sessiondb", "migrate", "--to", str(tmp_path / "copy.db"))
    assert (moved.code, moved.out[:9]) == (0, "Migrated ")


def test_a_file_of_a_later_hermes_is_upgraded_when_you_say_so(hermes: Hermes) -> None:
    hermes.home.mkdir()
    stored.unpack("v22", hermes.store)
    assert_one_line(hermes.call("sessiondb", "status"), 3, f"sessiondb upgrade {hermes.store}")
    done = hermes.call("sessiondb", "upgrade", str(hermes.store))
    assert done.code == 0
    assert done.out.splitlines()[:3] == [
        "Upgraded schema version 22: 30 sessions with 433 messages.",
        f"Backup: {hermes.store}.v22.bak",
        "Kept: async_delegations (1 row)",
    ]
    assert "Taken: telegram_dm_topic_bindings (2 rows): 2 copied into topics" in done.out
    assert "Dropped: messages_fts: a search index of Hermes" in done.out
    assert hermes.call("sessiondb", "upgrade").out == "The tables are up to date.\n"
    assert hermes.call("sessions", "list", "--json").json["sessions"]


def test_the_report_of_an_upgrade_as_json(hermes: Hermes) -> None:
    hermes.home.mkdir()
    stored.unpack("v17", hermes.store)
    upgraded = hermes.call("sessiondb", "upgrade", "--json").json["upgraded"]
    assert (upgraded["version"], upgraded["backup"]) == (17, f"{hermes.store}.v17.bak")
    outcomes = {table["table"]: table["outcome"] for table in upgraded["tables"]}
    assert outcomes["sessions"] == "taken"
    assert outcomes["messages_fts_trigram"] == "dropped"
    assert outcomes["sqlite_sequence"] == "kept"


def test_a_target_that_cannot_be_written(filled: Hermes, tmp_path: Path) -> None:
    folder = tmp_path / "closed"
    folder.mkdir()
    with SessionDB(folder / "copy.db"):
        pass
    result = under(read_only(folder), filled, "migrate", "--to", str(folder / "copy.db"))
    assert result.returncode == 3
    assert "readonly" in result.stderr.splitlines()[-1]


def test_a_full_disk(filled: Hermes, tmp_path: Path) -> None:
    folder, results = tmp_path / "small", tmp_path / "results"
    folder.mkdir()
    with filled.db() as db:
        for _ in range(4):
            db.append_message(AUTH, "user", os.urandom(400_000).hex())
    target = str(folder / "copy.db")
    result = under(on_a_small_disk(folder, 2000, results), filled, "migrate", "--to", target)
    assert result.returncode == 3
    assert "no space is left" in result.stderr
    # With more room, the same command does the rest.
    assert filled.run("sessiondb", "migrate", "--to", target).code == 0
    assert filled.run("sessiondb", "verify", str(filled.store), target).code == 0


def under(prefix: list[str], hermes: Hermes, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*prefix, sys.executable, "-m", "hermes_sessions", "sessiondb", *arguments],
        env=hermes.environ(),
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


def test_the_bars(filled: Hermes, tmp_path: Path) -> None:
    with filled.db() as db:
        for number in range(250):
            db.create_session(f"s{number}", "cli")
            db.append_message(f"s{number}", "user", "words")
    target = str(tmp_path / "copy.db")
    with Terminal(filled, "sessiondb", "migrate", "--to", target, program=SLOW_COMMAND) as terminal:
        assert terminal.finish() == 0
    for label in ("Copying", "Comparing", "Indexing"):
        assert label in terminal.screen
    with Terminal(
        filled, "sessiondb", "migrate", "--to", target, "--plain", program=SLOW_COMMAND
    ) as terminal:
        assert terminal.finish() == 0
    assert "%" not in terminal.screen


# ── steps ─────────────────────────────────────────────────────────────────────────────────────


def test_a_step_that_waits(filled: Hermes, monkeypatch: pytest.MonkeyPatch) -> None:
    step = migrations.Migration("9999_more", "CREATE TABLE more (number INTEGER)")
    monkeypatch.setattr(migrations, "MIGRATIONS", (*migrations.MIGRATIONS, step))
    status = filled.call("sessiondb", "status")
    assert (
        status.out.splitlines()[-1] == "Schema: pending: 9999_more (run: hermes sessiondb upgrade)"
    )
    assert filled.call("sessiondb", "upgrade").out == "Applied step 9999_more.\n"
    assert filled.call("sessiondb", "upgrade", "--json").json == {
        "taken": [],
        "finished": [],
        "finishing": [],
        "upgraded": None,
    }
    status = filled.call("sessiondb", "status")
    assert status.out.splitlines()[-1] == "Schema: up to date (9999_more)"


def test_a_step_that_is_to_finish(
    hermes: Hermes, server_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = Migration("9999_less", ("DROP TABLE compression_locks",), finishing=True)
    monkeypatch.setattr(
        postgresql_migrations, "MIGRATIONS", (*postgresql_migrations.MIGRATIONS, step)
    )
    assert hermes.call("sessiondb", "upgrade", server_url).out.splitlines() == [
        "The tables are up to date.",
        "Steps that require --finish: 9999_less",
    ]
    assert hermes.call("sessiondb", "status", server_url).out.splitlines()[-1] == (
        "Schema: to finish: 9999_less (run: hermes sessiondb upgrade --finish)"
    )
    finished = hermes.call("sessiondb", "upgrade", "--finish", server_url)
    assert finished.out == "Applied step 9999_less.\n"


# ── size ──────────────────────────────────────────────────────────────────────────────────────


def fill(path: Path, name: str, sessions: int, messages: int) -> None:
    """Store as many messages as in a year, with the least effort."""
    with SessionDB(path, clock=lambda: NOW, durability="normal") as db:
        for number in range(sessions):
            db.create_session(f"{name} {number}", "cli")
            db.append_messages(
                f"{name} {number}",
                [
                    {"role": "user", "content": f"message {n} of {number}: {'words ' * 30}"}
                    for n in range(messages)
                ],
            )


def measured(hermes: Hermes, *arguments: str) -> int:
    """Return how many kilobytes a run took."""
    process = hermes.start_program(MEASURED, "sessiondb", *arguments)
    out, err = process.communicate()
    assert process.returncode == 0, err
    return int(out.split()[-1])


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_memory_does_not_grow_with_the_store(
    hermes: Hermes, tmp_path: Path, server_url: str, kind: str
) -> None:
    hermes.home.mkdir()
    target = f"sqlite:///{tmp_path}/copy.db" if kind == "sqlite" else server_url
    fill(hermes.store, "few", 100, 20)
    few = measured(hermes, "migrate", "--to", target)
    fill(hermes.store, "many", 400, 50)
    many = measured(hermes, "migrate", "--to", target)
    assert many - few < 40_000
    assert hermes.call("sessiondb", "verify", str(hermes.store), target).code == 0


@pytest.mark.large
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_memory_for_a_million_messages(
    hermes: Hermes, tmp_path: Path, server_url: str, kind: str
) -> None:
    hermes.home.mkdir()
    target = f"sqlite:///{tmp_path}/copy.db" if kind == "sqlite" else server_url
    fill(hermes.store, "many", 20_000, 50)
    assert measured(hermes, "migrate", "--to", target) < 100_000
