"""Messaging sessions, the terminal interface and jobs of the unmodified hermes-agent 0.19.0."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from tests.clients.adopted import FIRST, IS_STOCK, PATIENCE, SECOND, Home
from tests.clients.released import InteractiveClient

pytestmark = pytest.mark.slow

#: A telegram peer writes, starts over, goes back, expires, and comes again after the map is lost.
_PEER = """
import json, os
from pathlib import Path
from gateway.config import GatewayConfig, Platform
from gateway.session import SessionSource, SessionStore
from hermes_state import SessionDB

folder = Path(os.environ["HERMES_HOME"]) / "sessions"
folder.mkdir(exist_ok=True)
source = SessionSource(Platform.TELEGRAM, "42", chat_type="dm", user_id="42", user_name="Ada")
config = GatewayConfig(sessions_dir=folder)
facts = {}
db = SessionDB()


def routed():
    entries = db.load_gateway_routing_entries(scope=str(folder.resolve()))
    return {key: json.loads(text)["session_id"] for key, text in entries.items()}


store = SessionStore(folder, config)
first = store.get_or_create_session(source)
facts["key"] = first.session_key
store.append_to_transcript(
    first.session_id, {"role": "user", "content": "hello peer", "message_id": "77"}
)
store.append_to_transcript(first.session_id, {"role": "assistant", "content": "hi"})
facts["routed first"] = routed()[first.session_key] == first.session_id
facts["has message"] = store.has_platform_message_id(first.session_id, "77")
row = db.get_session(first.session_id)
facts["row"] = {name: row[name] for name in ("source", "user_id", "chat_id", "chat_type")}

second = store.reset_session(first.session_key)
store.append_to_transcript(second.session_id, {"role": "user", "content": "a new start"})
facts["reset"] = db.get_session(first.session_id)["end_reason"]
facts["routed second"] = routed()[first.session_key] == second.session_id

back = store.switch_session(first.session_key, first.session_id)
facts["switched"] = db.get_session(second.session_id)["end_reason"]
facts["reopened"] = db.get_session(first.session_id)["ended_at"]
facts["back"] = back.session_id == first.session_id
facts["transcript"] = [each["content"] for each in store.load_transcript(first.session_id)]
# The map and its file are lost: the same peer finds its session by its row.
db.replace_gateway_routing_entries({}, scope=str(folder.resolve()))
(folder / "sessions.json").unlink(missing_ok=True)
store = SessionStore(folder, config)
again = store.get_or_create_session(source)
facts["recovered"] = again.session_id == first.session_id

