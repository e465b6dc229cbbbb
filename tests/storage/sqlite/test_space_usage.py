"""Space by table and index, exact and within the time limit."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import apsw
import pytest

from hermes_sessions import SessionDB
from hermes_sessions.storage.provider import Space
from hermes_sessions.storage.repositories.trash import DELETION_PENDING
from hermes_sessions.storage.sqlite.space_usage import measure

PAGE = 512
DELETED = (DELETION_PENDING, "api_server")
#: Pages that one page of the pointer map covers.
MAPPED = PAGE // 5


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "space.db"


@pytest.fixture(params=["incremental", "none"])
def connection(path: Path, request: pytest.FixtureRequest) -> Iterator[apsw.Connection]:
    """Trees of all kinds, in a file that was used for a while."""
    connection = apsw.Connection(str(path))
    connection.pragma("page_size", PAGE)
    connection.pragma("auto_vacuum", request.param)
    connection.pragma("journal_mode", "wal")
    chance = random.Random(1)
    for table in range(12):
        connection.execute(f"CREATE TABLE t{table} (id INTEGER PRIMARY KEY, name, text)")
        connection.execute(f"CREATE INDEX names_of_{table} ON t{table} (name)")
    connection.execute("CREATE TABLE keyed (name TEXT PRIMARY KEY) WITHOUT ROWID")
    for number in range(1200):
        table = chance.randrange(12)
        values = (chance.randbytes(9).hex(), chance.randbytes(chance.choice([9, 200, 9000])))
        connection.execute(f"INSERT INTO t{table} (name, text) VALUES (?, ?)", values)
        connection.execute("INSERT INTO keyed VALUES (?)", (f"key {number}",))
    # Roots move to the places of others, and pages become free.
    connection.execute("DROP TABLE t3; DROP INDEX names_of_7; DELETE FROM t5 WHERE id % 2")
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    yield connection
    connection.close(True)


def has_map(connection: apsw.Connection) -> bool:
    return connection.pragma("auto_vacuum") != 0


def times(answers: int) -> Callable[[], bool]:
    """Return something that says so often that there is time."""
    asked = count(1)
    return lambda: next(asked) <= answers


def total(connection: apsw.Connection, space: Space) -> int:
    """Return what is accounted for, the map included."""
    assert space.free_bytes is not None
    pages = connection.pragma("page_count")
    maps = len(range(2, pages + 1, MAPPED + 1)) if has_map(connection) else 0
    used = sum(space.tables.values()) + sum(space.indexes.values())
    return used + space.free_bytes + space.uncounted_bytes + maps * PAGE


def test_the_map_says_what_all_pages_say(connection: apsw.Connection) -> None:
    exactly = measure(connection, 0)
    assert exactly.uncounted_bytes == 0
    assert {"t5", "keyed", "sqlite_schema"} < set(exactly.tables)
    assert "names_of_5" in exactly.indexes
    assert connection.pragma("page_count") > 20 * MAPPED
    read: list[bool] = []
    connection.trace_v2(apsw.SQLITE_TRACE_STMT, lambda event: read.append("dbstat" in event["sql"]))
    found = measure(connection, 0, lambda: True, few_pages=100)
    assert (any(read), found) == (not has_map(connection), exactly)
    # A file of few pages is looked at.
    read.clear()
    assert (measure(connection, 0, lambda: True), any(read)) == (exactly, True)
    read.clear()
    assert (measure(connection, 0, few_pages=100), any(read)) == (exactly, True)


@pytest.mark.parametrize("answers", [0, 1, 3, 20, 60, 100])
def test_it_ends_when_there_is_no_time_left(connection: apsw.Connection, answers: int) -> None:
    exactly = measure(connection, 0)
    found = measure(connection, 0, times(answers), few_pages=100)
    assert total(connection, found) == connection.pragma("page_count") * PAGE
    sizes, whole = {**found.tables, **found.indexes}, {**exactly.tables, **exactly.indexes}
    assert all(sizes[name] <= whole[name] for name in sizes)
    assert (found.uncounted_bytes > 0) == (sizes != whole)
    if has_map(connection):
        # Most of the time goes into reading the map, and only then is anything counted.
        assert found.uncounted_bytes > 0
        assert (sum(sizes.values()) < 256 * PAGE) == (answers < 100)
    else:
        assert (found.uncounted_bytes > 0) == (answers < 40)
        assert sum(sizes.values()) <= answers * 256 * PAGE


def test_what_is_in_the_log_is_not_in_the_map(connection: apsw.Connection) -> None:
    before = measure(connection, 0)
    connection.pragma("wal_autocheckpoint", 0)
    connection.execute("INSERT INTO t1 (text) VALUES (zeroblob(100000))")
    found = measure(connection, 1, lambda: True, few_pages=100)
    assert found.is_estimate == has_map(connection)
    if has_map(connection):
        assert found.tables["t1"] == before.tables["t1"]
    else:
        assert found.tables["t1"] > before.tables["t1"] + 90_000


@pytest.mark.parametrize("connection", ["incremental"], indirect=True)
def test_a_file_that_is_in_its_log_for_the_greater_part(connection: apsw.Connection) -> None:
    connection.pragma("wal_autocheckpoint", 0)
    connection.execute("INSERT INTO t1 (text) VALUES (zeroblob(10000000))")
    assert measure(connection, 1, lambda: True, few_pages=100) == measure(connection, 1)


@pytest.mark.parametrize("connection", ["incremental"], indirect=True)
@pytest.mark.parametrize("parent", ["itself and another", "beyond the end", "nonsense"])
def test_a_damaged_map(connection: apsw.Connection, path: Path, parent: str) -> None:
    """It leads nowhere; what belongs to that is not counted, and it ends."""
    exactly = measure(connection, 0)
    connection.close()
    with path.open("r+b") as file:
        for first in range(2, path.stat().st_size // PAGE, 5 * (MAPPED + 1)):
            file.seek((first - 1) * PAGE)
            for number in range(first + 1, first + MAPPED + 1):
                other = first + 1 + (number - first) % MAPPED
                kind, to = {
                    "itself and another": (5, other),
                    "beyond the end": (5, 2**32 - 1),
                    "nonsense": (77, 3),
                }[parent]
                file.write(struct.pack(">BI", kind, to))
    again = apsw.Connection(str(path))
    try:
        found = measure(again, 0, lambda: True, few_pages=100)
    finally:
        again.close(True)
    assert found.uncounted_bytes > 0
    assert sum(found.tables.values()) < sum(exactly.tables.values())


# ── the text of messages ──────────────────────────────────────────────────────────────────────


def test_texts_are_measured_in_the_time_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest first; sessions and messages are counted, whatever the time."""
    monkeypatch.setattr("hermes_sessions.storage.repositories.sizes._MESSAGES_AT_ONCE", 10)
    with SessionDB(":memory:") as db:
        for session, source in (("old", "cron"), ("new", "cli"), ("gone", "cli")):
            db.create_session(session, source=source)
            texts = [{"role": "user", "content": "x" * 100} for _ in range(20)]
            db.append_messages(session, texts)
        db.trash_sessions(["gone"])
        db.create_session("being deleted", source="api_server")
        db.append_messages("being deleted", [{"role": "user", "content": "y"}] * 4)
        db.provider.write(
            lambda tx: tx.run("UPDATE sessions SET trashed_at = ? WHERE source = ?", DELETED)
        )
        each = 100 + len("user")
        for looks, measured in ((0, 0), (1, 10), (3, 30), (5, 50), (6, 60), (7, 64), (99, 64)):
            # The clock advances by one with every call; texts may take half of the time.
            clock = count()
            found = db._sizes.space(2.0 * looks + 1, lambda clock=clock: float(next(clock)))  # type: ignore[misc]
            assert found["text_messages"] == measured
            assert found["text_complete"] == (looks > 6)
            sizes = {name: facts["text_bytes"] for name, facts in found["sources"].items()}
            others = max(0, measured - 4)
            older = max(0, others - 40)
            assert sizes == {"cli": (others - older) * each, "cron": older * each}
            assert found["classes"]["cron"]["messages"] == 20
        whole = db.get_space()
        assert (whole["text_messages"], whole["complete"]) == (64, True)
        assert whole["sources"]["cron"]["text_bytes"] == 20 * each
