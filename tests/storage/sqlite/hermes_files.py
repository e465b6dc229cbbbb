"""Files of the documented versions, and the rows expected after an upgrade."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

from hermes_sessions.storage.provider import OpenOptions
from hermes_sessions.storage.provider_registry import OpenedProvider, file_care
from hermes_sessions.storage.sessiondb import SessionDB
from tests.fixtures.hermes import layouts, reader, stored

Everything = dict[str, Any]

#: Files that releases wrote, of versions that are upgraded in place.
WRITTEN_BY_A_RELEASE = ("v11", "v11-upgraded")
LATER = tuple(name for name in stored.names() if name not in WRITTEN_BY_A_RELEASE)
NAMES = (*(f"built-{name}" for name in layouts.LAYOUTS), *WRITTEN_BY_A_RELEASE)

#: What a documented column holds in files from before it existed.
DEFAULTS = {
    **dict.fromkeys(("cache_read_tokens", "cache_write_tokens", "reasoning_tokens"), 0),
    "api_call_count": 0,
}
NOT_LOADED = ("content", "tool_calls", "decoded")
#: Tables that an import and an upgrade fill alike.
TABLES = {
    "state_meta": "key, value",
    "gateway_routing": "scope, session_key, entry_json, updated_at",
    "topic_modes": "*",
    "topics": "*",
    "session_model_usage": "*",
    "rewinds": "*",
}
PLACE = "id, conversation_id, edge_kind, chain_id, tip_id, listed, preview, next_ordinal, archived"


def make(name: str, path: Path) -> Everything:
    """Put the file called *name* at *path* and return everything in it, not to be changed."""
    data, everything = _made(name)
    with path.open("xb") as file:
        file.write(data)
    return everything


@cache
def _made(name: str) -> tuple[bytes, Everything]:
    """A file is made once and copied from then on."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "state.db"
        if name.startswith("built-"):
            layouts.build_named(name.removeprefix("built-"), path)
        else:
            stored.unpack(name, path)
        return path.read_bytes(), reader.read_everything(path)


class UpgradingSessionDB(SessionDB):
    """A store that also upgrades files of later versions, as the drop-in does."""

    def _open(self, db_path: str | Path | None, options: OpenOptions) -> OpenedProvider:
        return super()._open(db_path, options._replace(upgrade_later=True))


def edit(path: Path, *statements: str | tuple[str, Sequence[Any]]) -> None:
    """Change a file as another program would."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        for statement in statements:
            sql, params = (statement, ()) if isinstance(statement, str) else statement
            connection.execute(sql, params)


def version_in(name: str) -> int:
    return int(name.removeprefix("built-").removeprefix("v").partition("-")[0])


def require_everything(
    db: SessionDB, before: Everything, changed: Mapping[tuple[str, str], Any] | None = None
) -> None:
    """Assert that the store returns all that was in the file.

    *changed* names the values that must differ: (session id, column) -> new value.
    """
    changed = changed or {}
    for row in before["sessions"]:
        found = db.get_session(row["id"])
        assert found is not None, row["id"]
        for column, value in row.items():
            if column not in found:
                continue
            assert found[column] == changed.get((row["id"], column), value), (row["id"], column)
        for column, value in DEFAULTS.items():
            assert found[column] == row.get(column, value)
    for session_id, messages in reader.transcripts(before).items():
        require_transcript(db.get_messages(session_id), messages)
    for key, value in before["state_meta"].items():
        assert db.get_meta(key) == value


def require_transcript(found: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    """Assert that a session's messages are the same, in the same order, numbered without gaps."""
    assert [m["id"] for m in found] == [m["id"] for m in expected]
    assert [m["ordinal"] for m in found] == list(range(1, len(expected) + 1))
    for ours, theirs in zip(found, expected, strict=True):
        assert ours["content"] == theirs["decoded"]["content"], theirs["id"]
        assert type(ours["content"]) is type(theirs["decoded"]["content"]), theirs["id"]
        # An empty text never was a list of calls; it reads as none.
        assert ours["tool_calls"] == (
            [] if theirs["tool_calls"] == "" else theirs["decoded"]["tool_calls"]
        ), theirs["id"]
        for column in theirs.keys() & ours.keys() - set(NOT_LOADED):
            expected_value = 1 if column == "active" else theirs[column]
            assert ours[column] == expected_value, (theirs["id"], column)


def contents(db: SessionDB) -> dict[str, Any]:
    """All that a store says about its sessions, and its other tables."""
    with db.provider.read() as tx:
        tables = {
            name: sorted(map(repr, tx.all(f"SELECT {columns} FROM {name}")))
            for name, columns in TABLES.items()
        }
        kept = "SELECT origin, row_key, row FROM foreign_rows WHERE table_name = ?"
        tables["usage kept"] = tx.all(f"{kept} ORDER BY 2", ("session_model_usage",))
        placed = tx.all(f"SELECT {PLACE} FROM sessions ORDER BY id")
    return {
        **{record["id"]: dict(record) for record in db.iter_export()},
        "placed": placed,
        **tables,
    }


@cache
def imported(name: str) -> dict[str, Any]:
    """The contents of a store after the import of the file called *name*."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "state.db"
        make(name, path)
        with SessionDB(":memory:") as db:
            assert file_care().import_database(db, path)["ok"]
            return contents(db)


def require_upgraded(db: SessionDB, name: str, before: Everything) -> None:
    """Assert that an upgraded store has all that was in the file called *name*."""
    if name in LATER:
        # What the file hides is hidden, so that its messages are not those that are loaded.
        assert contents(db) == imported(name)
    else:
        require_everything(db, before)
