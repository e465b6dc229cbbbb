"""The index follows the messages: new ones are found at once, deleted ones are not."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from hermes_sessions.model.scope import Scope
from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions.text.query.filters import SearchConditions
from hermes_sessions_testing.clock import FrozenClock
from hermes_sessions_testing.conformance.fixtures import OpenStore
from hermes_sessions_testing.conformance.helpers import found, ids, say


def prune(db: SessionDB) -> None:
    """End session ``s`` and delete what has ended."""
    db.end_session("s", "done")
    assert db.prune_sessions(0) == 1


#: Ways to remove the text of session ``s``, by name.
REMOVALS: dict[str, Callable[[SessionDB], Any]] = {
    "delete_session": lambda db: db.delete_session("s"),
    "delete_sessions": lambda db: db.delete_sessions(["s"]),
    "clear_messages": lambda db: db.clear_messages("s"),
    "replace_messages": lambda db: db.replace_messages(
        "s", [{"role": "user", "content": "something else"}]
    ),
    "trash_sessions": lambda db: db.trash_sessions(["s"]),
    "purge_trash": lambda db: db.trash_sessions(["s"]) and db.purge_trash(),
    "prune_sessions": prune,
    "rewind_to_message": lambda db: db.rewind_to_message("s", db.get_messages("s")[0]["id"]),
}


class TestSearchUpkeep:
    """No write waits for the index, and no answer is out of date."""

    @pytest.mark.parametrize("was_indexed", [False, True], ids=["not indexed yet", "indexed"])
    @pytest.mark.parametrize("removal", REMOVALS.values(), ids=REMOVALS)
    def test_what_is_gone(
        self,
        db: SessionDB,
        clock: FrozenClock,
        removal: Callable[[SessionDB], Any],
        was_indexed: bool,
    ) -> None:
        """Behaviour 69: it is not found, not counted and not shown as context."""
        say(db, "s", "a crocodile", "the crocodile answers")
        say(db, "other", "an alligator")
        if was_indexed:
            assert len(db.search_messages("crocodile")) == 2
        clock.advance(days=1)
        removal(db)
        for query in ("crocodile", "croco*", "*rocodil*", '"a crocodile"', "crocodile answers"):
            answer = db.search(query)
            assert (answer.hits, answer.report.total) == ([], 0), query
            assert db.search_messages(query) == [], query
        shown = str([row["context"] for row in db.search_messages("-zeppelin")])
        assert ("crocodile" in shown, "alligator" in shown) == (False, True)
        db.optimize_search()
        assert db.search("crocodile").hits == []
        assert db.search_index_status()["complete"]

    def test_titles_of_what_is_gone(self, db: SessionDB) -> None:
        """Behaviour 69: a session without messages to show is not found by its title either."""
        for session_id in ("deleted", "cleared", "trashed", "kept"):
            say(db, session_id, "hello", title=f"Crocodile {session_id}")
        assert len(found(db, "crocodile")) == 4
        db.delete_session("deleted")
        db.clear_messages("cleared")
        db.trash_sessions(["trashed"])
        assert found(db, "crocodile") == ["Crocodile kept"]
        db.optimize_search(rebuild=True)
        assert found(db, "crocodile") == ["Crocodile kept"]

    def test_what_comes_back(self, db: SessionDB) -> None:
        """From the trash, and from a rewind."""
        first, *_ = say(db, "s", "a crocodile", "answer")
        db.trash_sessions(["s"])
        assert db.search_messages("crocodile") == []
        db.restore_sessions(["s"])
        assert found(db, "crocodile") == ["a crocodile"]
        db.rewind_to_message("s", first)
        assert db.search_messages("crocodile") == []
        db.restore_rewound("s")
        assert found(db, "crocodile") == ["a crocodile"]

    def test_rewound_text_on_request(self, db: SessionDB) -> None:
        """Behaviour 93: only if it is asked for, and then with its context."""
        _, _, target, _ = say(db, "s", "first question", "reply", "a crocodile", "crocodile reply")
        db.rewind_to_message("s", target)
        assert db.search_messages("crocodile") == []
        rows = db.search_messages("crocodile", include_inactive=True, sort="oldest")
        assert [row["ordinal"] for row in rows] == [3, 4]
        assert [entry["content"] for entry in rows[0]["context"]] == [
            "reply",
            "a crocodile",
            "crocodile reply",
        ]
        conditions = SearchConditions(include_rewound=True)
        assert len(found(db, "crocodile", conditions=conditions)) == 2
        db.optimize_search(rebuild=True)
        assert db.search_messages("crocodile") == []
        assert len(db.search_messages("crocodile", include_inactive=True)) == 2

    def test_compacted_text(self, db: SessionDB) -> None:
        """Behaviour 93: originals that a summary replaced are found."""
        said = [("a crocodile", 1), ("summary of it all", 0)]
        record = {
            "id": "s",
            "source": "cli",
            "started_at": 1.0,
            "messages": [
                {"role": "user", "content": text, "timestamp": 2.0, "compacted": compacted}
                for text, compacted in said
            ],
        }
        assert db.import_sessions([record])["ok"]
        (exported,) = db.export_all()
        assert [message["compacted"] for message in exported["messages"]] == [1, 0]
        assert found(db, "crocodile") == ["a crocodile"]
        assert found(db, "summary") == ["summary of it all"]

    def test_every_way_of_storing(self, db: SessionDB) -> None:
        """The next search finds it."""
        db.create_session("s", "cli")
        db.append_message("s", "user", "one crocodile")
        assert len(found(db, "crocodile")) == 1
        db.append_messages("s", [{"role": "user", "content": "two crocodile"}])
        assert len(found(db, "crocodile")) == 2
        exported = db.export_all()
        db.replace_messages("s", [{"role": "user", "content": "three crocodile"}])
        assert found(db, "crocodile") == ["three crocodile"]
        db.delete_session("s")
        assert db.import_sessions(exported)["ok"]
        assert set(found(db, "crocodile")) == {"one crocodile", "two crocodile"}

    def test_facts_of_a_session_change(self, db: SessionDB) -> None:
        """Filters use the current values."""
        say(db, "s", "a crocodile", model="old")
        assert found(db, "crocodile model:old") == ["a crocodile"]
        db.update_session_model("s", "new")
        assert found(db, "crocodile model:old") == []
        assert found(db, "crocodile model:new") == ["a crocodile"]
        assert found(db, "crocodile has:title") == []
        db.set_session_title("s", "T")
        assert found(db, "crocodile has:title") == ["a crocodile"]

    def test_an_index_made_anew(self, db: SessionDB) -> None:
        """The rebuilt index is complete and exact, and reports its progress."""
        for number in range(130):
            say(db, f"s{number}", f"crocodile {number}", title=f"Title {number}")
        db.delete_session("s7")
        asked = ("crocodile", "title", "crocodile -13", "-crocodile", "*ocod*", "title 5")
        before = {query: found(db, query, limit=1_000) for query in asked}
        steps: list[tuple[int, int]] = []
        result = db.optimize_search(rebuild=True, on_progress=lambda *step: steps.append(step))
        # What the handle's own thread indexes meanwhile, this call does not.
        assert (result["rebuilt"], 0 <= result["indexed"] <= 258) == (True, True)
        assert steps == sorted(steps)
        assert [done for done, _ in steps[-1:]] == ([result["indexed"]] if steps else [])
        assert all(done <= total <= 258 for done, total in steps)
        assert {query: found(db, query, limit=1_000) for query in asked} == before
        status = db.search_index_status()
        assert (status["complete"], status["pending"]) == (True, 0)
        assert db.optimize_search() == {"indexed": 0, "rebuilt": False}

    def test_very_long_messages(self, db: SessionDB) -> None:
        """Their beginning and end are found, and the result reports that there is more."""
        say(db, "s", "head " + "filler " * 20_000 + "tail", "a short one")
        for query in ("head", "tail", "head tail"):
            answer = db.search(query, relax=False)
            assert [hit.ordinal for hit in answer.hits] == [1], query
            assert any("long" in note for note in answer.report.notes), query
        assert [hit.ordinal for hit in db.search("-filler").hits] == [2]

    def test_searching_while_others_write(self, db: SessionDB) -> None:
        """Every result shows one state of the store, and later results never an earlier state."""
        db.create_session("s", "cli")
        written, failures = threading.Event(), list[BaseException]()

        def write() -> None:
            try:
                for number in range(60):
                    db.append_message("s", "user", f"crocodile {number}")
            except BaseException as error:
                failures.append(error)
                raise
            finally:
                written.set()

        writer = threading.Thread(target=write)
        writer.start()
        seen = 0
        while True:
            is_last = written.is_set()
            rows = db.search_messages("crocodile", sort="oldest", limit=-1)
            assert [row["ordinal"] for row in rows] == list(range(1, len(rows) + 1))
            assert len(rows) >= seen
            seen = len(rows)
            if is_last:
                break
        writer.join()
        assert (seen, failures) == (60, [])


class TestSearchAcrossHandles:
    """Handles on one store find the same."""

    def test_what_one_writes_the_other_finds(self, db: SessionDB, open_another: OpenStore) -> None:
        """Messages deleted by one handle are not found by another."""
        other = open_another()
        say(db, "s", "a crocodile", title="Reptiles")
        assert found(other, "crocodile") == ["a crocodile"]
        say(other, "t", "one more crocodile")
        assert set(found(db, "crocodile")) == {"a crocodile", "one more crocodile"}
        other.set_session_title("s", "Animals")
        assert (found(db, "reptiles"), found(db, "animals")) == ([], ["Animals"])
        db.delete_session("s")
        assert found(other, "crocodile") == ["one more crocodile"]

    def test_a_handle_that_only_reads(self, db: SessionDB, open_another: OpenStore) -> None:
        """It finds what is indexed and what is not, changed and deleted since."""
        reader = open_another(read_only=True)
        indexed = say(db, "s", "a crocodile", "the crocodile answers")
        assert ids(db.search_messages("crocodile", sort="oldest")) == indexed
        added = db.append_message("s", "user", "another crocodile", timestamp=5e9)
        say(db, "t", "an alligator", title="Crocodile house")
        db.delete_sessions(["nobody"])
        assert ids(reader.search_messages("crocodile", sort="oldest"))[-1] == added
        answer = reader.search("crocodile", sort="oldest")
        assert {hit.matched for hit in answer.hits} == {"message", "title"}
        assert (answer.report.total, answer.report.complete) == (4, True)
        db.replace_messages("s", [{"role": "user", "content": "no such animal"}])
        assert found(reader, "crocodile") == ["Crocodile house"]
        assert found(reader, "animal -crocodile") == ["no such animal"]

    def test_a_lag_tells_nobody_about_others(self, db: SessionDB, open_another: OpenStore) -> None:
        """The number of unindexed messages is counted within the scope."""
        reader = open_another(read_only=True)
        say(db, "hers", "a crocodile", user_id="anna")
        say(db, "his", *["a crocodile"] * 90, user_id="bert")
        answer = reader.search("crocodile", scope=Scope(user_id="anna"))
        assert [hit.session_id for hit in answer.hits] == ["hers"]
        assert answer.report.not_indexed <= 1
        assert (answer.report.total, answer.report.complete) == (1, True)

    def test_the_index_outlives_every_handle(self, db: SessionDB, open_another: OpenStore) -> None:
        """Closing and opening again changes no answer."""
        say(db, "s", *[f"crocodile {number}" for number in range(250)])
        before = found(db, "crocodile", limit=300)
        db.append_message("s", "user", "crocodile 250")
        db.close()
        reopened = open_another()
        assert len(found(reopened, "crocodile", limit=300)) == len(before) + 1
        assert reopened.search("crocodile").report.complete
