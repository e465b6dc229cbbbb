"""``hermes sessions`` and the reports of the unmodified hermes-agent 0.19.0, on each database."""

from __future__ import annotations

import json
import re

import pytest

from tests.clients.adopted import FIRST, IS_STOCK, SECOND, Home

pytestmark = pytest.mark.slow

#: Damages the schema of a file in a way that Hermes's users met.
DAMAGE = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA writable_schema=ON")
connection.execute("INSERT INTO sqlite_master SELECT * FROM sqlite_master WHERE name = ?",
                   (sys.argv[2],))
"""


def listed(home: Home, *options: str) -> list[str]:
    """The ids that ``hermes sessions list`` shows, in its order."""
    return re.findall(r"\d{8}_\d{6}_[0-9a-f]{6}", home.shown("sessions", "list", *options))


def test_an_empty_home(home: Home) -> None:
    assert "No sessions found." in home.shown("sessions", "list")
    assert (home.folder / "state.db").exists()


def test_listing(home: Home) -> None:
    home.seed_two()
    shown = home.shown("sessions", "list")
    for column in ("Preview", "Workspace", "Last Active", "Src", "ID"):
        assert column in shown
    assert "hello pineapple one" in shown
    assert " w1 " in shown
    assert sorted(listed(home)) == [FIRST, SECOND]
    assert sorted(listed(home, "--workspace", "w1")) == [FIRST, SECOND]
    assert "No sessions found." in home.shown("sessions", "list", "--workspace", "zzz")


def test_renaming(home: Home) -> None:
    home.seed_two()
    renamed = home.shown("sessions", "rename", FIRST[:8], "My", "Fruit", "Chat")
    assert f"Session '{FIRST}' renamed to: My Fruit Chat" in renamed
    taken = home.shown("sessions", "rename", SECOND, "My Fruit Chat", status=None)
    assert f"Error: Title 'My Fruit Chat' is already in use by session {FIRST}" in taken
    unknown = home.shown("sessions", "rename", "nope", "X", status=None)
    assert "Session 'nope' not found." in unknown
    shown = home.shown("sessions", "list")
    assert "Title" in shown
    assert "My Fruit Chat" in shown


def test_statistics(home: Home) -> None:
    home.seed_two()
    shown = home.shown("sessions", "stats")
    for words in ("Total sessions: 2", "Total messages: 4", "  cli: 2 sessions"):
        assert words in shown
    assert re.search(r"Database size: \d+\.\d MB", shown)


def test_exporting(home: Home) -> None:
    home.seed_two(then=f"db.set_session_title({FIRST!r}, 'My Fruit Chat')")
    file = home.place / "all.jsonl"
    assert f"Exported 2 sessions to {file}" in home.shown("sessions", "export", str(file))
    assert len(file.read_text().splitlines()) == 2
    line = home.run("sessions", "export", "--session-id", FIRST, "-").stdout
    session = json.loads(line)
    assert len(session.keys() - {"messages"}) >= 46
    assert [len(message) >= 21 for message in session["messages"]] == [True, True]
    told = home.shown("sessions", "export", "notes", "--format", "md", "--session-id", FIRST)
    assert f"Exported 1 session (2 messages) to notes/{FIRST}-my-fruit-chat.md" in told
    assert (home.place / "notes" / f"{FIRST}-my-fruit-chat.md").is_file()
    trace = home.run("sessions", "export", "--format", "trace", "--session-id", FIRST, "-").stdout
    assert "parentUuid" in json.loads(trace.splitlines()[0])


def test_archiving(home: Home) -> None:
    home.seed_two(then=f"db.end_session({FIRST!r}, 'agent_close')")
    home.run("sessions", "archive", "--yes", status=None)
    assert sorted(listed(home)) == [FIRST, SECOND]
    assert "Archived 1 session(s)" in home.shown("sessions", "archive", "--source", "cli", "--yes")
    assert listed(home) == [SECOND]
    assert "Total sessions: 1" in home.shown("sessions", "stats")


def test_pruning(home: Home) -> None:
    home.seed_two(
        then=f"db.end_session({FIRST!r}, 'agent_close'); db.set_session_archived({FIRST!r}, True)"
    )
    assert "No sessions match (started before" in home.shown("sessions", "prune", "--dry-run")
    prune = ("sessions", "prune", "--source", "cli", "--yes")
    assert "No sessions match (source 'cli')." in home.shown(*prune)
    assert "Pruned 1 session(s)." in home.shown(*prune, "--include-archived")
    assert home.ask(f"db.get_session({FIRST!r})") is None


def test_deleting(home: Home) -> None:
    home.seed_two()
    assert f"Deleted session '{SECOND}'." in home.shown("sessions", "delete", SECOND[:8], "--yes")
    assert "Session 'nope' not found." in home.shown(
        "sessions", "delete", "nope", "--yes", status=None
    )
    assert listed(home) == [FIRST]


def test_optimizing_and_repairing(home: Home) -> None:
    home.seed_two()
    assert "Optimized 2 FTS index(es)." in home.shown("sessions", "optimize")
    shown = home.shown("sessions", "repair")
    assert "opens cleanly" in shown
    assert "does not" not in shown


def test_a_damaged_file(home: Home) -> None:
    home.seed_two()
    if home.has_server:
        pytest.skip("the sessions are not in a file")
    damaged = "messages_fts" if IS_STOCK else "messages"
    for command in ("repair", "stats"):
        home.python(DAMAGE, str(home.folder / "state.db"), damaged)
        shown = home.shown("sessions", command)
        if command == "repair":
            assert "does not open cleanly" in shown
            assert f"strategy: {'dedup_schema' if IS_STOCK else 'salvage'}" in shown
            assert "Repaired — 2 sessions recovered." in shown
        else:
            assert "Total sessions: 2" in shown


def test_a_file_of_random_bytes(home: Home) -> None:
    if home.has_server:
        pytest.skip("the sessions are not in a file")
    (home.folder / "state.db").write_bytes(b"this is not a database at all" * 99)
    listing = home.shown("sessions", "list", status=None)
    assert "Error: Could not open session database" in listing
    shown = home.shown("chat", "-q", "hello", "-Q")
    assert "echo: hello" in shown


def test_insights(home: Home) -> None:
    home.seed_two()
    shown = home.shown("insights")
    for words in ("Hermes Insights", "fake-model", "Notable Sessions", "Sessions:          2"):
        assert words in shown


def test_doctor(home: Home) -> None:
    home.seed_two()
    shown = home.shown("doctor", status=None)
    # On a server, this file is that of the client's own side tables.
    assert f"state.db exists ({0 if home.has_server else 2} sessions)" in shown
    if not IS_STOCK:
        store = "sqlite" if not home.has_server else "postgresql|mysql"
        said = re.search(
            rf"Session Store \(hermes-sessions\)\s+✓ ({store}): .+ \(2 sessions\)", shown
        )
        assert said, shown[-500:]


def test_status(home: Home) -> None:
    home.seed_two()
    shown = home.shown("status")
    assert re.search(r"Active:\s+0", shown)


def test_quick_backup(home: Home) -> None:
    home.seed_two()
    shown = home.shown("backup", "--quick")
    assert "snapshot" in shown.lower()
    copies = [*(home.folder / "state-snapshots").rglob("state.db")]
    assert len(copies) == 1
