"""The end of a transcript: popped, cleared and replaced in ways that can be undone."""

from __future__ import annotations

from typing import Any

import pytest

from hermes_sessions.errors import InvalidInput, MessageTooLarge, RevisionConflict, UnknownSession
from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions_testing.clock import FrozenClock
from hermes_sessions_testing.conformance.concurrency import THREADS, at_once
from hermes_sessions_testing.conformance.fixtures import OpenStore
from hermes_sessions_testing.conformance.helpers import (
    assert_summary_is_true,
    compress,
    contents,
    found,
    ids,
    say,
    session,
)

NEW = {"role": "assistant", "content": "new", "payload": {"id": "new"}}


def everything(db: SessionDB) -> list[Any]:
    """Return the contents of session "s", hidden ones included."""
    return contents(db.get_messages("s", include_inactive=True))


class TestPop:
    """The newest message comes off, whatever its role."""

    def test_the_newest_comes_back_as_it_was(self, db: SessionDB) -> None:
        """Behaviour 125: with all its fields; the rest is as if it had never been said."""
        say(db, "s", "one", "two")
        payload = {"type": "function_call", "arguments": "\ud83d"}
        db.append_message("s", "tool", ["three"], tool_calls=[{"id": "c"}], payload=payload)
        stored = db.get_messages("s")[-1]
        assert db.pop_message("s") == stored
        assert (stored["content"], stored["payload"]) == (["three"], payload)
        assert contents(db.get_messages("s")) == ["one", "two"]
        assert_summary_is_true(db, "s")
        assert [db.pop_message("s") is None for _ in range(4)] == [False, False, True, True]
        assert db.get_messages("s") == []
        assert_summary_is_true(db, "s")
        assert len(everything(db)) == 3

    def test_nothing_to_pop(self, db: SessionDB) -> None:
        """Behaviour 125: an empty, unknown or trashed session gives None and does not change."""
        db.create_session("s", "cli")
        number = session(db, "s")["revision"]
        assert db.pop_message("s", expected_revision=number) is None
        assert session(db, "s")["revision"] == number
        assert db.pop_message("missing") is None
        db.append_message("s", "user", "one")
        db.trash_sessions(["s"])
        assert db.pop_message("s") is None
        db.restore_sessions(["s"])
        assert contents(db.get_messages("s")) == ["one"]

    def test_it_is_recorded_and_restored(self, db: SessionDB) -> None:
        """Behaviour 126: a pop is a rewind by one message, restored newest first."""
        added = say(db, "s", "one", "two", "three")
        number = session(db, "s")["revision"]
        db.pop_message("s")
        db.pop_message("s")
        assert session(db, "s")["revision"] == number + 2
        records = db.list_rewinds("s")
        assert [(r["target_message_id"], r["hidden_count"]) for r in records] == [
            (added[2], 1),
            (added[1], 1),
        ]
        assert session(db, "s")["rewind_count"] == 0
        assert found(db, "three") == []
        assert db.restore_rewound("s") == 1
        assert contents(db.get_messages("s")) == ["one", "two"]
        assert db.restore_rewound("s") == 1
        assert ids(db.get_messages("s")) == added
        assert_summary_is_true(db, "s")

    def test_the_way_back_after_other_messages(self, db: SessionDB) -> None:
        """Behaviour 126: when the session went on, the error names the call that leads back."""
        say(db, "s", "one", "two")
        db.pop_message("s")
        first = db.list_rewinds("s")[0]["id"]
        db.append_message("s", "assistant", "other")
        with pytest.raises(InvalidInput, match=r"replace_suffix\('s', .*keep=1, messages=\[\]"):
            db.restore_rewound("s", rewind_id=first)
        db.replace_suffix("s", expected_revision=None, keep=1, messages=[])
        assert db.restore_rewound("s", rewind_id=first) == 1
        assert contents(db.get_messages("s")) == ["one", "two"]

    def test_a_message_goes_to_the_end_after_a_pop(self, db: SessionDB) -> None:
        """Ordinals are never given twice."""
        say(db, "s", "one", "two")
        db.pop_message("s")
        db.append_message("s", "assistant", "instead")
        assert contents(db.get_messages("s")) == ["one", "instead"]
        assert [m["ordinal"] for m in db.get_messages("s")] == [1, 3]

    def test_a_long_thread(self, db: SessionDB, clock: FrozenClock) -> None:
        """The thread is as recent as the messages that are left in it."""
        say(db, "head", "one")
        compress(db, clock, "head", "tip")
        db.append_message("tip", "user", "late", timestamp=clock() + 1000)
        before = db.list_sessions_rich()[0]["last_active"]
        db.pop_message("tip")
        assert db.list_sessions_rich()[0]["last_active"] < before


