"""Files for released clients: these open, list, search and continue them."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
from pathlib import Path
from typing import Any

import pytest

import hermes_state
from hermes_sessions import SessionDB
from hermes_sessions.errors import InvalidInput
from hermes_sessions.storage.file_care import HermesSchema
from hermes_sessions.storage.provider_registry import file_care
from tests.clients.released import interpreter
from tests.fixtures.hermes import reader, stored

RELEASES: dict[HermesSchema, str] = {11: "0.13.0", 22: "0.19.0"}
#: What a client does with the file, with its own ``hermes_state``.
PROGRAM = """
import json, sys
from pathlib import Path
from hermes_state import SCHEMA_VERSION, SessionDB
db = SessionDB(Path(sys.argv[1]))
found = {
    "schema": SCHEMA_VERSION,
    "listed": [row["id"] for row in db.list_sessions_rich(limit=50)],
    "titles": {row["id"]: row["title"] for row in db.list_sessions_rich(limit=50)},
    "replay": {id: db.get_messages_as_conversation(id) for id in ("talk", "second", "branch")},
    "hits": {
        word: sorted({hit["session_id"] for hit in db.search_messages(word)})
        for word in ("pineapple", "libfoo", "rewound", "summarised", "hello")
    },
    "tip": db.get_compression_tip("first"),
    "meta": db.get_meta("goal"),
    "count": db.message_count(),
}
db.append_message("talk", "user", "continued with kiwi")
found["continued"] = [hit["session_id"] for hit in db.search_messages("kiwi")]
db.close()
print(json.dumps(found))
"""


@pytest.fixture
def db(tmp_path: Path) -> SessionDB:
    """A store with what the two layouts express differently."""
    store = SessionDB(tmp_path / "ours.db")
    store.create_session("talk", "cli", model="m", user_id="u")
    store.append_message("talk", "user", "hello pineapple")
    call = {"id": "c1", "type": "function", "function": {"name": "grep", "arguments": "{}"}}
    store.append_message("talk", "assistant", "", tool_calls=[call])
    store.append_message("talk", "tool", "found libfoo", tool_name="grep", tool_call_id="c1")
    store.append_message("talk", "user", [{"type": "text", "text": "größe 🍍"}])
    store.append_message("talk", "user", "rewound words")
    store.rewind_to_message("talk", store.get_messages("talk")[-1]["id"])
    store.set_session_title("talk", "Fruit")
    store.update_token_counts("talk", 10, 5, model="m", billing_provider="p", api_call_count=1)
    store.create_session("first", "cli")
    store.append_message("first", "user", "hello summarised")
    store.end_session("first", "compression")
    store.create_session("second", "cli", parent_session_id="first")
    store.append_message("second", "user", "hello again")
    store.create_session("branch", "cli", parent_session_id="talk", edge_kind="branch")
    store.append_message("branch", "user", "hello branch")
    store.create_session("helper", "cli", parent_session_id="talk", edge_kind="subagent")
    store.append_message("helper", "user", "hello helper")
    store.create_session("old", "cli")
    store.append_message("old", "user", "hello archive")
    store.set_session_archived("old", archived=True)
    store.create_session("gone", "cli")
    store.append_message("gone", "user", "hello trash")
    store.trash_sessions(["gone"])
    store.set_meta("goal", "finish")
    store.provider.write(
        lambda tx: tx.run("UPDATE sessions SET model_config = '{no' WHERE id = 'old'")
    )
    return store


def opened_by_client(file: Path, schema: HermesSchema, home: Path) -> dict[str, Any]:
    result = subprocess.run(
        [interpreter(RELEASES[schema]), "-c", PROGRAM, file],
        env={"HERMES_HOME": str(home), "HOME": str(home), "PATH": os.environ["PATH"]},
        cwd=home,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout.splitlines()[-1])
    assert isinstance(found, dict)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("schema", [11, 22])
def test_a_client_opens_lists_searches_and_continues(
    schema: HermesSchema, db: SessionDB, tmp_path: Path
) -> None:
    file = tmp_path / "state.db"
    with db:
        written = file_care().export_database(db, file, schema)
        ours = {i: db.get_messages_as_conversation(i) for i in ("talk", "second", "branch")}
    found = opened_by_client(file, schema, tmp_path)

    assert found["schema"] == schema
    archived = {"old"} if schema == 11 else set()
    assert set(found["listed"]) == {"talk", "second", "branch"} | archived
    assert found["titles"]["talk"] == "Fruit"
    assert found["tip"] == "second"
    assert found["meta"] == "finish"
    assert found["hits"]["pineapple"] == ["talk"]
    assert found["hits"]["libfoo"] == ["talk"]
    assert found["hits"]["summarised"] == ["first"]
    assert found["hits"]["rewound"] == []
    assert set(found["hits"]["hello"]) == {"talk", "first", "second", "branch", "helper", "old"}
    assert found["continued"] == ["talk"]
    for session_id, messages in ours.items():
        shown = [(m["role"], m["content"]) for m in found["replay"][session_id]]
        assert shown == [(m["role"], m["content"]) for m in messages]
    assert found["count"] == written.messages
    assert written.sessions == 6
    quoted = {"model configurations that are no JSON, quoted": 1}
    left_out = {
        **quoted,
        "archived sessions, shown as others": 1,
        "parents of branches, which would be hidden": 1,
        "rewound messages": 1,
    }
    assert written.left_out == (left_out if schema == 11 else quoted)


#: Asks a client for what it returns of every session; see `release_driver.answers`.
ANSWERS = """
import json, sys
from pathlib import Path
from hermes_state import SCHEMA_VERSION, SessionDB
from tests.fixtures.hermes import reader, release_driver
db = SessionDB(Path(sys.argv[1]))
print(reader.dumps(release_driver.answers(db, SCHEMA_VERSION)).replace("\\n", ""))
"""


@pytest.mark.slow
@pytest.mark.parametrize("schema", [11, 22])
def test_a_client_finds_its_own_file_again(schema: HermesSchema, tmp_path: Path) -> None:
    """A file that the release wrote, upgraded and written back: it answers as before."""
    stored.unpack(f"v{schema}", tmp_path / "state.db")
    with hermes_state.SessionDB(tmp_path / "state.db") as db:
        file_care().export_database(db, tmp_path / "back.db", schema)
    result = subprocess.run(
        [interpreter(RELEASES[schema]), "-c", ANSWERS, tmp_path / "back.db"],
        env={**reader.module_environment(), "HERMES_HOME": str(tmp_path), "HOME": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    found = reader.loads(result.stdout.splitlines()[-1])
    expected = stored.expected(f"v{schema}")["release"]
    for subject in ("conversations", "live_message_ids", "tips", "resume"):
        assert found[subject].keys() == expected[subject].keys()
        for session_id, answer in expected[subject].items():
            assert found[subject][session_id] == answer, (subject, session_id)


def test_the_way_there_and_back(db: SessionDB, tmp_path: Path) -> None:
    with db:
        file_care().export_database(db, tmp_path / "hermes.db", 22)
        before = {record["id"]: record for record in db.iter_export()}
    with SessionDB(tmp_path / "again.db") as again:
        report = file_care().import_database(again, tmp_path / "hermes.db")
        assert (report["ok"], report["imported"]) == (True, 6)
        after = {record["id"]: record for record in again.iter_export()}
    assert after.keys() == before.keys()
    for session_id, record in before.items():
        other = after[session_id]
        for name in ("title", "edge_kind", "parent_session_id", "message_count", "archived"):
            assert other[name] == record[name], (session_id, name)
        assert [(m["id"], m["content"], m["active"]) for m in other["messages"]] == [
            (m["id"], m["content"], m["active"]) for m in record["messages"]
        ]


def test_a_lone_surrogate_is_replaced_and_counted(tmp_path: Path) -> None:
    with SessionDB(tmp_path / "ours.db") as store:
        store.create_session("s", "cli")
        store.append_message("s", "user", "odd \ud800 text")
        written = file_care().export_database(store, tmp_path / "hermes.db", 22)
    assert written.left_out == {"lone surrogates, replaced": 1}
    with sqlite3.connect(tmp_path / "hermes.db") as connection:
        [content] = connection.execute("SELECT content FROM messages").fetchone()
    assert content.startswith("odd �")
    connection.close()


def test_an_existing_file_and_a_missing_directory_are_refused(tmp_path: Path) -> None:
    there = tmp_path / "there.db"
    there.write_bytes(b"precious")
    with SessionDB(":memory:") as store:
        with pytest.raises(InvalidInput, match=r"already exists. Choose a new file"):
            file_care().export_database(store, there, 22)
        with pytest.raises(InvalidInput, match=r"does not exist. Create it first"):
            file_care().export_database(store, tmp_path / "no" / "file.db", 22)
    assert there.read_bytes() == b"precious"
    assert list(tmp_path.iterdir()) == [there]