# It expires; a session that ended is left at the next start.
store.set_expiry_finalized(again)
facts["finalized"] = db.get_session(first.session_id)["expiry_finalized"]
db.end_session(first.session_id, "session_reset")
later = SessionStore(folder, config).get_or_create_session(source)
facts["left"] = later.session_id != first.session_id
print(json.dumps(facts))
"""


def test_sessions_of_a_messenger(home: Home) -> None:
    facts = json.loads(home.python(_PEER).splitlines()[-1])
    assert facts == {
        "key": "agent:main:telegram:dm:42",
        "routed first": True,
        "has message": True,
        "row": {"source": "telegram", "user_id": "42", "chat_id": "42", "chat_type": "dm"},
        "reset": "session_reset",
        "routed second": True,
        "switched": "session_switch",
        "reopened": None,
        "back": True,
        "transcript": ["hello peer", "hi"],
        "recovered": True,
        "finalized": 1,
        "left": True,
    }


class Terminal:
    """The JSON-RPC of the terminal and desktop interfaces, over pipes."""

    def __init__(self, home: Home) -> None:
        self._log = (home.folder / "terminal.log").open("wb")
        self._process = subprocess.Popen(
            [home.environment / "bin" / "python", "-m", "tui_gateway.entry"],
            cwd=home.place,
            env=home.variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        self._number = 0

    def ask(self, method: str, **params: Any) -> Any:
        """Return the result of a call, or its error."""
        assert self._process.stdin
        assert self._process.stdout
        self._number += 1
        call = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        self._process.stdin.write(json.dumps(call) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith("{") and (found := json.loads(line)).get("id") == self._number:
                return found.get("result", found.get("error"))
        raise AssertionError(f"{method} got no answer")

    def close(self) -> None:
        """End it as its window does."""
        self._process.communicate(timeout=PATIENCE)

    def kill(self) -> None:
        """End it in any case."""
        with self._log, self._process:
            self._process.kill()


def test_the_terminal_interface(home: Home) -> None:
    home.seed_two(then=f"db.set_session_title({FIRST!r}, 'My Fruit Chat')")
    terminal = Terminal(home)
    try:
        listed = terminal.ask("session.list")["sessions"]
        assert [row["id"] for row in listed] == [SECOND, FIRST]
        assert listed[1]["preview"] == "hello pineapple one"
        assert terminal.ask("session.most_recent")["session_id"] == SECOND
        assert terminal.ask("session.resume", session_id="nope")["code"] == 4007
        tree = terminal.ask("projects.tree")["projects"]
        assert [(each["path"], each["sessionCount"]) for each in tree] == [(str(home.place), 2)]
        assert terminal.ask("insights.get", days=7) == {"days": 7, "sessions": 2, "messages": 4}
        resumed = terminal.ask("session.resume", session_id=FIRST)
        assert (resumed["resumed"], resumed["message_count"]) == (FIRST, 2)
        assert [each["text"] for each in resumed["messages"]] == [
            "hello pineapple one",
            "echo: hello pineapple one",
        ]
        named = terminal.ask("session.title", session_id=resumed["session_id"], title="Renamed")
        assert named["title"] == "Renamed"
        assert terminal.ask("session.delete", session_id=SECOND) == {"deleted": SECOND}
        terminal.close()
    finally:
        terminal.kill()
    assert home.ask("[(row['id'], row['title']) for row in db.list_sessions_rich()]") == [
        [FIRST, "Renamed"]
    ]


def test_an_interactive_chat(home: Home) -> None:
    chat = [home.environment / "bin" / "hermes", "chat"]
    with InteractiveClient(chat, home.place, home.variables) as client:
        client.ask("first words", b"echo: first words")
        client.ask("/title My Talk", b"My Talk")
        client.ask("other words", b"echo: other words")
        client.leave()
    [session] = home.ask("db.list_sessions_rich()")
    assert (session["title"], session["end_reason"]) == ("My Talk", "cli_close")

    with InteractiveClient([*chat, "-c"], home.place, home.variables) as client:
        client.type("/undo")
        client.wait_for(b"Type 1/2/3")
        client.ask("1", b"Undid 1 turn")
    [session] = home.ask("db.list_sessions_rich()")
    assert (session["rewind_count"], session["end_reason"]) == (1, None)
    if not IS_STOCK:  # Its own store has the undone turn a second time.
        said = home.ask(f"db.get_messages({session['id']!r})")
        assert [message["content"] for message in said] == ["first words", "echo: first words"]
        assert len(home.ask(f"db.get_messages({session['id']!r}, include_inactive=True)")) == 4


def test_a_scheduled_job(home: Home) -> None:
    home.run("cron", "create", "every 1h", "say something", "--name", "Morning")
    [job] = json.loads((home.folder / "cron" / "jobs.json").read_text())["jobs"]
    home.run("cron", "run", job["id"])
    home.run("cron", "tick")
    [session] = home.ask(f"db.list_cron_job_runs({job['id']!r})")
    assert session["id"].startswith(f"cron_{job['id']}_")
    assert (session["source"], session["end_reason"]) == ("cron", "cron_complete")
    assert session["title"].startswith("Morning")
    assert session["message_count"] == 2
