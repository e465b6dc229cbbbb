"""Token usage after a later Hermes has given its table another layout."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from hermes_sessions import SessionDB

#: As Hermes 0.19 declares it.
THEIRS = """
CREATE TABLE session_model_usage (
    session_id TEXT NOT NULL REFERENCES sessions(id) ON DELETE CASCADE,
    model TEXT NOT NULL,
    billing_provider TEXT NOT NULL DEFAULT '',
    billing_base_url TEXT NOT NULL DEFAULT '',
    billing_mode TEXT NOT NULL DEFAULT '',
    task TEXT NOT NULL DEFAULT '',
    api_call_count INTEGER NOT NULL DEFAULT 0,
    input_tokens INTEGER NOT NULL DEFAULT 0,
    output_tokens INTEGER NOT NULL DEFAULT 0,
    cache_read_tokens INTEGER NOT NULL DEFAULT 0,
    cache_write_tokens INTEGER NOT NULL DEFAULT 0,
    reasoning_tokens INTEGER NOT NULL DEFAULT 0,
    estimated_cost_usd REAL NOT NULL DEFAULT 0,
    actual_cost_usd REAL NOT NULL DEFAULT 0,
    cost_status TEXT,
    cost_source TEXT,
    first_seen REAL,
    last_seen REAL,
    PRIMARY KEY (session_id, model, billing_provider, billing_base_url, billing_mode, task)
);
"""
SET_ASIDE = "ALTER TABLE session_model_usage RENAME TO session_model_usage_v21;"
USED = """
INSERT INTO session_model_usage (session_id, model, input_tokens, first_seen, last_seen)
VALUES ('s', 'm', 7, 1.0, 9e9);
INSERT INTO session_model_usage (session_id, model, input_tokens, first_seen, last_seen)
VALUES ('s', 'other', 1, 50.0, NULL);
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "state.db"
    with SessionDB(path) as db:
        db.create_session("s", "cli")
        db.update_token_counts("s", input_tokens=5, model="m", estimated_cost_usd=0.5)
    return path


def change(path: Path, *scripts: str) -> None:
    connection = sqlite3.connect(path)
    connection.executescript("".join(scripts))
    connection.close()


def tokens(db: SessionDB) -> dict[str | None, int]:
    return {row["model"]: row["input_tokens"] for row in db.get_model_usage("s")}


@pytest.mark.fault(
    "Hermes 0.19 opens a store with its own code, and changes the table of token usage",
    "The next open restores it, with the rows of both programs",
    on="sqlite",
)
def test_the_next_open_restores_it(path: Path) -> None:
    change(path, SET_ASIDE, THEIRS, USED)
    with SessionDB(path) as db:
        assert tokens(db) == {"m": 12, "other": 1}
        [usage] = [row for row in db.get_model_usage("s") if row["model"] == "m"]
        assert (usage["first_at"], usage["last_at"]) == (1.0, 9e9)
        assert usage["estimated_cost_usd"] == 0.5
        db.update_token_counts("s", input_tokens=1, model="m")
        assert tokens(db) == {"m": 13, "other": 1}
        assert db.export_session("s") is not None


def test_rows_that_only_they_have(path: Path) -> None:
    change(path, "DROP TABLE session_model_usage;", THEIRS, USED)
    with SessionDB(path) as db:
        assert tokens(db) == {"m": 7, "other": 1}


def test_a_table_that_was_dropped(path: Path) -> None:
    change(path, "DROP TABLE session_model_usage;")
    with SessionDB(path) as db:
        assert tokens(db) == {}
        db.update_token_counts("s", input_tokens=1, model="m")
        assert tokens(db) == {"m": 1}


def test_a_handle_that_is_open_meanwhile(path: Path) -> None:
    with SessionDB(path) as db:
        change(path, SET_ASIDE, THEIRS, USED)
        db.update_token_counts("s", input_tokens=1, model="m")
        assert tokens(db) == {"m": 13, "other": 1}


def test_columns_that_others_added_stay(path: Path) -> None:
    change(path, "ALTER TABLE session_model_usage ADD COLUMN note TEXT DEFAULT 'kept';")
    with SessionDB(path) as db:
        assert tokens(db) == {"m": 5}
        db.update_token_counts("s", input_tokens=1, model="m")
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT note FROM session_model_usage").fetchall() == [("kept",)]
    connection.close()
