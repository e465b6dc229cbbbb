"""Anchors: a message with its surroundings, and the two ends of its session."""

from __future__ import annotations

from typing import Any

import pytest

from hermes_sessions.errors import InvalidInput
from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions.testing.conformance.helpers import contents

NOTHING = {"window": [], "messages_before": 0, "messages_after": 0}


def twenty(db: SessionDB) -> list[int]:
    """Create session ``s`` with the messages "0" to "19", users and assistants in turn."""
    db.create_session("s", "cli")
    roles = ("user", "assistant")
    return db.append_messages("s", [{"role": roles[n % 2], "content": str(n)} for n in range(20)])


def numbers(first: int, last: int) -> list[str]:
    """Return the contents from *first* to *last*, both included."""
    return [str(number) for number in range(first, last + 1)]


class TestAnchors:
    """A window is the same however long the session is."""

    @pytest.mark.parametrize(
        ("anchor", "window", "first", "last"),
        [(10, 3, 7, 13), (0, 3, 0, 3), (19, 3, 16, 19), (1, 3, 0, 4), (5, 0, 5, 5), (9, 99, 0, 19)],
    )
    def test_a_window(self, db: SessionDB, anchor: int, window: int, first: int, last: int) -> None:
        """Up to so many on each side, and how many lie beyond."""
        added = twenty(db)
        found = db.get_messages_around("s", added[anchor], window)
        assert contents(found["window"]) == numbers(first, last)
        assert found["messages_before"] == first
        assert found["messages_after"] == 19 - last
        assert found["window"] == db.get_messages("s")[first : last + 1]

    def test_the_default_window(self, db: SessionDB) -> None:
        """Five on each side."""
        added = twenty(db)
        found = db.get_messages_around("s", added[10])
        assert contents(found["window"]) == numbers(5, 15)

    def test_an_unknown_anchor(self, db: SessionDB) -> None:
        """No such message, or one of another session: an empty window."""
        added = twenty(db)
        db.create_session("other", "cli")
        foreign = db.append_message("other", "user", "x")
        assert db.get_messages_around("s", foreign) == NOTHING
        assert db.get_messages_around("s", 10**9) == NOTHING
        assert db.get_messages_around("missing", added[3]) == NOTHING
        view = db.get_anchored_view("s", foreign)
        assert view == NOTHING | {"bookend_start": [], "bookend_end": []}

    @pytest.mark.parametrize("window", [-1, 1.5, None])
    def test_a_window_is_a_number(self, db: SessionDB, window: Any) -> None:
        """Anything else is refused."""
        added = twenty(db)
        with pytest.raises(InvalidInput):
            db.get_messages_around("s", added[0], window)

    def test_rewound_messages_are_not_around(self, db: SessionDB) -> None:
        """They neither show, nor count, nor serve as an anchor."""
        added = twenty(db)
        db.rewind_to_message("s", added[12])
        found = db.get_messages_around("s", added[10], 3)
        assert contents(found["window"]) == numbers(7, 11)
        assert found["messages_after"] == 0
        assert db.get_messages_around("s", added[15]) == NOTHING

    def test_the_ends_of_a_session(self, db: SessionDB) -> None:
        """The view adds the first and the last messages outside the window."""
        added = twenty(db)
        view = db.get_anchored_view("s", added[10], window=2, bookend=3)
        assert contents(view["bookend_start"]) == numbers(0, 2)
        assert contents(view["window"]) == numbers(8, 12)
        assert contents(view["bookend_end"]) == numbers(17, 19)
        assert (view["messages_before"], view["messages_after"]) == (8, 7)

    def test_ends_do_not_repeat_the_window(self, db: SessionDB) -> None:
        """Near an end there is less to add."""
        added = twenty(db)
        view = db.get_anchored_view("s", added[1], window=2, bookend=3)
        assert contents(view["window"]) == numbers(0, 3)
        assert view["bookend_start"] == []
        assert contents(view["bookend_end"]) == numbers(17, 19)

    def test_a_view_keeps_the_roles_asked_for(self, db: SessionDB) -> None:
        """The anchor itself always shows."""
        db.create_session("s", "cli")
        roles = ["user", "assistant", "tool", "tool", "tool", "assistant", "user", "system"]
        added = db.append_messages(
            "s", [{"role": role, "content": str(n)} for n, role in enumerate(roles)]
        )
        view = db.get_anchored_view("s", added[3], window=1, bookend=1)
        assert contents(view["window"]) == ["1", "3", "5"]
        assert contents(view["bookend_start"]) == ["0"]
        assert contents(view["bookend_end"]) == ["6"]
        everyone = db.get_anchored_view("s", added[3], window=1, bookend=1, keep_roles=None)
        assert contents(everyone["window"]) == ["2", "3", "4"]
        assert contents(everyone["bookend_end"]) == ["7"]

    def test_ends_have_text(self, db: SessionDB) -> None:
        """Messages without readable text open and close nothing; structured ones with text do."""
        db.create_session("s", "cli")
        parts = [{"type": "text", "text": "hello"}]
        said: list[Any] = [None, "", " \n", parts, "middle", "end", [{"type": "image"}], None]
        added = db.append_messages("s", [{"role": "user", "content": content} for content in said])
        view = db.get_anchored_view("s", added[4], window=0, bookend=2)
        assert contents(view["bookend_start"]) == [parts]
        assert contents(view["bookend_end"]) == ["end"]