class TestSoftClear:
    """Everything is hidden, and can come back."""

    def test_a_clear_that_can_be_undone(self, db: SessionDB) -> None:
        """Behaviour 127: replay is empty, the messages stay, one restore brings all back."""
        added = say(db, "s", "one", "two", "three")
        number = session(db, "s")["revision"]
        db.clear_messages("s", soft=True)
        assert db.get_messages("s") == []
        assert db.get_messages_as_conversation("s") == []
        assert everything(db) == ["one", "two", "three"]
        assert (found(db, "two"), session(db, "s")["revision"]) == ([], number + 1)
        assert_summary_is_true(db, "s")
        db.clear_messages("s", soft=True)
        assert session(db, "s")["revision"] == number + 1
        assert db.restore_rewound("s") == 3
        assert ids(db.get_messages("s")) == added
        assert_summary_is_true(db, "s")

    def test_without_soft_it_deletes(self, db: SessionDB) -> None:
        """Behaviour 127: as the documented call does."""
        say(db, "s", "one", "two")
        db.pop_message("s")
        db.clear_messages("s")
        assert everything(db) == []
        assert db.list_rewinds("s") == []
        assert db.restore_rewound("s") == 0

    def test_an_unknown_session(self, db: SessionDB) -> None:
        """Nothing happens."""
        db.clear_messages("missing", soft=True)
        assert db.get_session("missing") is None


class TestSuffix:
    """The last part of a transcript is replaced if nothing changed."""

    def test_the_end_is_replaced(self, db: SessionDB) -> None:
        """Behaviour 128: the first messages stay, the new ones follow, the rest is hidden."""
        added = say(db, "s", "one", "two", "three", "four")
        seen = session(db, "s")["revision"]
        done = db.replace_suffix("s", expected_revision=seen, keep=2, messages=[NEW, NEW])
        assert contents(db.get_messages("s")) == ["one", "two", "new", "new"]
        assert ids(db.get_messages("s")) == [*added[:2], *done["message_ids"]]
        assert db.get_payloads("s") == [{"id": "new"}] * 2
        assert everything(db) == ["one", "two", "three", "four", "new", "new"]
        assert done["hidden_count"] == 2
        assert done["rewind_id"] == db.list_rewinds("s")[0]["id"]
        assert done["revision"] == session(db, "s")["revision"] == seen + 3
        assert_summary_is_true(db, "s")
        db.replace_suffix("s", expected_revision=done["revision"], keep=2, messages=[])
        db.restore_rewound("s", rewind_id=done["rewind_id"])
        assert ids(db.get_messages("s")) == added

    def test_everything_or_nothing_is_kept(self, db: SessionDB) -> None:
        """Behaviour 128: keep may be 0 or all; without a change the revision stays."""
        say(db, "s", "one", "two")
        seen = session(db, "s")["revision"]
        done = db.replace_suffix("s", expected_revision=seen, keep=2, messages=[])
        assert done == {
            "rewind_id": None,
            "hidden_count": 0,
            "message_ids": [],
            "revision": seen,
        }
        assert db.list_rewinds("s") == []
        done = db.replace_suffix("s", expected_revision=seen, keep=2, messages=[NEW])
        assert (done["hidden_count"], done["revision"]) == (0, seen + 1)
        db.replace_suffix("s", expected_revision=seen + 1, keep=0, messages=[NEW])
        assert contents(db.get_messages("s")) == ["new"]

    @pytest.mark.parametrize("keep", [3, 10**12, -1, 1.0, "1", True, None])
    def test_what_cannot_be_kept(self, db: SessionDB, keep: Any) -> None:
        """More than there is, or no number: nothing is written."""
        say(db, "s", "one", "two")
        before = db.export_all()
        with pytest.raises(InvalidInput, match=r"keep|kept"):
            db.replace_suffix("s", expected_revision=None, keep=keep, messages=[NEW])
        assert db.export_all() == before

    @pytest.mark.parametrize(
        "messages",
        [[NEW, {}], [NEW, {"role": "user", "colour": "red"}], [{"role": "user", "payload": {1}}]],
    )
    def test_messages_that_cannot_be_used(self, db: SessionDB, messages: list[Any]) -> None:
        """Behaviour 128: nothing is hidden if something cannot be stored."""
        say(db, "s", "one", "two")
        before = db.export_all()
        with pytest.raises(InvalidInput):
            db.replace_suffix("s", expected_revision=None, keep=0, messages=messages)
        huge = {"role": "user", "content": "x" * (9 * 1024 * 1024)}
        with pytest.raises(MessageTooLarge):
            db.replace_suffix("s", expected_revision=None, keep=0, messages=[NEW, huge])
        assert db.export_all() == before

    def test_external_ids_that_are_taken(self, db: SessionDB) -> None:
        """By a message that is kept, hidden or also new: it could not be stored at the end."""
        db.create_session("s", "cli")
        db.append_message("s", "user", "one", external_id="a")
        db.append_message("s", "user", "two", external_id="b")
        before = db.export_all()
        for taken in ("a", "b"):
            with pytest.raises(InvalidInput, match=f"'{taken}'"):
                db.replace_suffix(
                    "s", expected_revision=None, keep=1, messages=[NEW | {"external_id": taken}]
                )
        with pytest.raises(InvalidInput, match="'c'"):
            db.replace_suffix(
                "s", expected_revision=None, keep=1, messages=[NEW | {"external_id": "c"}] * 2
            )
        assert db.export_all() == before

    def test_an_unknown_session(self, db: SessionDB) -> None:
        """It is an error, because nothing can be stored in it."""
        for revision in (None, 0):
            with pytest.raises(UnknownSession):
                db.replace_suffix("missing", expected_revision=revision, keep=0, messages=[])

    def test_an_export_carries_what_was_hidden(self, db: SessionDB) -> None:
        """Behaviour 126: what was popped, cleared or replaced is restored from an import, too."""
        say(db, "s", "one", "two", "three")
        db.pop_message("s")
        db.replace_suffix("s", expected_revision=None, keep=1, messages=[NEW])
        db.clear_messages("s", soft=True)
        exported = db.export_session("s")
        assert exported is not None
        db.delete_session("s")
        assert db.import_sessions([exported])["imported"] == 1
        assert db.export_session("s") == exported
        assert db.restore_rewound("s") == 2
        assert contents(db.get_messages("s")) == ["one", "new"]


