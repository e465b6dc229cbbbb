"""Revisions: a writer notices that a session changed since it was read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hermes_sessions.errors import InvalidInput, RevisionConflict, StaleFence, UnknownSession
from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions_testing.conformance.concurrency import at_once
from hermes_sessions_testing.conformance.fixtures import OpenStore
from hermes_sessions_testing.conformance.helpers import bases_of, contents, say, session

NEW = {"role": "user", "content": "new"}
#: Every method that takes a revision, called on session "s" with its first message and the options.
Change = Callable[..., Any]
CHANGES: dict[str, Change] = {
    "append": lambda db, _, **seen: db.append_message("s", "user", "new", **seen),
    "append by external id": lambda db, _, **seen: db.append_message(
        "s", "user", "new", external_id="e", **seen
    ),
    "append many": lambda db, _, **seen: db.append_messages("s", [NEW, NEW], **seen),
    "replace": lambda db, _, **seen: db.replace_messages("s", [NEW], **seen),
    "replace by nothing": lambda db, _, **seen: db.replace_messages("s", [], **seen),
    "clear": lambda db, _, **seen: db.clear_messages("s", **seen),
    "soft clear": lambda db, _, **seen: db.clear_messages("s", soft=True, **seen),
    "pop": lambda db, _, **seen: db.pop_message("s", **seen),
    "replace the end": lambda db, _, **seen: db.replace_suffix("s", keep=0, messages=[NEW], **seen),
    "compact": lambda db, _, **seen: db.archive_and_compact("s", [NEW], **seen),
    "compact to nothing": lambda db, _, **seen: db.archive_and_compact("s", [], **seen),
    "rewind": lambda db, first, **seen: db.rewind_to_message("s", first, **seen),
    "tags": lambda db, _, **seen: db.set_tags("s", ["new"], **seen),
    "metadata": lambda db, _, **seen: db.set_metadata("s", {"a": 1}, **seen),
    "a part of the metadata": lambda db, _, **seen: db.update_metadata("s", {"a": 1}, **seen),
    "title": lambda db, _, **seen: db.set_session_title("s", "new", **seen),
}
every_change = pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())


def revision(db: SessionDB) -> int:
    """Return the revision of session "s"."""
    number = session(db, "s")["revision"]
    assert isinstance(number, int)
    return number


class TestRevisions:
    """`revision` grows with every change, and `expected_revision` compares it."""

    @every_change
    @pytest.mark.parametrize("is_expected", [True, False])
    def test_a_change_raises_it(self, db: SessionDB, change: Change, is_expected: bool) -> None:
        """Behaviour 119: whether a revision is expected or not."""
        first = say(db, "s", "one", "two")[0]
        before = revision(db)
        change(db, first, expected_revision=before if is_expected else None)
        assert revision(db) > before

    @every_change
    @pytest.mark.parametrize("off", [-1, 1, 2**40])
    def test_another_revision_is_refused(self, db: SessionDB, change: Change, off: int) -> None:
        """Behaviour 120: nothing is written, and the error has both numbers."""
        first = say(db, "s", "one", "two")[0]
        before, number = db.export_all(), revision(db)
        with pytest.raises(RevisionConflict, match=f"revision {number}, not") as raised:
            change(db, first, expected_revision=number + off)
        assert (raised.value.expected, raised.value.actual) == (number + off, number)
        assert "sqlite3.IntegrityError" in bases_of(raised.value)
        assert db.export_all() == before
        change(db, first, expected_revision=raised.value.actual)

    @every_change
    def test_a_session_that_does_not_exist(self, db: SessionDB, change: Change) -> None:
        """Behaviour 120: a revision of it cannot be expected, in the trash neither."""
        first = say(db, "s", "one")[0]
        number = revision(db)
        db.trash_sessions(["s"])
        with pytest.raises(UnknownSession):
            change(db, first, expected_revision=number)
        db.purge_trash()
        with pytest.raises(UnknownSession):
            change(db, first, expected_revision=number)

    @every_change
    @pytest.mark.parametrize("value", ["1", 1.0, True])
    def test_what_is_not_a_revision(self, db: SessionDB, change: Change, value: Any) -> None:
        """It is refused before anything is written."""
        first = say(db, "s", "one")[0]
        before = db.export_all()
        with pytest.raises(InvalidInput, match="revision"):
            change(db, first, expected_revision=value)
        assert db.export_all() == before

    @every_change
    def test_of_writers_that_saw_the_same(
        self, db: SessionDB, open_another: OpenStore, change: Change
    ) -> None:
        """Behaviour 121: exactly one succeeds."""
        first = say(db, "s", "one", "two")[0]
        number = revision(db)
        handles = [open_another() for _ in range(4)]

        def work(place: int) -> bool:
            try:
                change(handles[place % 4], first, expected_revision=number)
            except RevisionConflict:
                return False
            return True

        assert sum(at_once(work)) == 1

    def test_how_much_it_grows(self, db: SessionDB) -> None:
        """Behaviour 119: by one for each message that is stored; a stored one is no change."""
        db.create_session("s", "cli")
        before = revision(db)
        db.append_message("s", "user", "a", external_id="a")
        db.append_messages("s", [NEW, NEW])
        assert revision(db) == before + 3
        db.append_message("s", "user", "a", external_id="a")
        assert revision(db) == before + 3

    def test_a_restore_raises_it(self, db: SessionDB) -> None:
        """Behaviours 119 and 120: so that the transcript is not taken for the former one."""
        first = say(db, "s", "one", "two")[0]
        db.rewind_to_message("s", first)
        number = revision(db)
        with pytest.raises(RevisionConflict):
            db.restore_rewound("s", expected_revision=number - 1)
        assert db.restore_rewound("s", expected_revision=number) == 2
        assert revision(db) == number + 1
        assert db.restore_rewound("s", expected_revision=number + 1) == 0
        assert revision(db) == number + 1

    def test_labels_and_generated_titles_raise_it(self, db: SessionDB) -> None:
        """Behaviour 119: they are changes of the session, too."""
        say(db, "s", "one")
        number = revision(db)
        db.set_auto_title_if_empty("s", "generated")
        db.set_auto_title_if_empty("s", "not used")
        db.add_tags("s", ["urgent"])
        assert revision(db) == number + 2

    def test_a_continuation_needs_it(self, db: SessionDB) -> None:
        """Behaviour 120: nothing is continued that changed meanwhile."""
        say(db, "s", "one", "two")
        number = revision(db)
        db.append_message("s", "user", "three")
        with pytest.raises(RevisionConflict):
            db.continue_session("s", "t", [NEW], expected_revision=number)
        assert db.get_session("t") is None
        db.continue_session("s", "t", [NEW], expected_revision=number + 1)
        assert contents(db.get_messages("t")) == ["new"]

    def test_an_import_raises_it(self, db: SessionDB) -> None:
        """Behaviour 119: also when it only rewinds messages."""
        first = say(db, "s", "one", "two")[0]
        db.rewind_to_message("s", first)
        rewound = db.export_session("s")
        assert rewound is not None
        db.restore_rewound("s")
        before = db.export_session("s")
        assert before is not None
        db.delete_session("s")
        older = before | {"rewinds": [], "rewind_count": 0}
        assert db.import_sessions([older])["imported"] == 1
        number = revision(db)
        assert db.import_sessions([rewound])["extended"] == 1
        assert db.get_messages("s") == []
        assert revision(db) > number
        number = revision(db)
        assert db.import_sessions([rewound])["skipped"] == 1
        assert revision(db) == number

    @pytest.mark.parametrize("stated", [-5, 0, 10**30, 2**63 - 1])
    def test_an_import_with_another_revision(self, db: SessionDB, stated: int) -> None:
        """A file can neither lower a revision nor use up its range."""
        say(db, "s", "one", "two")
        record = db.export_session("s")
        assert record is not None
        db.delete_session("s")
        report = db.import_sessions([record | {"revision": stated}])
        assert report["imported"] == (stated < 10**20)
        if report["imported"]:
            assert revision(db) == 2
            db.append_message("s", "user", "three", expected_revision=2)

    def test_an_import_keeps_it(self, db: SessionDB) -> None:
        """Behaviour 119: a session that comes back is not taken for an earlier state of itself."""
        say(db, "s", "one", "two")
        for title in ("first", "second", "third"):
            db.set_session_title("s", title)
        number, record = revision(db), db.export_session("s")
        assert record is not None
        db.delete_session("s")
        db.import_sessions([record])
        assert revision(db) == number == 5

    def test_what_does_not_raise_it(self, db: SessionDB) -> None:
        """Behaviour 119: reading, counting tokens, ending and archiving are no changes of it."""
        say(db, "s", "one", "two")
        number = revision(db)
        db.get_messages("s")
        db.search_messages("one")
        db.list_sessions_rich()
        db.update_token_counts("s", input_tokens=1)
        db.end_session("s", "done")
        db.reopen_session("s")
        db.set_session_archived("s")
        db.set_session_pinned("s")
        db.release_lease(db.take_lease("s", "a chat"))
        assert revision(db) == number

    def test_a_fence_is_compared_first(self, db: SessionDB) -> None:
        """A stale holder learns that it is stale."""
        say(db, "s", "one")
        lease = db.take_lease("s", "a chat")
        number = revision(db)
        with pytest.raises(StaleFence):
            db.append_message("s", "user", "x", fence=lease.token - 1, expected_revision=number - 1)
        with pytest.raises(RevisionConflict):
            db.append_message("s", "user", "x", fence=lease.token, expected_revision=number - 1)
        db.append_message("s", "user", "x", fence=lease.token, expected_revision=number)
