"""The programs in examples/ run and print what they promise."""

from __future__ import annotations

import subprocess
import sys
import threading
import urllib.request
from pathlib import Path

import pytest

from hermes_sessions import SessionDB
from tests.servers.server_processes import Server
from tests.servers.stores import postgresql_place

EXAMPLES = Path(__file__).parent.parent / "examples"
#: For a busy machine; an example takes a second.
TIMEOUT = 120


def run(program: str, *arguments: str | Path) -> str:
    result = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLES / program, *arguments],
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_examples_are_short_and_listed() -> None:
    programs = sorted(EXAMPLES.glob("*.py"))
    index = (EXAMPLES / "README.md").read_text()
    tests = Path(__file__).read_text()
    for program in programs:
        assert len(program.read_text().splitlines()) < 60, program.name
        assert f"({program.name})" in index
        assert f'"{program.name}"' in tests


def test_a_conversation_is_stored_and_continued(tmp_path: Path) -> None:
    printed = run("store_conversation.py", tmp_path / "state.db")
    assert printed.splitlines() == [
        "user: Plan a trip to Lisbon.",
        "assistant: Gladly. When do you travel?",
        "user: In May.",
    ]


def test_matches_are_highlighted(tmp_path: Path) -> None:
    printed = run("search_history.py", tmp_path / "state.db")
    assert printed.splitlines() == [
        "2 matches",
        "  user: Why does the build fail with &lt;<mark>libfoo</mark>&gt;?",
        "  assistant: <mark>libfoo</mark> 1.2 is missing from the image.",
        "1 by 'any of the words'",
    ]


def test_visitors_are_remembered(tmp_path: Path) -> None:
    program = [sys.executable, EXAMPLES / "web_handler.py", tmp_path / "state.db", "0"]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as process:
        timer = threading.Timer(TIMEOUT, process.kill)
        timer.start()
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            replies = [
                urllib.request.urlopen(f"{address}/{path}").read().decode()
                for path in ("anna?Hello", "anna?Again", "ben?Hi%20there")
            ]
        finally:
            timer.cancel()
            process.terminate()
    assert replies == [
        "Hello anna, you have written 0 times before.\n",
        "Hello anna, you have written 1 times before.\n",
        "Hello ben, you have written 0 times before.\n",
    ]
    with SessionDB(tmp_path / "state.db") as db:
        assert db.get_messages("web-ben")[0]["content"] == "Hi there"


def test_an_agent_uses_a_tool(tmp_path: Path) -> None:
    printed = run("agent_with_tool.py", tmp_path / "state.db").splitlines()
    assert printed[0] == "There are 12 packs of tea."
    assert '  tool: {"item": "tea", "stock": 12}' in printed


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_a_team_shares_a_store(
    database: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    expected = [
        "anna: ['Summarise the quarterly report.']",
        "ben: ['Summarise the report of last year.']",
        f"operator: 2 messages on {database}",
    ]
    if database == "sqlite":
        assert run("team_store.py", f"sqlite:///{tmp_path}/team.db").splitlines() == expected
        return
    server: Server = request.getfixturevalue("postgresql")
    url = postgresql_place(server, "examples").new_url()
    assert run("team_store.py", url).splitlines() == expected
