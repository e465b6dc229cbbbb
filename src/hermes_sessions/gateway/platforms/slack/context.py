"""What was said in a thread before the bot came into it, which the agent cannot see otherwise."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from hermes_sessions.gateway.events import Inbound
from hermes_sessions.gateway.platforms.payloads import short
from hermes_sessions.gateway.platforms.port import PlatformError
from hermes_sessions.gateway.platforms.slack.client import SlackClient
from hermes_sessions.gateway.platforms.slack.wording import plain

logger = logging.getLogger(__name__)

#: As much as makes clear what is meant: the latest messages, and of each the beginning.
_MOST: Final = 20
_MAX_EACH: Final = 1000
_MAX_ALL: Final = 6000

Record = Mapping[str, Any]


async def introduced(
    client: SlackClient, inbound: Inbound, *, user_id: str, patience: float
) -> Inbound:
    """Return a message with what was said before it in its thread, as far as Slack tells that
    within *patience* seconds; *user_id* is the bot's.
    """
    source, ts = inbound.source, inbound.message_id or ""
    try:
        async with asyncio.timeout(patience):
            said = await client.replies(source.chat_id, source.thread_id or "", ts)
    except (PlatformError, TimeoutError) as error:
        logger.info("slack: a thread is not known: %s", str(error) or "no answer in time")
        return inbound
    words = quoted(said, before=ts, user_id=user_id)
    return replace(inbound, text=f"{words}\n\n{inbound.text}") if words else inbound


def quoted(messages: Iterable[object], *, before: str, user_id: str) -> str:
    """Return messages of a thread as a quotation, the latest that there is room for. Pure."""
    lines: list[str] = []
    room = _MAX_ALL
    earlier = [each for each in messages if isinstance(each, Mapping) and _ts(each) < before]
    for message in reversed(earlier[-_MOST:]):
        line = _quotation(message, user_id)
        room -= len(line)
        if room < 0:
            break
        lines += [line] if line else []
    return "\n".join(("[Earlier in this thread]", *reversed(lines))) if lines else ""


def _quotation(message: Record, user_id: str) -> str:
    text = message.get("text")
    if not isinstance(text, str) or not text.strip():
        return ""
    words = plain(text[:_MAX_EACH]) + ("…" if len(text) > _MAX_EACH else "")
    return "\n".join(f"> {line}" for line in f"{_author(message, user_id)}: {words}".splitlines())


def _author(message: Record, user_id: str) -> str:
    user = short(message.get("user"))
    if user == user_id:
        return "You"
    if user is not None:
        return f"<@{user}>"
    return short(message.get("username")) or "an app"


def _ts(message: Record) -> str:
    ts = message.get("ts")
    # Times of Slack have the same number of digits for another 250 years.
    return ts if isinstance(ts, str) else "~"
