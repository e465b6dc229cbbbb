"""Typed records have the declared columns, and the verbs return what they say."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from hermes_sessions import SessionDB
from hermes_sessions.storage import records, tables
from hermes_sessions.storage.tables import MESSAGES, REWINDS, SESSIONS, USAGE, names_of

TOPICS = next(table for table in tables.ALL_TABLES if table.name == "topics")
DECLARED = {
    records.SessionRecord: names_of(SESSIONS, "given", "shown"),
    records.MessageRecord: names_of(MESSAGES, "given", "shown"),
    records.RewindRecord: names_of(REWINDS, "given", "shown"),
    records.ExportedRewind: names_of(REWINDS, "given"),
    records.ModelUsage: names_of(USAGE, "given"),
    records.TopicBinding: [column.name for column in TOPICS.columns],
}
#: Verbs whose result depends on the provider, or is what the caller stored.
UNTYPED = {"describe", "get_payloads"}


@pytest.mark.parametrize("record", DECLARED, ids=lambda record: record.__name__)
def test_the_keys_are_the_declared_columns(record: type) -> None:
    assert list(get_type_hints(record)) == DECLARED[record]


def test_exports_have_the_exported_columns() -> None:
    parts = {"messages", "model_usage", "rewinds", "workspace"}
    session = names_of(SESSIONS, "given", "shown", "exported")
    assert set(get_type_hints(records.ExportedSession)) - parts == set(session)
    message = names_of(MESSAGES, "given", "shown", "exported")
    assert set(get_type_hints(records.ExportedMessage)) == set(message)


def test_every_verb_says_what_it_returns() -> None:
    vague = {
        name
        for name, verb in inspect.getmembers(SessionDB, inspect.isfunction)
        if not name.startswith("_") and "Any" in str(verb.__annotations__.get("return"))
    }
    assert vague == UNTYPED


def keys(record: type) -> tuple[set[str], set[str]]:
    """The keys that are always there, and all of them."""
    required: frozenset[str] = getattr(record, "__required_keys__")  # noqa: B009
    return set(required), set(get_type_hints(record))


@pytest.fixture
def db() -> Any:
    with SessionDB(":memory:") as db:
        db.create_session("s", "cli", model="m")
        first = db.append_message("s", "user", "hello world", external_id="e")
        db.append_message("s", "assistant", {"a": 1}, reasoning="r")
        db.update_token_counts("s", input_tokens=1, model="m")
        db.hold_session("s", "why")
        db.create_session("t", "telegram", user_id="7")
        db.bind_telegram_topic(
            chat_id="7", thread_id="1", user_id="7", session_key="k", session_id="t"
        )
        db.create_session("u", "telegram", user_id="7")
        db.create_session("gone", "cli")
        db.trash_sessions(["gone"])
        db.rewind_to_message("s", first)
        db.restore_rewound("s")
        db.set_state("session", "s", "n", 1)
        yield db


RESULTS: dict[str, tuple[type, Callable[[SessionDB], Any]]] = {
    "get_session": (records.SessionRecord, lambda db: db.get_session("s")),
    "list_sessions_rich": (records.SessionListing, lambda db: db.list_sessions_rich()),
    "search_sessions": (records.RecentSession, lambda db: db.search_sessions()),
    "list_unlinked": (
        records.SessionSummary,
        lambda db: db.list_unlinked_telegram_sessions_for_user(chat_id="7", user_id="7"),
    ),
    "list_trash": (records.TrashedSession, lambda db: db.list_trash()),
    "get_messages": (records.MessageRecord, lambda db: db.get_messages("s")),
    "as_conversation": (
        records.ConversationMessage,
        lambda db: db.get_messages_as_conversation("s"),
    ),
    "around": (records.MessageWindow, lambda db: db.get_messages_around("s", 1)),
    "view": (records.AnchoredView, lambda db: db.get_anchored_view("s", 1)),
    "rewind": (records.RewindResult, lambda db: db.rewind_to_message("s", 1)),
    "get_state": (records.StateDocument, lambda db: db.get_state("session", "s", "n")),
    "list_state": (records.StateDocument, lambda db: db.list_state("session", "s")),
    "pop_message": (records.MessageRecord, lambda db: db.pop_message("s")),
    "replace_suffix": (
        records.SuffixReplacement,
        lambda db: db.replace_suffix("s", expected_revision=None, keep=0, messages=[]),
    ),
    "list_rewinds": (records.RewindRecord, lambda db: db.list_rewinds("s")),
    "search_messages": (records.SearchHit, lambda db: db.search_messages("hello")),
    "search_index_status": (records.IndexStatus, lambda db: db.search_index_status()),
    "optimize_search": (records.OptimizeResult, lambda db: db.optimize_search()),
    "get_model_usage": (records.ModelUsage, lambda db: db.get_model_usage("s")),
    "list_holds": (records.HoldRecord, lambda db: db.list_holds()),
    "get_handoff_state": (records.HandoffState, lambda db: db.get_handoff_state("s")),
    "topic": (
        records.TopicBinding,
        lambda db: db.get_telegram_topic_binding(chat_id="7", thread_id="1"),
    ),
    "export_session": (records.ExportedSession, lambda db: db.export_session("s")),
    "import_sessions": (records.ImportReport, lambda db: db.import_sessions([])),
    "get_stats": (records.StoreStats, lambda db: db.get_stats()),
    "get_sizes": (records.StoreSizes, lambda db: db.get_sizes()),
    "get_space": (records.SpaceReport, lambda db: db.get_space()),
    "get_insights": (records.InsightsReport, lambda db: db.get_insights()),
    "maintenance": (records.MaintenanceReport, lambda db: db.maybe_auto_prune_and_vacuum()),
}


@pytest.mark.parametrize("name", RESULTS)
def test_results_have_the_keys_of_their_record(db: SessionDB, name: str) -> None:
    record, call = RESULTS[name]
    result = call(db)
    rows = result if isinstance(result, list) else [result]
    assert rows
    required, possible = keys(record)
    for row in rows:
        assert type(row) is dict
        assert required <= row.keys() <= possible


def test_nested_results_have_theirs(db: SessionDB) -> None:
    exported = db.export_session("s")
    assert exported is not None
    parts: list[tuple[type, list[Mapping[str, Any]]]] = [
        (records.ExportedMessage, [*exported["messages"]]),
        (records.ExportedRewind, [*exported["rewinds"]]),
        (records.ModelUsage, [*exported["model_usage"]]),
        (records.ContextMessage, [*db.search_messages("hello")[0]["context"]]),
    ]
    for record, rows in parts:
        required, possible = keys(record)
        assert rows
        assert all(required <= row.keys() <= possible for row in rows)


def test_the_store_does_not_load_them() -> None:
    program = (
        "import sys; from hermes_sessions import SessionDB\n"
        "with SessionDB(':memory:') as db:\n"
        "    db.append_message(db.create_session('s', 'cli'), 'user', 'x')\n"
        "    db.list_sessions_rich(), db.get_messages('s'), db.export_all()\n"
        "print('hermes_sessions.storage.records' in sys.modules)"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert result.stdout == "False\n"


PROGRAM = """
from hermes_sessions import AsyncSessionDB, MessageRecord, SearchHit, SessionDB, SessionRecord

db = SessionDB(":memory:")
session: SessionRecord | None = db.get_session("s")
assert session is not None
reveal_type(session["title"])
reveal_type(db.list_sessions_rich()[0]["preview"])
messages: list[MessageRecord] = db.get_messages("s")
reveal_type(messages[0]["ordinal"])
hits: list[SearchHit] = db.search_messages("x")
reveal_type(hits[0]["spans"])
session["titel"]

async def twin(db: AsyncSessionDB) -> None:
    reveal_type((await db.get_messages("s"))[0]["role"])
"""


@pytest.mark.slow
def test_a_type_checker_knows_the_keys(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM, encoding="utf-8")
    root = Path(__file__).parents[2]
    result = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", root / "pyproject.toml", path],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line.partition(": ")[2] for line in result.stdout.splitlines()]
    assert [line for line in lines if "Revealed type" in line] == [
        f'note: Revealed type is "{kind}"'
        for kind in ("str | None", "str", "int", "list[tuple[int, int]]", "str")
    ], result.stdout
    assert any('TypedDict "SessionRecord" has no key "titel"' in line for line in lines)
