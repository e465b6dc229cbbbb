"""Scroll and read modes: one session, around a message or from both ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hermes_sessions.errors import NotFound
from hermes_sessions.recall.arguments import RecallArguments
from hermes_sessions.recall.budget import room_for
from hermes_sessions.recall.message_excerpts import MessageExcerpt, fit, marker_of
from hermes_sessions.recall.scoped_store import RecallContext
from hermes_sessions.text.query.parser import parse

if TYPE_CHECKING:
    from hermes_sessions.storage.records import MessageWindow, SessionRecord

Record = dict[str, Any]

#: A session up to this length is shown whole; a longer one from both ends.
WHOLE: Final = 30
FIRST: Final = 20
LAST: Final = 10


def scroll(context: RecallContext, arguments: RecallArguments) -> Record:
    """Return the messages around one message of a session.

    Raises:
        NotFound: the session or message does not exist or is out of scope.
        InvalidInput: the session belongs to the current conversation.
    """
    session = context.past_session(arguments.session_id or "")
    message_id = arguments.around_message_id or 0
    around = context.store.messages_around(session["id"], message_id, arguments.window)
    warning = None
    if not around["window"]:
        asked = session["id"]
        session, around = _elsewhere(context, session, message_id, arguments.window)
        warning = f"The message is not in session {asked} but in {session['id']}, shown here."
    result = arguments.opening() | {
        "session_id": session["id"],
        "around_message_id": message_id,
        "session_meta": context.meta(session),
        "window": arguments.window,
        "messages": [],
        "messages_before": around["messages_before"],
        "messages_after": around["messages_after"],
    }
    if warning:
        result["warning"] = warning
    records = around["window"]
    middle = next(i for i, record in enumerate(records) if record["id"] == message_id)
    drafts = [
        MessageExcerpt(
            record,
            abs(i - middle),
            4 if i == middle else 1,
            anchor=i == middle,
            date=context.short_date,
        )
        for i, record in enumerate(records)
    ]
    # Counts grow when messages are omitted; reserve room for their largest values.
    widest = result | {
        name: result[name] + len(records) for name in ("messages_before", "messages_after")
    }
    shown = fit(
        drafts, room_for(widest, arguments.max_tokens), marker_of(parse(arguments.query).node)
    )
    result["messages"] = [message for message in shown if message is not None]
    result["messages_before"] += shown[:middle].count(None)
    result["messages_after"] += shown[middle:].count(None)
    return result


def _elsewhere(
    context: RecallContext, session: SessionRecord, message_id: int, window: int
) -> tuple[SessionRecord, MessageWindow]:
    """Return the session of the same conversation that has the message, and its neighbours."""
    for relative in context.store.list_conversation(session["id"]):
        around = context.store.messages_around(relative["id"], message_id, window)
        if around["window"]:
            return relative, around
    raise NotFound("There is no message with that id in that session.")


def read(context: RecallContext, arguments: RecallArguments) -> Record:
    """Return a session from both ends.

    Raises:
        NotFound: the session does not exist or is out of scope.
        InvalidInput: the session belongs to the current conversation.
    """
    session = context.past_session(arguments.session_id or "")
    records = context.store.list_messages(session["id"], limit=WHOLE + 1)
    is_long = len(records) > WHOLE
    if is_long:
        last = max(session["message_count"] - LAST, FIRST)
        ending = context.store.list_messages(session["id"], limit=LAST, offset=last)
        records = [*records[:FIRST], *ending]
    result = arguments.opening() | {
        "session_id": session["id"],
        "session_meta": context.meta(session),
        "message_count": session["message_count"],
        "truncated": is_long,
        "messages": [],
        "message": "Not all messages are shown; use around_message_id to see the rest.",
        "left_out": len(records),
    }
    from_the_ends = [min(i, len(records) - 1 - i) for i in range(len(records))]
    drafts = [
        MessageExcerpt(record, far, date=context.short_date)
        for record, far in zip(records, from_the_ends, strict=True)
    ]
    shown = fit(
        drafts, room_for(result, arguments.max_tokens), marker_of(parse(arguments.query).node)
    )
    result["messages"] = [message for message in shown if message is not None]
    result["left_out"] = shown.count(None)
    if not result["left_out"]:
        del result["left_out"]
        if not is_long:
            del result["message"]
    return result
