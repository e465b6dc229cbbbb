"""Every SQL parameter is bound: by reading the source, and by watching what is sent."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hermes_sessions import SessionDB
from hermes_sessions.config.gateway_config import GatewayConfig
from hermes_sessions.errors import HermesSessionsError, StatementRefused
from hermes_sessions.lifecycle.mailboxes import Mailboxes
from hermes_sessions.lifecycle.session_store import SessionStore
from hermes_sessions.model.source import Platform, SessionSource
from hermes_sessions.storage.sqlite.transaction import ApswTransaction
from tests.security.sql_texts import findings, findings_in

#: Variables and parameters that hold names of tables and columns, or SQL, and are called so
#: wherever they do. A value that is called so is what the test below is for.
PIECES = frozenset(
    {
        *("table", "names", "column", "columns", "', '.join(columns)", "', '.join(names)"),
        *("where", "' AND '.join(where)", "condition", "self._condition", "' AND '.join(limits)"),
        *("order", "ordered", "direction", "sign", "tail", "after", "since", "beyond", "among"),
        *("changes", "', '.join(changes)", "assignments", "declaration", "documented", "added"),
        *("seen", "owner", "roles", "chosen", "compared", "silent", "beginning", "may_write"),
        *("given", "same", "counted", "for_update", "self._for_update", "quoted", "pragma"),
        *("', '.join(waiting)", "',\\n    '.join(added)"),
    }
)
#: Whatever else is put into a text, and why it may be.
EXCEPTIONS = {
    "hermes_sessions.cli.forget.places:_said": "words for people",
    "hermes_sessions.storage.care.erasure.discovery:_count": "names of columns in a table of ours",
    "hermes_sessions.storage.care.erasure.discovery:_sessions_of": "names of two columns",
    "hermes_sessions.storage.care.erasure.discovery:_platforms": "names of columns in a constant",
    "hermes_sessions.storage.care.erasure.row_removal:_topics": "names of columns in a constant",
    "hermes_sessions.storage.sqlite.repair.salvage:_save_documented": "names of declared columns",
    "hermes_sessions.storage.mysql.provider:upsert": "names of columns",
    "hermes_sessions.storage.mysql.provider:_recreate_index": "names of tables, hexadecimal",
    "hermes_sessions.storage.mysql.migrations:_create": "declarations of tables.py",
    "hermes_sessions.storage.mysql.migrations:_declared": "declarations of tables.py",
    "hermes_sessions.storage.mysql.migrations:_triggers": "triggers in a constant",
    "hermes_sessions.storage.mysql.migrations:_make_triggers": "triggers in a constant",
    "hermes_sessions.storage.postgresql.message_append:statement": "numbers of parameters",
    "hermes_sessions.storage.repositories.stale_sessions:settled_rows": "a query of constants",
    "hermes_sessions.storage.repositories.derived_columns:_rows": "a query of constants",
    "hermes_sessions.storage.repositories.transcripts:_rows": "a query of constants",
    "hermes_sessions.storage.servers.unit_of_work:noted": "a mark of ours is hexadecimal; a number",
    "hermes_sessions.storage.sqlite.table_ddl:_create": "declarations of tables.py",
    "hermes_sessions.storage.sqlite.table_ddl:step": "declarations of tables.py",
    "hermes_sessions.storage.sqlite.hermes_export:_copy": "names in constants",
    "hermes_sessions.storage.sqlite.hermes_export:_create": "declarations in constants",
    "hermes_sessions.storage.sqlite.repair.file_check:_lines": "a name that was quoted, a number",
    "hermes_sessions.storage.sqlite.migrations:": "names of our columns",
    "hermes_sessions.storage.sqlite.upgrade.layout:drop_search_index": "parts of an FTS table",
    "hermes_sessions.storage.sqlite.upgrade.layout:drop_indexes_and_triggers": "a quoted name",
    "hermes_sessions.storage.sqlite.upgrade.layout:_add_column": "a declared column",
    "hermes_sessions.storage.sqlite.upgrade.layout:_drop_column": "a declared column",
    "hermes_sessions.storage.sqlite.upgrade.layout:_set_aside": "a declared column",
    "hermes_sessions.storage.sqlite.upgrade.sessions:fill_summaries": "names of our columns",
    "hermes_sessions.storage.sqlite.provider:require_level": "a number, as pragmas require",
    "hermes_sessions.storage.sqlite.sqlite3_lock:_begin": "a number: a pragma takes no parameter",
    "hermes_sessions.storage.transfer.side_rows:_remove_parts": "names of tables in a constant",
    "hermes_sessions.storage.transfer.side_rows:_lane_rows": "names of tables in a constant",
}


def test_sql_texts_are_put_together_from_constants() -> None:
    found = [
        f"{each.module}:{each.line} puts {each.piece!r} into a text"
        for each in findings()
        if each.piece not in PIECES and each.where[0] not in EXCEPTIONS
    ]
    assert found == [], "bind it as a parameter, or say in EXCEPTIONS why it is no value"


def test_no_exception_is_left_over() -> None:
    needed = {each.where[0] for each in findings() if each.piece not in PIECES}
    assert sorted(EXCEPTIONS.keys() - needed) == []


@pytest.mark.parametrize(
    "line",
    [
        """tx.run(f"DELETE FROM sessions WHERE id = '{session_id}'")""",
        """tx.run("DELETE FROM sessions WHERE id = '" + session_id + "'")""",
        """tx.run("DELETE FROM sessions WHERE id = '%s'" % session_id)""",
        """tx.run("DELETE FROM sessions WHERE id = '{}'".format(session_id))""",
        """text = session_id\n    tx.run(f"SELECT * FROM sessions WHERE id = '{text}'")""",
        """tx.run(f"SELECT 1 FROM m WHERE id IN ({', '.join(map(str, session_id))})")""",
        """tx.run(f"SELECT * FROM sessions LIMIT {int(session_id)}")""",
    ],
)
def test_values_in_a_text_are_found(line: str) -> None:
    source = f"def work(tx, session_id):\n    {line}\n"
    assert [each for each in findings_in(source, "m") if each.piece not in PIECES]


def test_what_is_bound_is_none() -> None:
    source = (
        "def work(tx, ids):\n"
        "    marks = placeholders(len(ids))\n"
        '    tx.run(f"SELECT {_COLUMNS} FROM sessions WHERE id IN ({marks})", ids)\n'
    )
    assert list(findings_in(source, "m")) == []


# ── what is sent ──────────────────────────────────────────────────────────────────────────────

SENTINEL = "zq9x7'\"; DROP TABLE messages; --"


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """All texts that any transaction sends to SQLite."""
    texts: list[str] = []

    def watched(verb: str) -> None:
        original = getattr(ApswTransaction, verb)

        def watch(self: ApswTransaction, sql: str, *arguments: Any, **options: Any) -> Any:
            texts.append(sql)
            return original(self, sql, *arguments, **options)

        monkeypatch.setattr(ApswTransaction, verb, watch)

    for verb in ("run", "run_many", "one", "all", "stream"):
        watched(verb)
    return texts


def test_no_value_reaches_a_text(sent: list[str], tmp_path: Path) -> None:
    with SessionDB(tmp_path / "state.db") as db:
        for number in range(3):
            name = f"{SENTINEL}{number}"
            with refused():
                db.create_session(
                    name,
                    SENTINEL,
                    user_id=SENTINEL,
                    model=SENTINEL,
                    system_prompt=SENTINEL,
                    parent_session_id=f"{SENTINEL}{number - 1}" if number else None,
                )
            with refused():
                db.set_session_title(name, name)
            for role in ("user", "assistant", SENTINEL):
                with refused():
                    db.append_message(
                        name,
                        role,
                        SENTINEL,
                        tool_name=SENTINEL,
                        tool_calls=[{"id": SENTINEL, "function": {"name": SENTINEL}}],
                        external_id=f"{role}{number}",
                    )
        name = f"{SENTINEL}1"
        for call in every_reading(db, name):
            with refused():
                call()
        with SessionStore(tmp_path / "sessions", GatewayConfig(), db=db) as sessions:
            talk(sessions)
        with refused():
            db.import_sessions([{**each, "id": f"copy {each['id']}"} for each in db.export_all()])
        with refused():
            db.end_session(name, SENTINEL)
        with refused():
            db.prune_sessions(0, SENTINEL)
        assert db.session_count() > 0
    assert len(sent) > 200
    assert [text for text in sent if "zq9x7" in text.lower()] == []


@contextmanager
def refused() -> Iterator[None]:
    """An odd value may be refused, in words; it must not do anything else."""
    try:
        yield
    except StatementRefused:
        raise  # The database did not understand what it was sent.
    except (HermesSessionsError, ValueError):
        pass


def every_reading(db: SessionDB, name: str) -> list[Any]:
    queries = [SENTINEL, f'"{SENTINEL}"', f"{SENTINEL}*", f"source:{SENTINEL}", f"-x {SENTINEL}"]
    random.Random(5).shuffle(queries)
    return [
        lambda: db.get_session(name),
        lambda: db.get_messages(name),
        lambda: db.resolve_session_id(SENTINEL),
        lambda: db.get_session_by_title(name),
        lambda: db.list_sessions_rich(source=SENTINEL),
        lambda: db.list_sessions_rich(exclude_sources=[SENTINEL]),
        lambda: db.get_messages_as_conversation(name),
        lambda: db.set_meta(SENTINEL, SENTINEL),
        lambda: db.get_meta(SENTINEL),
        lambda: db.hold_session(name, SENTINEL),
        lambda: db.try_acquire_compression_lock(name, SENTINEL),
        *(lambda query=query: db.search(query) for query in queries),
        *(
            lambda query=query: db.search_messages(
                query, source_filter=[SENTINEL], role_filter=[SENTINEL], sort=SENTINEL
            )
            for query in queries
        ),
    ]


def talk(sessions: SessionStore) -> None:
    source = SessionSource(
        Platform.TELEGRAM, SENTINEL, user_id=SENTINEL, user_name=SENTINEL, thread_id=SENTINEL
    )
    entry = sessions.get_or_create_session(source)
    with refused():
        sessions.append_to_transcript(entry.session_id, {"role": "user", "content": SENTINEL})
    Mailboxes(sessions.engine).receive(
        entry.session_key, sender=SENTINEL, text=SENTINEL, dedupe=SENTINEL, origin=source
    )
    sessions.reset_session(entry.session_key)
