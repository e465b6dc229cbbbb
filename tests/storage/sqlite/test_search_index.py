"""The search index follows every change of messages, by any program."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_sessions import SessionDB
from hermes_sessions.model.scope import Scope
from hermes_sessions.storage.search import index_maintenance
from hermes_sessions.text.tokenizer import SEGMENTER_VERSION
from tests.storage.sqlite.index_helpers import (
    NOW,
    append,
    ask,
    change,
    damage,
    found,
    index_nothing_unasked,
)
from tests.storage.sqlite.other_process import start


@pytest.fixture(autouse=True)
def index_only_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    index_nothing_unasked(monkeypatch)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


@pytest.fixture
def db(path: Path) -> Iterator[SessionDB]:
    with SessionDB(path, durability="normal", clock=lambda: NOW) as db:
        db.create_session("s", source="cli")
        yield db


def tokens(path: Path) -> dict[str, int]:
    """Every token of the index, and how many documents have it."""
    counts: dict[str, int] = json.loads(start("say_tokens", path).succeeded()[0])
    return counts


# ── changes by other programs ─────────────────────────────────────────────────────────────────


def test_other_programs_change_messages(db: SessionDB, path: Path) -> None:
    """One who cannot bring the index up to date gives the same answers."""
    first, second, third = append(db, "a walrus", "a badger", "an otter")
    assert found(db, "walrus OR badger OR otter") == [first, second, third]
    assert db.search_index_status()["complete"]
    change(
        path,
        f"UPDATE messages SET content = 'a narwhal' WHERE id = {first}",
        f"DELETE FROM messages WHERE id = {second}",
        "INSERT INTO messages (session_id, role, content, timestamp) "
        f"VALUES ('s', 'user', 'a lynx', {NOW})",
        # Deletes the old row without a word to any trigger.
        "REPLACE INTO messages (id, session_id, role, content, timestamp) "
        f"VALUES ({third}, 's', 'user', 'a stoat', {NOW})",
    )
    expected = {
        "walrus": [],
        "narwhal": [first],
        "badger": [],
        "lynx": [third + 1],
        "otter": [],
        "stoat": [third],
        "-walrus": [first, third, third + 1],
    }
    with SessionDB(path, read_only=True) as reader:
        assert {query: found(reader, query) for query in expected} == expected
        assert not reader.search_index_status()["complete"]
        assert {query: found(db, query) for query in expected} == expected
        assert reader.search_index_status()["complete"]
        assert {query: found(reader, query) for query in expected} == expected


def test_one_change_and_nothing_else(db: SessionDB, path: Path) -> None:
    """Nothing new is stored; who only reads notices it all the same."""
    [only] = append(db, "a walrus")
    assert found(db, "walrus") == [only]
    change(path, "UPDATE messages SET content = 'a narwhal'")
    with SessionDB(path, read_only=True) as reader:
        assert found(reader, "walrus") == []
        answer = ask(reader, "narwhal")
        assert [hit.id for hit in answer.hits] == [only]
        assert answer.report.not_indexed == 1


def test_another_program_fills_a_gap(db: SessionDB, path: Path) -> None:
    """Below what is indexed already."""
    first, second = append(db, "one", "two")
    change(path, f"UPDATE messages SET id = 100 WHERE id = {second}")
    append(db, "three")
    assert found(db, "one OR two OR three") == [first, 100, 101]
    change(
        path,
        "INSERT INTO messages (id, session_id, role, content, timestamp) "
        f"VALUES (50, 's', 'user', 'between', {NOW})",
        # This one knows all columns, so that no trigger has to complete the row.
        "INSERT INTO messages (id, session_id, role, content, timestamp, ordinal) "
        f"VALUES (51, 's', 'user', 'also between', {NOW}, 77)",
    )
    assert found(db, "between") == [50, 51]


def test_another_program_gives_messages_other_ids(db: SessionDB, path: Path) -> None:
    first, second, third = append(db, "first", "second", "third")
    assert len(found(db, "first OR second OR third")) == 3
    change(
        path,
        f"UPDATE messages SET id = id + 1000 WHERE id = {third}",
        f"UPDATE messages SET id = id + 1 WHERE id = {second}",
    )
    assert found(db, "first") == [first]
    assert found(db, "second") == [second + 1]
    assert found(db, "third") == [third + 1000]
    assert found(db, "-first") == [second + 1, third + 1000]
    db.optimize_search()
    assert tokens(path)["xsecond"] == tokens(path)["xthird"] == 1


def test_other_programs_change_titles(db: SessionDB, path: Path) -> None:
    append(db, "hello")
    db.set_session_title("s", "walrus")
    assert [hit.matched for hit in ask(db, "walrus").hits] == ["title"]
    change(path, "UPDATE sessions SET title = 'narwhal' WHERE id = 's'")
    assert ask(db, "walrus").hits == []
    assert [hit.matched for hit in ask(db, "narwhal").hits] == ["title"]
    change(path, "DELETE FROM messages", "DELETE FROM sessions")
    assert ask(db, "narwhal").hits == []
    db.optimize_search()
    assert "xnarwhal" not in tokens(path)


def test_what_was_deleted_leaves_no_token(db: SessionDB, path: Path) -> None:
    # Few among many, which FTS5 alone would leave where they are.
    append(db, *(f"filler {number}" for number in range(300)))
    first, second = append(db, "the password is swordfish", "the weather is fine")
    db.create_session("gone", source="cli")
    db.set_session_title("gone", "marlin")
    append(db, "another tuna", session="gone")
    assert len(found(db, "swordfish OR weather OR marlin OR tuna")) == 3
    change(path, f"DELETE FROM messages WHERE id = {first}")
    db.delete_session("gone")
    db.optimize_search()
    assert found(db, "password OR weather") == [second]
    assert not {"xpassword", "xswordfish", "xtuna", "xmarlin"} & set(tokens(path))
    assert tokens(path)["xweather"] == 1
    # Not even in pieces: tokens that begin alike are stored by what differs.
    with db.provider.read() as tx:
        blocks = [row[0] for row in tx.all("SELECT block FROM search_index_data")]
    assert any(b"eather" in block for block in blocks)
    assert not [block for block in blocks for word in (b"wordfish", b"arlin") if word in block]


@pytest.mark.parametrize(
    "values",
    [
        "CAST(X'FFFE00' AS BLOB), NULL, NULL",
        "'{broken', 'json', '{broken'",
        "'[1, {\"type\": 7}]', 'json', '[1, null]'",
        "'%%%', 'base64', '3'",
        "42.5, 'unheard of', '\"text\"'",
        "NULL, 'json', ''",
    ],
)
def test_values_that_the_store_never_writes(db: SessionDB, path: Path, values: str) -> None:
    """One odd message does not keep the messages after it from being indexed and found."""
    change(
        path,
        "INSERT INTO messages (session_id, role, timestamp, content, content_type, tool_calls) "
        f"VALUES ('s', 'user', {NOW}, {values})",
    )
    [after] = append(db, "found all the same")
    assert found(db, "same") == [after]
    assert len(found(db, "-same")) == 1
    assert db.search_index_status()["complete"]


@pytest.mark.parametrize("timestamp", ["'2026-05-01T10:30:00'", "X'01'", "-1e308", "9e999"])
def test_times_that_the_store_never_writes(db: SessionDB, path: Path, timestamp: str) -> None:
    [before] = append(db, "a heron")
    assert found(db, "heron") == [before]
    change(
        path,
        "INSERT INTO messages (session_id, role, content, timestamp) "
        f"VALUES ('s', 'user', 'a heron, too', {timestamp})",
    )
    [after] = append(db, "a third heron")
    assert found(db, "heron") == [before, before + 1, after]
    for sort in ("newest", "oldest"):
        assert found(db, "heron", sort=sort) == [before, before + 1, after]
    change(path, f"UPDATE messages SET timestamp = {NOW}")
    assert found(db, "heron", sort="newest") == [before, before + 1, after]
    assert db.search_index_status()["complete"]


# ── ids that only other programs give ─────────────────────────────────────────────────────────


def test_ids_below_one(db: SessionDB, path: Path) -> None:
    """The index uses such numbers for titles; these messages are read directly."""
    db.set_session_title("s", "menagerie")
    [ours] = append(db, "our gecko")
    assert found(db, "gecko OR menagerie") == [ours]
    change(
        path,
        *(
            "INSERT INTO messages (id, session_id, role, content, timestamp) "
            f"VALUES ({number}, 's', 'user', 'gecko {abs(number)}', {NOW + number})"
            for number in (0, -1, -2, -(2**40))
        ),
    )
    everything = [-(2**40), -2, -1, 0, ours]
    with SessionDB(path, read_only=True) as reader:
        assert found(reader, "gecko") == everything
    for options in ({}, {"sort": "newest"}, {"sort": "oldest"}):
        assert found(db, "gecko", **options) == everything
        assert found(db, "-walrus", **options) == everything
        assert found(db, "role:user", **options) == everything
    answer = ask(db, "gecko")
    assert (answer.report.total, answer.report.total_is_exact) == (5, True)
    assert answer.report.not_indexed == 4
    assert answer.report.complete
    # The title and the watchman stand where they stood.
    assert db.search_index_status()["complete"]
    assert {hit.matched for hit in ask(db, "menagerie").hits} == {"title"}
    assert db.optimize_search(rebuild=True)["indexed"] == 2
    assert found(db, "gecko") == everything


def test_ids_below_one_are_changed_and_deleted(db: SessionDB, path: Path) -> None:
    db.set_session_title("s", "menagerie")
    append(db, "our gecko")
    change(
        path,
        *(
            "INSERT INTO messages (id, session_id, role, content, timestamp) "
            f"VALUES ({number}, 's', 'user', 'gecko', {NOW})"
            for number in (-1, -2)
        ),
    )
    assert found(db, "gecko") == [-2, -1, 1]
    change(
        path,
        "UPDATE messages SET content = 'newt' WHERE id = -1",
        "DELETE FROM messages WHERE id = -2",
    )
    assert found(db, "gecko") == [1]
    assert found(db, "newt") == [-1]
    assert found(db, "menagerie") == [1]
    assert db.search_index_status()["complete"]


def test_pages_of_ids_below_one(db: SessionDB, path: Path) -> None:
    numbers = [-number for number in range(7)]
    change(
        path,
        *(
            "INSERT INTO messages (id, session_id, role, content, timestamp) "
            f"VALUES ({number}, 's', 'user', 'gecko', {NOW - number})"
            for number in numbers
        ),
    )
    for sort in ("relevance", "newest", "oldest"):
        for query in ("gecko", "role:user"):
            seen: list[int] = []
            cursor = None
            while cursor is not None or not seen:
                answer = db.search(query, sort=sort, limit=2, cursor=cursor)
                seen += [hit.id for hit in answer.hits]
                cursor = answer.next_cursor
            assert sorted(seen) == sorted(numbers), (sort, query)


# ── what may be found ─────────────────────────────────────────────────────────────────────────


def test_rewound_and_restored(db: SessionDB) -> None:
    first, second = append(db, "a kestrel", "a second kestrel")
    assert found(db, "kestrel") == [first, second]
    db.rewind_to_message("s", second)
    answer = ask(db, "kestrel")
    assert [hit.id for hit in answer.hits] == [first]
    assert answer.report.total == 1
    assert len(db.search_messages("kestrel", include_inactive=True)) == 2
    db.restore_rewound("s")
    assert found(db, "kestrel") == [first, second]


def test_rewound_before_it_was_indexed(db: SessionDB) -> None:
    first, second = append(db, "a kestrel", "a second kestrel")
    db.rewind_to_message("s", second)
    assert found(db, "kestrel") == [first]
    db.restore_rewound("s")
    assert found(db, "kestrel") == [first, second]


def test_compacted_originals_are_found(db: SessionDB, path: Path) -> None:
    first, _ = append(db, "the original egret", "a summary")
    assert found(db, "egret") == [first]
    change(path, f"UPDATE messages SET compacted = 1 WHERE id = {first}")
    assert len(db.get_messages_as_conversation("s")) == 1
    assert found(db, "egret") == [first]
    db.optimize_search(rebuild=True)
    assert found(db, "egret") == [first]


@pytest.mark.parametrize("is_indexed", [True, False])
def test_deleted_sessions_are_not_counted(db: SessionDB, is_indexed: bool) -> None:
    db.create_session("gone", source="telegram", user_id="anna")
    db.create_session("trashed", source="telegram", user_id="anna")
    [kept] = append(db, "an ibis")
    append(db, "an ibis", "one more ibis", session="gone")
    append(db, "an ibis", "one more ibis", session="trashed")
    if is_indexed:
        assert len(found(db, "ibis")) == 5
    db.delete_session("gone")
    db.trash_sessions(["trashed"])
    for options in ({}, {"sort": "newest"}):
        answer = ask(db, "ibis source:cli", **options)
        assert [hit.id for hit in answer.hits] == [kept]
        assert (answer.report.total, answer.report.removed) == (1, {})
    answer = ask(db, "ibis", scope=Scope(user_id="anna", source="telegram"))
    assert answer.hits == []
    assert (answer.report.total, answer.report.not_indexed) == (0, 0)


def test_a_noisy_session_does_not_hide_the_others(db: SessionDB) -> None:
    """Relevance looks beyond the newest matches where one session has most of them."""
    db.create_session("quiet", source="cli")
    [wanted] = append(db, "How do we restart the gateway?", session="quiet")
    noise = "gateway: poll number {} found nothing to do, and the next one follows in a moment"
    append(db, *(noise.format(number) for number in range(2_500)))
    answer = db.search("gateway", limit=10)
    assert answer.hits[0].id == wanted
    assert answer.report.ranked < 500
    # All of them follow, each once.
    assert answer.report.total == 1_000
    assert not answer.report.total_is_exact
    everything = db.search_messages("gateway", limit=-1)
    assert len({hit["id"] for hit in everything}) == len(everything) == 2_501


def test_reports_do_not_hide_what_people_said(db: SessionDB) -> None:
    """The same with many short sessions."""
    [wanted] = append(db, "How do we restart the gateway?")
    for number in range(300):
        db.create_session(f"report {number}", source="cron")
        append(db, "gateway: nothing to do", session=f"report {number}")
    assert db.search("gateway", limit=10).hits[0].id == wanted


# ── another version of the rules ──────────────────────────────────────────────────────────────


def test_other_rules_for_words(db: SessionDB, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An index that another version of the segmenter made is rebuilt."""
    ids = append(db, *(f"osprey {number}" for number in range(250)))
    assert found(db, "osprey") == ids
    # An index as other rules left it: with tokens that mean nothing to these.
    damage(path, "DELETE FROM search_index WHERE rowid BETWEEN 1 AND 200")
    assert len(found(db, "osprey")) == 50
    monkeypatch.setattr(index_maintenance, "SEGMENTER_VERSION", SEGMENTER_VERSION + 1)
    assert not db.search_index_status()["complete"]
    with SessionDB(path, read_only=True) as reader:
        # Who must not write looks at the messages.
        answer = ask(reader, "osprey")
        assert sorted(hit.id for hit in answer.hits) == ids
        assert answer.report.not_indexed == 250
        assert answer.report.complete
    assert found(db, "osprey") == ids
    assert db.search_index_status()["complete"]
    assert db.optimize_search() == {"indexed": 0, "rebuilt": False}


def test_answers_during_a_rebuild(
    db: SessionDB, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = append(db, *(f"osprey {number}" for number in range(250)))
    assert found(db, "osprey") == ids
    monkeypatch.setattr(index_maintenance, "SEGMENTER_VERSION", SEGMENTER_VERSION + 1)
    monkeypatch.setattr(index_maintenance, "_BATCH", 100)
    seen = []
    with SessionDB(path, read_only=True) as reader:

        def ask_meanwhile(indexed: int, total: int) -> None:
            answer = ask(reader, "osprey")
            seen.append(answer.report.not_indexed)
            assert sorted(hit.id for hit in answer.hits) == ids

        db.optimize_search(on_progress=ask_meanwhile)
    assert seen == [150, 50, 0]
