"""Texts that are too long for a message of Signal: apps send their beginning, and all in a file.

signal-cli hands over both as they came.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

from hermes_sessions.gateway.events import Attachment, Inbound
from hermes_sessions.gateway.platforms.port import PlatformError, Undeliverable
from hermes_sessions.gateway.platforms.receive_loop import Sleep, StopSignal, pause_after

logger = logging.getLogger(__name__)

LONG_TEXT: Final = "text/x-signal-plain"
#: In `Inbound.extra`: how many characters of the text came with the message. It ends with them.
BEGINNING: Final = "beginning"

#: Signal's own is 64 KiB; what is far above it is not from there.
_MAX_BYTES: Final = 400_000
_TRIES: Final = 4
_MISSING: Final = "\n\n[The rest of this message is missing: signal-cli does not have it.]"


def is_long_text(file: Attachment) -> bool:
    """Tell whether a file is the whole text of its message."""
    return file.mime_type == LONG_TEXT


async def with_rest(
    inbound: Inbound,
    fetch: Callable[[str, int], Awaitable[bytes]],
    ending: StopSignal,
    sleep: Sleep,
) -> Inbound:
    """Return a message with all of its text. What cannot be had after some tries is said to be
    missing: the beginning is worth more than nothing.

    Raises:
        Stopped: the end was asked for; the message is still as it was.
    """
    file = next(filter(is_long_text, inbound.attachments), None)
    if file is None or BEGINNING not in inbound.extra:
        return inbound
    failures = 0
    while failures < _TRIES:
        try:
            content = await ending.result_unless_stopped(fetch(file.reference, _MAX_BYTES))
            return completed(inbound, content.decode("utf-8", "replace"))
        except Undeliverable as error:
            logger.warning("signal: the rest of a long message is missing: %s", error)
            break
        except PlatformError as error:
            failures += 1
            logger.warning("signal: the rest of a long message does not come yet: %s", error)
            await ending.result_unless_stopped(sleep(pause_after(failures)))
    return completed(inbound, None)


def completed(inbound: Inbound, whole: str | None) -> Inbound:
    """Return a message with what *whole* has after its beginning; None: that is not there. Pure."""
    extra = {name: value for name, value in inbound.extra.items() if name != BEGINNING}
    if whole is None:
        return replace(inbound, text=inbound.text + _MISSING, extra=extra)
    files = tuple(file for file in inbound.attachments if not is_long_text(file))
    rest = whole[inbound.extra[BEGINNING] :]
    return replace(inbound, text=inbound.text + rest, attachments=files, extra=extra)