class TestTailAtOnce:
    """Concurrent callers, each with a handle of its own."""

    def test_each_message_is_popped_once(self, db: SessionDB, open_another: OpenStore) -> None:
        """Behaviour 129: no message goes to two callers, and none is left out."""
        added = db.append_messages(
            db.create_session("s", "cli"),
            [{"role": ("user", "assistant")[n % 2], "content": str(n)} for n in range(40)],
        )
        handles = [open_another() for _ in range(THREADS)]

        def work(number: int) -> list[int]:
            popped = []
            while (message := handles[number].pop_message("s")) is not None:
                popped.append(message["id"])
            return popped

        popped = at_once(work)
        assert sorted(number for each in popped for number in each) == added
        for each in popped:
            assert each == sorted(each, reverse=True)
        assert_summary_is_true(db, "s")

    def test_pops_and_appends(self, db: SessionDB, open_another: OpenStore) -> None:
        """Behaviour 129: what was appended is either popped or still there."""
        db.create_session("s", "cli")
        handles = [open_another() for _ in range(THREADS)]

        def work(number: int) -> tuple[list[int], list[int]]:
            added, popped = [], []
            for step in range(10):
                added.append(handles[number].append_message("s", "user", f"{number}.{step}"))
                if step % 2 and (message := handles[number].pop_message("s")) is not None:
                    popped.append(message["id"])
            return added, popped

        done = at_once(work)
        added = {number for each, _ in done for number in each}
        popped = [number for _, each in done for number in each]
        assert len(popped) == len(set(popped)) == THREADS * 5
        assert set(ids(db.get_messages("s"))) == added - set(popped)
        assert_summary_is_true(db, "s")

    def test_one_replacement_of_the_end_succeeds(
        self, db: SessionDB, open_another: OpenStore
    ) -> None:
        """Behaviour 121: of those that saw the same; the transcript is the winner's."""
        say(db, "s", "one", "two", "three")
        handles = [open_another() for _ in range(THREADS)]
        seen = session(db, "s")["revision"]

        def work(number: int) -> bool:
            new = [{"role": "user", "content": f"{number}"}] * 2
            try:
                handles[number].replace_suffix("s", expected_revision=seen, keep=1, messages=new)
            except RevisionConflict:
                return False
            return True

        won = [number for number, done in enumerate(at_once(work)) if done]
        assert len(won) == 1
        assert contents(db.get_messages("s")) == ["one", str(won[0]), str(won[0])]
