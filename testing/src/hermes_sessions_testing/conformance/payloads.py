"""Payloads: objects of agent frameworks, stored beside what is shown and searched."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from hermes_sessions.errors import InvalidInput, MessageTooLarge
from hermes_sessions.model.scope import Scope
from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions_testing.conformance.fixtures import OpenStore
from hermes_sessions_testing.conformance.helpers import contents, found, say, session

#: Values that a database, a driver or a careless reader would change.
VALUES: dict[str, Any] = {
    "an object": {"type": "reasoning", "summary": [], "id": "rs_1", "n": None},
    "an empty object": {},
    "an empty list": [],
    "an empty text": "",
    "zero": 0,
    "false": False,
    "true": True,
    "text that looks like JSON": '{"a": 1}',
    "text that looks like null": "null",
    "a number beyond 64 bits": 2**200 + 1,
    "a negative number beyond 64 bits": {"n": -(2**64)},
    "the smallest float": 5e-324,
    "the largest float": 1.7976931348623157e308,
    "a sum of floats": 0.1 + 0.2,
    "a whole float": 1.0,
    "lone surrogates": {"\ud83d": ["\udc00", "\ude00\ud83d"]},
    "surrogates that read as one": "\ud83d" + "\ude00",
    "NUL and escape marks": ["\x00", "\ufdd0", "\ufdd00000", {"\x00": "\ufdd0\ufdd0"}],
    "texts of other scripts": {"größe": "漓江 😀 \u2028 שלום"},
    "quotes": "'; DROP TABLE messages; -- \" ` \\ \\' %s ? :a $1",
    "nested": [[[[[{"a": [{"b": [None, True, 1.5, "x"]}]}]]]]],
    "a key twice in different case": {"a": 1, "A": 2},
    "a megabyte": {"data": "0123456789 äöü 漢字 🎉 " * 40_000},
}
#: Values that JSON does not have, or would not give back as they were.
REFUSED: dict[str, Any] = {
    "NaN": math.nan,
    "infinity": [math.inf],
    "bytes": b"x",
    "a set": {1},
    "an object": object(),
    "a tuple": (1, 2),
    "a key that is a number": {1: "x"},
    "a key that is None": {"a": {None: 1}},
}


def by_type(value: Any) -> Any:
    """Return a value in a form whose equality tells 1, 1.0 and True apart."""
    return json.dumps(value, sort_keys=True)


class TestPayloads:
    """Any JSON value comes back deep-equal; the other fields say what of it is shown."""

    @pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
    def test_a_value_comes_back(self, db: SessionDB, value: Any) -> None:
        """Behaviour 112: from every reader, after every way of writing."""
        db.create_session("s", "cli")
        db.append_message("s", "assistant", "shown", payload=value)
        db.append_message("s", "assistant", "again", payload=value, external_id="e")
        db.append_messages("s", [{"role": "user", "content": "both", "payload": value}])
        read = [message["payload"] for message in db.get_messages("s")]
        read += db.get_payloads("s")
        db.replace_messages("s", [{"role": "user", "payload": value, "payload_private": True}])
        (stored,) = db.get_messages("s")
        read.append(stored["payload"])
        assert stored["payload_private"] == 1
        assert [by_type(each) for each in read] == [by_type(value)] * 7
        assert read == [value] * 7

    @pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
    def test_an_import_restores_it(self, db: SessionDB, value: Any) -> None:
        """Behaviour 112: an export is imported unchanged, and recognised as known."""
        db.create_session("s", "cli")
        db.append_message("s", "assistant", "shown", payload=value)
        db.append_message("s", "assistant", payload=value, payload_private=True)
        exported = db.export_session("s")
        assert exported is not None
        assert [message["payload"] for message in exported["messages"]] == [value] * 2
        db.delete_session("s")
        assert db.import_sessions([exported])["imported"] == 1
        assert db.export_session("s") == exported
        assert db.import_sessions([exported])["skipped"] == 1

    def test_a_message_without_one(self, db: SessionDB) -> None:
        """None is no payload."""
        say(db, "s", "hello")
        db.append_message("s", "user", "null", payload=None)
        assert [message["payload"] for message in db.get_messages("s")] == [None, None]
        assert [message["payload_private"] for message in db.get_messages("s")] == [0, 0]
        assert db.get_payloads("s") == []

    @pytest.mark.parametrize("value", REFUSED.values(), ids=REFUSED)
    def test_what_is_not_json(self, db: SessionDB, value: Any) -> None:
        """Behaviour 113: it is refused, and nothing is stored."""
        db.create_session("s", "cli")
        with pytest.raises(InvalidInput, match="payload"):
            db.append_message("s", "user", "x", payload=value)
        with pytest.raises(InvalidInput, match="payload"):
            db.append_messages("s", [{"role": "user"}, {"role": "user", "payload": value}])
        with pytest.raises(InvalidInput, match="payload"):
            db.replace_messages("s", [{"role": "user", "payload": value}])
        assert db.get_messages("s") == []

    def test_values_that_cannot_be_walked(self, db: SessionDB) -> None:
        """Behaviour 113: circles and values nested too deeply are refused, too."""
        db.create_session("s", "cli")
        circle: list[Any] = []
        circle.append(circle)
        deep: list[Any] = []
        for _ in range(100_000):
            deep = [deep]
        for value in (circle, deep, 10**5000):
            with pytest.raises(InvalidInput, match="payload"):
                db.append_message("s", "user", "x", payload=value)
        assert session(db, "s")["message_count"] == 0

    def test_it_counts_for_the_size(self, open_another: OpenStore) -> None:
        """A payload over the limit of a message is refused."""
        db = open_another(max_message_bytes=1000)
        db.create_session("s", "cli")
        db.append_message("s", "user", payload="x" * 900)
        with pytest.raises(MessageTooLarge):
            db.append_message("s", "user", payload="x" * 1000)
        with pytest.raises(MessageTooLarge):
            db.append_message("s", "user", "x" * 600, payload="x" * 600)
        assert session(db, "s")["message_count"] == 1

    def test_items_that_are_nothing_else(self, db: SessionDB) -> None:
        """Behaviour 114: they have a place and count, but are not replayed to a model."""
        db.create_session("s", "cli")
        db.append_message("s", "user", "question", payload={"n": 1})
        db.append_message("s", "assistant", payload={"type": "reasoning"})
        db.append_message("s", "assistant", tool_calls=[{"id": "c"}], payload={"n": 2})
        db.append_message("s", "tool", tool_call_id="c", payload={"n": 3})
        db.append_message("s", "assistant", "answer")
        assert contents(db.get_messages("s")) == ["question", None, None, None, "answer"]
        assert [m["ordinal"] for m in db.get_messages("s")] == [1, 2, 3, 4, 5]
        assert session(db, "s")["message_count"] == 5
        replayed = db.get_messages_as_conversation("s")
        assert [m["role"] for m in replayed] == ["user", "assistant", "tool", "assistant"]
        assert db.get_messages_as_conversation("s", include_ancestors=True) == replayed
        assert not any("payload" in message for message in replayed)

    def test_it_is_neither_searched_nor_previewed(self, db: SessionDB) -> None:
        """Behaviour 115: search, previews and titles know the shown fields only."""
        db.create_session("s", "cli")
        db.append_message("s", "user", payload={"text": "hidden pineapple"})
        db.append_message("s", "user", payload="pineapple", payload_private=True)
        db.append_message("s", "user", "about mangos", payload={"text": "pineapple"})
        assert found(db, "pineapple") == []
        assert len(found(db, "mangos")) == 1
        assert db.list_sessions_rich()[0]["preview"] == "about mangos"

    def test_a_rewind_hides_it(self, db: SessionDB) -> None:
        """A payload follows its message."""
        db.create_session("s", "cli")
        db.append_message("s", "user", "a", payload=1)
        second = db.append_message("s", "user", "b", payload=2)
        db.rewind_to_message("s", second)
        assert db.get_payloads("s") == [1]
        assert [m["payload"] for m in db.get_messages("s", include_inactive=True)] == [1, 2]
        db.restore_rewound("s")
        assert db.get_payloads("s") == [1, 2]


class TestPayloadReader:
    """Payloads alone, by range and number."""

    def test_ranges_and_limits(self, db: SessionDB) -> None:
        """Behaviour 116: ordinals bound the range; a limit takes the newest, oldest first."""
        db.create_session("s", "cli")
        db.append_messages("s", [{"role": "user", "payload": n} for n in range(1, 7)])
        db.append_message("s", "user", "without")
        assert db.get_payloads("s") == [1, 2, 3, 4, 5, 6]
        assert db.get_payloads("s", limit=2) == [5, 6]
        assert db.get_payloads("s", limit=0) == []
        assert db.get_payloads("s", limit=-1) == [1, 2, 3, 4, 5, 6]
        assert db.get_payloads("s", first_ordinal=3) == [3, 4, 5, 6]
        assert db.get_payloads("s", last_ordinal=4) == [1, 2, 3, 4]
        assert db.get_payloads("s", first_ordinal=2, last_ordinal=5, limit=3) == [3, 4, 5]
        assert db.get_payloads("s", first_ordinal=5, last_ordinal=2) == []
        assert db.get_payloads("s", limit=2**31 - 1) == [1, 2, 3, 4, 5, 6]
        assert db.get_payloads("s", last_ordinal=10**30, limit=10**30) == [1, 2, 3, 4, 5, 6]

    def test_sessions_that_are_not_seen(self, db: SessionDB) -> None:
        """Unknown, in the trash or outside the scope: []."""
        db.create_session("s", "cli", user_id="anna")
        db.append_message("s", "user", payload=1)
        assert db.get_payloads("missing") == []
        assert db.get_payloads("s", scope=Scope(user_id="anna")) == [1]
        assert db.get_payloads("s", scope=Scope(user_id="ben")) == []
        db.trash_sessions(["s"])
        assert db.get_payloads("s") == []
