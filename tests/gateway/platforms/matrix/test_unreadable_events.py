"""Events that the library cannot parse are removed; all others are unchanged."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from nio import RoomMessagesResponse, SyncResponse

from hermes_sessions.gateway.platforms.matrix.client import drop_unparsable_events

GOOD: dict[str, Any] = {
    "type": "m.room.message",
    "event_id": "$a",
    "sender": "@anna:x",
    "origin_server_ts": 1,
    # Whoever writes may write anything, also what looks like a part of an answer.
    "content": {"msgtype": "m.text", "body": "Hi", "events": [5], "timeline": {"events": [5]}},
}
BAD: list[Any] = [None, 5, "x", [], {**GOOD, "origin_server_ts": "x"}]


def answer(part: str, events: list[Any]) -> dict[str, Any]:
    room = {part: {"events": events}} if part in ("timeline", "state", "ephemeral") else {}
    invite = {part: {"events": events}} if part == "invite_state" else {}
    top = {} if room or invite else {part: {"events": events}}
    rooms = {"join": {"!r:x": room}, "invite": {"!i:x": invite}, "leave": {}}
    return {"next_batch": "s1", "rooms": rooms, **top}


def test_what_can_be_read_stays_as_it_was() -> None:
    whole = answer("timeline", [GOOD, GOOD])
    assert drop_unparsable_events(copy.deepcopy(whole)) == (whole, 0)
    for other in (None, [], 5, {}):
        assert drop_unparsable_events(other) == (other, 0)


@pytest.mark.parametrize(
    "part",
    ["timeline", "state", "ephemeral", "invite_state", "account_data", "to_device", "presence"],
)
@pytest.mark.parametrize("bad", BAD[:4])
def test_one_bad_event_is_left_out_alone(part: str, bad: Any) -> None:
    found, dropped = drop_unparsable_events(answer(part, [bad]))
    assert (found, dropped) == (answer(part, []), 1)
    assert isinstance(SyncResponse.from_dict(found), SyncResponse)


def test_pages_of_a_history() -> None:
    found, dropped = drop_unparsable_events({"chunk": [GOOD, *BAD, GOOD], "start": "a", "end": "b"})
    assert (found["chunk"], dropped) == ([GOOD, GOOD], len(BAD))
    assert isinstance(RoomMessagesResponse.from_dict(found, "!r:x"), RoomMessagesResponse)
