"""Released clients in one process with our engine: they open its file with Python's ``sqlite3``."""

from __future__ import annotations

import os
import sqlite3
import subprocess
from contextlib import closing
from itertools import groupby
from pathlib import Path

import pytest

from hermes_sessions import SessionDB
from hermes_sessions_testing.scripted_model import (
    Answer,
    Call,
    RecordedRequest,
    ScriptedModel,
    streamed,
    whole,
)
from tests.clients.released import Client, interpreter
from tests.storage.sqlite.integrity import require_sound
from tests.storage.sqlite.second_sqlite_programs import look_elsewhere

USAGE = {"prompt_tokens": 100, "completion_tokens": 7, "total_tokens": 107}
#: 0.13.0 waits for a subagent; with 0.19.0 that one works in the background, and reports later.
CHILD = {"0.13.0": "the child is done", "0.19.0": "the child has reported"}


def answer(request: RecordedRequest) -> Answer:
    last = request.body["messages"][-1]
    text = str(last["content"])
    if last["role"] == "user" and text.startswith("Delegate") and request.body.get("tools"):
        return streamed(Call("delegate_task", {"goal": "count pears", "context": "-"}), usage=USAGE)
    if last["role"] == "tool":
        text = "the child is done"
    elif "deleg_" in text:
        text = "the child has reported"
    return (streamed if request.body.get("stream") else whole)(f"echo: {text[-40:]}", usage=USAGE)


def contents(store: Path) -> dict[str, list[str]]:
    """What was said in each session, without the results of tools."""
    query = "SELECT session_id, content FROM messages WHERE role <> 'tool' ORDER BY session_id, id"
    with closing(sqlite3.connect(store)) as connection:
        rows = connection.execute(query).fetchall()
    return {
        session: [content for _, content in group if content]
        for session, group in groupby(rows, key=lambda row: str(row[0]))
    }


@pytest.mark.slow
@pytest.mark.fault(
    "A released agent takes snapshots and delegates, with Python's SQLite library beside ours",
    "Every acknowledged message is there, in order; the file is whole",
    on="sqlite",
)
@pytest.mark.parametrize(
    ("release", "whose", "end"),
    [
        ("0.13.0", "ours", "killed"),
        ("0.13.0", "ours", "left"),
        ("0.19.0", "ours", "killed"),
        ("0.19.0", "ours", "left"),
        ("0.19.0", "theirs", "killed"),
    ],
)
def test_snapshots_and_delegation_cost_no_message(
    release: str, whose: str, end: str, tmp_path: Path
) -> None:
    store, expected = tmp_path / "state.db", []
    with ScriptedModel() as model:
        model.respond = answer
        with Client(release, whose, tmp_path, model.base_url) as client:
            for number, words in enumerate(("First words", "Delegate it", "Last words")):
                reply = f"echo: {CHILD[release] if number == 1 else words}"
                client.say(words, reply.encode())
                expected += [words, reply]
                client.say(f"/snapshot create {number}", b"Snapshot created")
                look_elsewhere(str(store))  # Which finds no locks, if the snapshot dropped them.
            if end == "killed":
                client.kill()
            else:
                client.leave()
            acknowledged = client.acknowledged()
    opened = (tmp_path / "neighbours.txt").read_text().splitlines()
    assert len([each for each in opened if "mode=ro" in each]) >= 3, opened
    said = contents(store)
    # The last one may be stored without a chance to acknowledge it.
    assert said.pop("beside")[: len(acknowledged)] == acknowledged
    if (release, whose) != ("0.19.0", "ours"):  # Some of what it asks of ours is not there yet.
        parent, child = said.values()
        assert [each for each in parent if each in expected] == expected
        assert child == ["count pears", "echo: count pears"]
    require_sound(store)


THEIR_STATE = """
import sys
from pathlib import Path
from hermes_state import SessionDB

db = SessionDB(Path(sys.argv[1]))
db.create_session("theirs", "cli", model="m")
db.append_message("theirs", "user", "from the later release")
db.update_token_counts("theirs", input_tokens=7, model="m")
db.close()
"""


@pytest.mark.slow
def test_the_store_after_a_later_release_wrote_it_with_its_own_code(tmp_path: Path) -> None:
    store = tmp_path / "state.db"
    with SessionDB(store) as db:
        db.create_session("ours", "cli")
        db.append_message("ours", "user", "from here")
    environment = {"HOME": str(tmp_path), "HERMES_HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    subprocess.run(
        [interpreter("0.19.0"), "-c", THEIR_STATE, store],
        cwd=tmp_path,
        env=environment,
        check=True,
    )
    with SessionDB(store) as db:
        assert {row["id"] for row in db.list_sessions_rich()} == {"ours", "theirs"}
        assert [row["input_tokens"] for row in db.get_model_usage("theirs")] == [7]
        db.update_token_counts("theirs", input_tokens=1, model="m")
        assert db.get_model_usage("theirs")[0]["input_tokens"] == 8
        assert [hit["session_id"] for hit in db.search_messages("later release")] == ["theirs"]
    require_sound(store)
