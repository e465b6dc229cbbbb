"""Which messages of a mailbox form the next turn."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_sessions.lifecycle.turn_input import (
    TurnInput,
    dedupe_mark,
    in_platform_order,
    next_input,
    sender_of,
)
from hermes_sessions.model.source import Platform, SessionSource
from hermes_sessions.storage.repositories.mailbox import KINDS, MailboxItem


def items(*given: tuple[Any, ...]) -> list[MailboxItem]:
    """Return items numbered from 1, each given as kind, sender, text, and optionally its turn."""
    return [
        MailboxItem(number, 1, kind, sender, text, {}, turn[0] if turn else None, 0.0)
        for number, (kind, sender, text, *turn) in enumerate(given, 1)
    ]


def taken(*given: tuple[Any, ...]) -> list[int]:
    found = next_input(items(*given))
    return [] if found is None else list(found.item_ids)


@pytest.mark.parametrize(
    ("waiting", "expected"),
    [
        ([], []),
        ([("message", "ann", "a")], [1]),
        ([("message", "ann", "a"), ("message", "ann", "b"), ("message", "ann", "c")], [1, 2, 3]),
        # Two senders are never merged.
        ([("message", "ann", "a"), ("message", "bob", "b"), ("message", "ann", "c")], [1]),
        ([("message", None, "a"), ("message", None, "b")], [1]),
        ([("message", "ann", "a"), ("message", None, "b")], [1]),
        # An item of its own is one turn, and keeps what is behind it behind it.
        ([("queue", "ann", "a"), ("queue", "ann", "b")], [1]),
        ([("message", "ann", "a"), ("queue", "ann", "b"), ("message", "ann", "c")], [1]),
        ([("queue", "ann", "a"), ("message", "ann", "b")], [1]),
        ([("command", "ann", "/compress"), ("message", "ann", "b")], [1]),
        # Going on comes first; what did not finish comes before that.
        ([("message", "ann", "a"), ("resume", None, None)], [2]),
        ([("message", "ann", "a", 7), ("message", "ann", "b")], [1]),
        ([("message", "ann", "a", 7), ("message", "bob", "b"), ("message", "ann", "c", 7)], [1, 3]),
        ([("message", "ann", "a"), ("queue", "ann", "b", 7), ("resume", None, None)], [2]),
        ([("message", "ann", "a", 7), ("message", "ann", "b", 8)], [1]),
    ],
)
def test_what_is_taken(waiting: list[tuple[Any, ...]], expected: list[int]) -> None:
    assert taken(*waiting) == expected


def placed(*places: object, kind: str = "message", chat: str = "7") -> list[MailboxItem]:
    """Return messages of a chat, numbered from 1 as they came, with these places in it."""
    source = {"platform": "telegram", "chat_id": chat}
    return [
        MailboxItem(
            number, 1, kind, "ann", str(place), {"source": source, "order": place}, None, 0.0
        )  # type: ignore[arg-type]
        for number, place in enumerate(places, 1)
    ]


class TestPlatformOrder:
    def test_what_two_gateways_brought_is_in_the_order_of_the_chat(self) -> None:
        found = next_input(placed(12, 10, 11))
        assert found is not None
        assert (found.text, found.item_ids) == ("10\n11\n12", (2, 3, 1))

    def test_the_first_in_the_chat_is_first(self) -> None:
        found = next_input(placed(12, 10, kind="queue"))
        assert found is not None
        assert found.item_ids == (2,)

    def test_those_with_the_same_place_stay_as_they_came(self) -> None:
        assert [item.id for item in in_platform_order(placed(5, 5, 4, 5))] == [3, 1, 2, 4]

    @pytest.mark.parametrize("place", [None, "9", True, float("nan"), float("inf"), [1]])
    def test_what_has_no_place_parts_what_has_one(self, place: object) -> None:
        assert [item.id for item in in_platform_order(placed(12, 11, place, 10, 9))] == [
            *(2, 1),
            3,
            *(5, 4),
        ]

    def test_two_chats_of_one_lane_are_not_compared(self) -> None:
        here, there = placed(12, 11), placed(10, chat="8")
        waiting = [*here, there[0]._replace(id=3)]
        assert [item.id for item in in_platform_order(waiting)] == [2, 1, 3]

    def test_another_attempt_has_the_order_of_the_first(self) -> None:
        """And what was put into the turn later comes after it."""
        tried = [
            item._replace(
                turn_id=7, payload={**item.payload, **({"place": place} if place >= 0 else {})}
            )
            for item, place in zip(placed(12, 10, 9), (1, 0, -1), strict=True)
        ]
        found = next_input(tried)
        assert found is not None
        assert found.item_ids == (2, 1, 3)


ANY_ITEMS = st.lists(
    st.tuples(
        st.sampled_from(KINDS),
        st.sampled_from([None, "ann", "bob"]),
        st.text(max_size=3),
        st.sampled_from([None, None, 7, 8]),
    ),
    max_size=8,
)


@given(ANY_ITEMS)
def test_everything_is_taken_once(given: list[tuple[Any, ...]]) -> None:
    """Plain messages of one sender keep their order; only those are ever merged again."""
    waiting = items(*given)
    order: list[MailboxItem] = []
    while (found := next_input(waiting)) is not None:
        if not found.is_retry and len(found.items) > 1:
            assert {(item.kind, item.sender) for item in found.items} == {("message", found.sender)}
            assert found.sender is not None
        order += found.items
        waiting = [item for item in waiting if item not in found.items]
    assert sorted(order) == sorted(items(*given))
    fresh = [item.id for item in order if item.turn_id is None and item.kind != "resume"]
    assert fresh == sorted(fresh)


def test_texts_and_files_are_joined() -> None:
    first, second, third = items(
        ("message", "ann", "look"), ("message", "ann", None), ("message", "ann", "and this")
    )
    album = TurnInput(
        "message",
        (
            first._replace(payload={"media": ["1.jpg"], "message_id": "11"}),
            second._replace(payload={"media": ["2.jpg", "3.jpg"], "message_id": "12"}),
            third._replace(payload={"message_id": "13"}),
        ),
    )
    assert album.text == "look\nand this"
    assert album.media == ["1.jpg", "2.jpg", "3.jpg"]
    assert [payload["message_id"] for payload in album.payloads] == ["11", "12", "13"]


def test_marks_differ_where_messages_do() -> None:
    given = [
        ("bot", "telegram", "1", "23"),
        ("bot", "telegram", "12", "3"),
        ("bot", "discord", "1", "23"),
        ("other", "telegram", "1", "23"),
        ("bot", "telegram", '1", "2', "3"),
        ("bot", "telegram", "1", "\ud800"),
    ]
    assert len({dedupe_mark(*parts) for parts in given}) == len(given)
    assert dedupe_mark(*given[0]) == dedupe_mark(*given[0])
    assert dedupe_mark("bot", "telegram", "1", None) is None
    assert dedupe_mark("bot", "telegram", "1", "") is None


def test_who_sends() -> None:
    group = SessionSource(Platform.SIGNAL, "g", chat_type="group", user_id="u", user_id_alt="alt")
    assert sender_of(group) == "alt"
    assert sender_of(replace(group, user_id_alt=None)) == "u"
    assert sender_of(replace(group, user_id_alt=None, user_id=None)) is None
    assert sender_of(SessionSource(Platform.TELEGRAM, "12")) == "12"
