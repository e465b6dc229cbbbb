"""What must hold in a copy of the source with the new columns, run by that copy.

Arguments: the URL of a store of the version before, the URLs of three that do not exist yet, and a
folder with an export and a portable backup of the version before.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hermes_sessions import (
    SessionDB,
    create_backup,
    list_backups,
    restore_backup,
    verify_backup,
)
from hermes_sessions.storage.jsonl import import_file
from hermes_sessions.storage.provider import OpenOptions
from hermes_sessions.storage.provider_registry import open_url
from hermes_sessions.storage.records import MessageRecord, SessionRecord
from hermes_sessions.storage.repositories.rows import MESSAGE_COLUMNS, SESSION_COLUMNS
from hermes_sessions.storage.transfer.comparison import compare_stores
from hermes_sessions.storage.transfer.run import Transfer

CALM = ("calm", "soft")


def values(db: SessionDB, session_id: str) -> tuple[Any, Any]:
    session: Any = db.get_session(session_id)
    message: Any = db.get_messages(session_id)[0]
    return session["mood"], message["tone"]


def set_mood(db: SessionDB, session_id: str, mood: str) -> None:
    sql = "UPDATE sessions SET mood = ? WHERE id = ?"
    db.provider.write(lambda tx: tx.run(sql, (mood, session_id)))


def main(old: str, fresh: str, target: str, older_copy: str, folder: Path) -> None:
    assert list(SessionRecord.__annotations__) == SESSION_COLUMNS
    assert list(MessageRecord.__annotations__) == MESSAGE_COLUMNS
    reading_an_older_store(old)
    copying_an_older_store(old, older_copy)
    # An older store gets the columns when it is opened, a new one has them from the start.
    with SessionDB.from_url(old) as db:
        assert values(db, "s") == (None, None)
    with SessionDB.from_url(fresh) as db:
        db.create_session("s", "cli")
        db.append_messages("s", [{"role": "user", "content": "hello", "tone": "soft"}])
        set_mood(db, "s", "calm")
        assert values(db, "s") == CALM
        listed: Any = db.list_sessions_rich()[0]
        assert listed["mood"] == "calm"
        exports_and_imports(db, folder)
        backups(db, folder)
    copies(fresh, target)


def reading_an_older_store(old: str) -> None:
    """A handle that may not change a store reads it as it is."""
    with SessionDB.from_url(old, read_only=True) as db:
        assert values(db, "s") == (None, None)
        assert [row["id"] for row in db.list_sessions_rich()] == ["s"]
        assert [hit["session_id"] for hit in db.search_messages("hello")] == ["s"]
        assert db.export_session("s") is not None


def copying_an_older_store(old: str, target: str) -> None:
    """A source that is only read keeps its tables as they are, and is copied all the same."""
    source = open_url(old, OpenOptions(True, None, None))
    try:
        with SessionDB.from_url(target) as other:
            Transfer(source, other.provider).run()
            assert compare_stores(source, other.provider).differences == []
            assert values(other, "s") == (None, None)
    finally:
        source.close()


def exports_and_imports(db: SessionDB, folder: Path) -> None:
    exported: Any = db.export_session("s")
    assert (exported["mood"], exported["messages"][0]["tone"]) == CALM
    with SessionDB(":memory:") as other:
        assert other.import_sessions([exported])["imported"] == 1
        assert values(other, "s") == CALM
        exported["mood"] = "glad"
        exported["messages"].append({**exported["messages"][0], "id": 99, "ordinal": 2})
        assert other.import_sessions([exported])["extended"] == 1
        assert values(other, "s") == ("glad", "soft")
        exported["messages"][0]["tone"] = "loud"
        assert other.import_sessions([exported])["conflicts"]
    with SessionDB(":memory:") as other:
        assert import_file(other, folder / "before.jsonl")["imported"] == 1
        assert values(other, "s") == (None, None)


def backups(db: SessionDB, folder: Path) -> None:
    made = create_backup(db, folder, portable=True)
    verify_backup(made.path)
    restore_backup(made.path, folder / "restored.db")
    with SessionDB(folder / "restored.db") as other:
        assert values(other, "s") == CALM
    # One from before the columns is as good as it was.
    before = list_backups(folder / "before")[0].path
    verify_backup(before)
    restore_backup(before, folder / "from-before.db")
    with SessionDB(folder / "from-before.db") as other:
        assert values(other, "s") == (None, None)


def copies(source: str, target: str) -> None:
    with SessionDB.from_url(source) as one, SessionDB.from_url(target) as other:
        Transfer(one.provider, other.provider).run()
        assert values(other, "s") == CALM
        assert compare_stores(one.provider, other.provider).differences == []
        set_mood(other, "s", "glad")
        [difference] = compare_stores(one.provider, other.provider).differences
        assert difference.what == "content differs"


if __name__ == "__main__":
    main(*sys.argv[1:5], folder=Path(sys.argv[5]))
