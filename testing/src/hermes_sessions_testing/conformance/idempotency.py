"""Idempotency: a message that is sent twice is stored once."""

from __future__ import annotations

from typing import Any

import pytest

from hermes_sessions.errors import InvalidInput
from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions_testing.clock import FrozenClock
from hermes_sessions_testing.conformance.fixtures import OpenStore
from hermes_sessions_testing.conformance.helpers import (
    assert_summary_is_true,
    contents,
    ids,
    session,
)


class TestIdempotency:
    """A message is identified by the caller's own id within its session."""

    def test_one_message_twice(self, db: SessionDB, clock: FrozenClock) -> None:
        """The second append returns the id of the first and changes nothing."""
        db.create_session("s", "telegram")
        first = db.append_message("s", "user", "hi", external_id="m-1")
        before = (session(db, "s"), db.get_messages("s"))
        clock.advance(60)
        assert db.append_message("s", "user", "something else", external_id="m-1") == first
        assert (session(db, "s"), db.get_messages("s")) == before
        assert db.get_messages("s")[0]["external_id"] == "m-1"

    def test_messages_without_an_external_id(self, db: SessionDB) -> None:
        """The same words twice are two messages."""
        db.create_session("s", "cli")
        assert db.append_message("s", "user", "hi") != db.append_message("s", "user", "hi")
        assert db.message_count("s") == 2

    def test_a_batch_twice(self, db: SessionDB) -> None:
        """Retrying a batch gives the same ids."""
        db.create_session("s", "telegram")
        batch = [{"role": "user", "content": str(n), "external_id": f"m-{n}"} for n in range(5)]
        added = db.append_messages("s", batch)
        assert db.append_messages("s", batch) == added
        assert contents(db.get_messages("s")) == ["0", "1", "2", "3", "4"]
        assert_summary_is_true(db, "s")

    def test_a_batch_that_grew(self, db: SessionDB) -> None:
        """Only new messages are stored; ids are returned in the order of the batch."""
        db.create_session("s", "telegram")
        first = db.append_message("s", "user", "0", external_id="m-0")
        added = db.append_messages(
            "s",
            [
                {"role": "user", "content": "1", "external_id": "m-1"},
                {"role": "user", "content": "0", "external_id": "m-0"},
                {"role": "user", "content": "2"},
            ],
        )
        assert added[1] == first
        assert ids(db.get_messages("s")) == [first, added[0], added[2]]
        assert_summary_is_true(db, "s")

    def test_duplicates_within_a_batch(self, db: SessionDB) -> None:
        """The first message wins."""
        db.create_session("s", "telegram")
        added = db.append_messages(
            "s",
            [
                {"role": "user", "content": "a", "external_id": "m"},
                {"role": "user", "content": "b"},
                {"role": "user", "content": "c", "external_id": "m"},
            ],
        )
        assert added[0] == added[2] != added[1]
        assert contents(db.get_messages("s")) == ["a", "b"]
        assert_summary_is_true(db, "s")

    def test_sessions_do_not_share_external_ids(self, db: SessionDB) -> None:
        """Platforms number the messages of each chat."""
        for name in ("s", "t"):
            db.create_session(name, "telegram")
        first = db.append_message("s", "user", "hi", external_id="1")
        assert db.append_message("t", "user", "hi", external_id="1") != first
        assert (db.message_count("s"), db.message_count("t")) == (1, 1)

    def test_external_ids_are_compared_exactly(self, db: SessionDB) -> None:
        """Case, accents and blanks tell them apart."""
        db.create_session("s", "telegram")
        names = ["m", "M", "m ", "ḿ", "m\u0301", "m\x00", "\udc80"]
        for name in names:
            db.append_message("s", "user", name, external_id=name)
        assert [message["external_id"] for message in db.get_messages("s")] == names
        assert all(db.has_external_id("s", name) for name in names)

    def test_asking_for_an_external_id(self, db: SessionDB) -> None:
        """Before fetching an attachment, for instance."""
        db.create_session("s", "telegram")
        db.append_message("s", "user", "hi", external_id="m-1")
        assert db.has_external_id("s", "m-1") is True
        assert db.has_external_id("s", "m-2") is False
        assert db.has_external_id("missing", "m-1") is False

    def test_a_rewound_message_is_not_sent_again(self, db: SessionDB) -> None:
        """A rewound message is still recognised as a duplicate."""
        db.create_session("s", "telegram")
        first = db.append_message("s", "user", "hi", external_id="m-1")
        db.rewind_to_message("s", first)
        assert db.append_message("s", "user", "hi", external_id="m-1") == first
        assert db.get_messages("s") == []
        assert_summary_is_true(db, "s")

    def test_cleared_messages_may_come_again(self, db: SessionDB) -> None:
        """Ids of deleted messages can be used again."""
        db.create_session("s", "telegram")
        db.append_message("s", "user", "hi", external_id="m-1")
        db.clear_messages("s")
        db.append_message("s", "user", "hi", external_id="m-1")
        assert db.message_count("s") == 1
        db.replace_messages("s", [{"role": "user", "content": "new", "external_id": "m-1"}])
        assert contents(db.get_messages("s")) == ["new"]

    @pytest.mark.parametrize("external_id", [["m"], {"m": 1}, b"m"])
    def test_an_external_id_is_text(self, db: SessionDB, external_id: Any) -> None:
        """An id of the wrong type is refused."""
        db.create_session("s", "telegram")
        with pytest.raises(InvalidInput):
            db.append_message("s", "user", "hi", external_id=external_id)
        assert db.message_count("s") == 0


class TestIdempotencyAcrossHandles:
    """A message stored by one handle is a duplicate for another."""

    def test_another_handle(self, db: SessionDB, open_another: OpenStore) -> None:
        """A retry can come through any handle."""
        other = open_another()
        db.create_session("s", "telegram")
        first = db.append_message("s", "user", "hi", external_id="m-1")
        assert other.append_message("s", "user", "hi", external_id="m-1") == first
        (repeated, added) = other.append_messages(
            "s",
            [
                {"role": "user", "content": "hi", "external_id": "m-1"},
                {"role": "user", "content": "new", "external_id": "m-2"},
            ],
        )
        assert repeated == first
        assert db.append_message("s", "user", "new", external_id="m-2") == added
        assert contents(db.get_messages("s")) == ["hi", "new"]
