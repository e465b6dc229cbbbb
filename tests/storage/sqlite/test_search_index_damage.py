"""A lost or damaged search index fails no search or write, and is rebuilt."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_sessions import SessionDB
from hermes_sessions.storage.search.candidate_reader import TAIL
from hermes_sessions.storage.sqlite.provider import SQLiteSessionDBProvider
from tests.storage.sqlite.index_helpers import (
    append,
    damage,
    found,
    import_elsewhere,
    index_nothing_unasked,
    require_sound_index,
)

#: What another program did to the index.
DAMAGE = {
    "dropped": "DROP TABLE search_index",
    "emptied": "INSERT INTO search_index(search_index) VALUES ('delete-all')",
    "a table of another kind": "DROP TABLE search_index; CREATE TABLE search_index (tokens)",
    "no contents": "DELETE FROM search_index_data",
    "no pages": "DELETE FROM search_index_data WHERE id > 10",
    "pages of zeros": (
        "UPDATE search_index_data SET block = zeroblob(length(block)) WHERE id > 10"
    ),
    "pages of noise": (
        "UPDATE search_index_data SET block = "
        "CAST(replace(hex(zeroblob(length(block) / 2)), '00', '~!') AS BLOB) WHERE id > 10"
    ),
    "pages cut in half": (
        "UPDATE search_index_data SET block = substr(block, 1, length(block) / 2) WHERE id > 10"
    ),
    "no structure": "DELETE FROM search_index_data WHERE id = 10",
    "a broken structure": "UPDATE search_index_data SET block = X'0102' WHERE id = 10",
    "broken averages": "UPDATE search_index_data SET block = X'' WHERE id = 1",
    "no pages known": "DELETE FROM search_index_idx",
    "no documents known": "DELETE FROM search_index_docsize",
    "a version of the future": "UPDATE search_index_config SET v = 99 WHERE k = 'version'",
    "no configuration": "DELETE FROM search_index_config",
    "without data": "DROP TABLE search_index_data",
    "without pages": "DROP TABLE search_index_idx",
    "without documents": "DROP TABLE search_index_docsize",
    "without configuration": "DROP TABLE search_index_config",
    "a mark forgotten": "DELETE FROM search_state",
    "without a mark": "DROP TABLE search_state",
    "without a queue": "DROP TABLE search_queue",
    "without titles": "DROP TABLE search_titles",
    "without a trigger": "DROP TRIGGER messages_search_update",
    "without anything": (
        "DROP TABLE search_index; DROP TABLE search_state; DROP TABLE search_queue; "
        "DROP TABLE search_titles"
    ),
}


@pytest.fixture(autouse=True)
def index_only_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    index_nothing_unasked(monkeypatch)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


@pytest.fixture
def db(path: Path) -> Iterator[SessionDB]:
    with SessionDB(path, durability="normal") as db:
        db.create_session("s", source="cli")
        yield db


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_index(db: SessionDB, path: Path, kind: str) -> None:
    """Writes continue, every answer is complete, and the next search rebuilds the index."""
    first, second = append(db, "a walrus", "a badger")
    db.set_session_title("s", "a title")
    assert found(db, "walrus OR badger OR title") == [first, second]
    damage(path, *DAMAGE[kind].split("; "))
    with SessionDB(path, read_only=True) as reader:
        assert found(reader, "walrus") == [first]
        assert found(reader, "title") == [first]
    [third] = append(db, "an otter")
    db.set_session_title("s", "another title")
    db.create_session("gone", source="cli")
    db.delete_session("gone")
    db.replace_messages("s", [{"role": "user", "content": text} for text in ("a lynx", "a stoat")])
    assert found(db, "walrus OR badger OR otter") == []
    assert found(db, "lynx") == [third + 1]
    assert found(db, "another") == [third + 1]
    require_sound_index(db)


@pytest.mark.parametrize("kind", DAMAGE)
def test_optimize_mends(path: Path, kind: str) -> None:
    with SessionDB(path) as db:
        db.create_session("s", source="cli")
        db.set_session_title("s", "a title")
        ids = append(db, *(f"walrus {number}" for number in range(20)))
        assert found(db, "walrus") == ids
    damage(path, *DAMAGE[kind].split("; "))
    with SessionDB(path) as db:
        db.optimize_search()
        require_sound_index(db)
        assert found(db, "walrus") == ids
        assert found(db, "title") == ids[:1]


def test_damage_that_a_question_meets(db: SessionDB, path: Path) -> None:
    """The quick check misses it; the search that meets it reports it and still answers."""
    ids = append(db, *(f"walrus number{number}" for number in range(1_500)))
    assert found(db, "walrus") == ids
    db.optimize_search()
    damage(
        path,  # The last page is not the one with the watchman's token.
        "UPDATE search_index_data SET block = zeroblob(length(block)) "
        "WHERE id = (SELECT MAX(id) FROM search_index_data WHERE id < (1 << 53))",
    )
    assert db.search_index_status()["complete"]
    answer = db.search("walrus number999", relax=False)
    assert [hit.id for hit in answer.hits] == [ids[999]]
    assert answer.report.notes == ["The search index was damaged and is being rebuilt."]
    require_sound_index(db)


def test_damage_that_indexing_meets(db: SessionDB, path: Path) -> None:
    """FTS5 comes across it when it merges, long after the statement that asked for it."""
    for part in range(14):
        append(db, *(f"walrus {' '.join(f'{part}x{n}y{m}' for m in range(30))}" for n in range(60)))
        assert found(db, "otter") == []
    damage(
        path,
        # The last page of each piece of the index; the watchman's is the only page of its piece.
        "UPDATE search_index_data SET block = zeroblob(length(block)) WHERE id IN "
        "(SELECT MAX(id) FROM search_index_data WHERE id > 10 GROUP BY id >> 37 "
        "HAVING COUNT(*) > 1)",
    )
    assert db.search_index_status()["complete"]
    for count in range(4):
        append(db, f"otter {count}")
        assert len(found(db, "otter")) == count + 1
    assert len(found(db, "walrus")) == 14 * 60
    require_sound_index(db)


def test_a_damaged_index_of_a_large_store(db: SessionDB, path: Path) -> None:
    """Who cannot look at everything says so."""
    import_elsewhere(path, TAIL + 500)
    db.optimize_search()
    damage(path, "DELETE FROM search_index_data")
    with SessionDB(path, read_only=True) as reader:
        answer = reader.search("imported", relax=False, limit=1)
        assert not answer.report.complete
        assert answer.report.not_indexed == TAIL + 500
        assert reader.search("imported 2400", relax=False).hits
    answer = db.search("imported 7", relax=False)
    assert [hit.snippet for hit in answer.hits] == [">>>imported<<< >>>7<<<"]


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM search_index WHERE rowid = 2",
        "INSERT INTO search_index(rowid, tokens) VALUES (77, 'xwalrus')",
        "DELETE FROM search_titles",
        "DELETE FROM search_index WHERE rowid = -1",
    ],
)
def test_an_index_that_says_something_else(db: SessionDB, path: Path, statement: str) -> None:
    """Sound in itself, but not of these messages: the thorough check compares them."""
    db.set_session_title("s", "a title")
    ids = append(db, "a walrus", "a walrus, too", "a third walrus")
    assert found(db, "walrus") == ids
    assert found(db, "title") == ids[:1]
    damage(path, "UPDATE messages SET content = 'a walrus' WHERE id = 3", statement)
    assert db.optimize_search()["rebuilt"]
    assert found(db, "walrus") == ids
    assert found(db, "title") == ids[:1]
    require_sound_index(db)


def test_what_others_merged_meanwhile_is_not_damage(db: SessionDB) -> None:
    provider = db.provider
    assert isinstance(provider, SQLiteSessionDBProvider)
    for number in range(3):
        append(db, f"walrus {number}")
        assert len(found(db, "walrus")) == number + 1
    provider.write_on_connection(
        lambda writer: writer.execute("INSERT INTO search_index(search_index) VALUES ('optimize')")
    )
    with provider.read() as tx:
        assert provider.search_index.damage(tx) is None
