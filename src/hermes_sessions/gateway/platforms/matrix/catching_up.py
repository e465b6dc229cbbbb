"""Which events of a room are news: none before the bot was invited, none left out in between."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from hermes_sessions.gateway.platforms.matrix.client import MatrixClient, RoomNews
from hermes_sessions.gateway.platforms.matrix.device_folder import Undecrypted

Found = Mapping[str, Any] | Undecrypted


async def all_news(
    client: MatrixClient,
    news: RoomNews,
    since: str,
    user_id: str,
    wait: Callable[[Awaitable[Any]], Awaitable[Any]],
) -> list[Found]:
    """Return everything that happened in a room after *since* and is for the bot to read.

    An answer brings the last events of a room alone; those before them are asked for, page by page.
    *wait* is around every question.

    Raises:
        RateLimited, Unreachable, Undeliverable
    """
    before: list[Found] = []
    start = news.gap_before
    seen: set[str] = set()
    # A server that names the same place again would be asked for ever.
    while (
        start is not None and start not in seen and not _has_joined(user_id, news.events + before)
    ):
        seen.add(start)
        page, start = await wait(client.events_before(news.room_id, start, since))
        before += page
    return since_invited(user_id, [*reversed(before), *news.events])


def since_invited(user_id: str, events: Sequence[Found]) -> list[Found]:
    """Return the events after the invitation of the bot, if it came into the room among them.

    Whoever invites it and writes at once means it; what was said before was said to others.
    """
    begin = 0
    invited: int | None = None
    for index, event in enumerate(events):
        membership, before = _membership(user_id, event)
        if membership == "invite":
            invited = index
        elif membership == "join" and before != "join":
            begin = index if invited is None else invited
            invited = None
    return list(events[begin:])


def _has_joined(user_id: str, events: Sequence[Found]) -> bool:
    """Tell whether the bot came into the room among *events*, and its invitation is there."""
    memberships = [_membership(user_id, event) for event in events]
    has_come = any(now == "join" and before != "join" for now, before in memberships)
    return has_come and any(now == "invite" for now, _ in memberships)


def _membership(user_id: str, event: Found) -> tuple[object, object]:
    """Return what somebody is in the room after an event about them, and was before."""
    if isinstance(event, Undecrypted) or event.get("type") != "m.room.member":
        return None, None
    content = event.get("content")
    if event.get("state_key") != user_id or not isinstance(content, Mapping):
        return None, None
    unsigned = event.get("unsigned")
    previous = unsigned.get("prev_content") if isinstance(unsigned, Mapping) else None
    before = previous.get("membership") if isinstance(previous, Mapping) else None
    return content.get("membership"), before
