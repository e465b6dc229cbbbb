"""Texts that are too long for a message on Signal: apps send the start, and the whole in a file.

signal-cli delivers both unchanged.
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
#: In `Inbound.extra`: how many characters came with the message, at the end of its text.
BEGINNING: Final = "beginning"

#: Signal's own limit is 64 KiB; a far longer text is not from there.
_MAX_BYTES: Final = 400_000
_TRIES: Final = 4
_MISSING: Final = "\n\n[The rest of this message is missing: signal-cli does not have it.]"


def is_long_text(file: Attachment) -> bool:
    """Return whether a file is the whole text of its message."""
    return file.mime_type == LONG_TEXT


async def with_rest(
    inbound: Inbound,
    fetch: Callable[[str, int], Awaitable[bytes]],
    ending: StopSignal,
    sleep: Sleep,
) -> Inbound:
    """Return a message with its whole text. If the file is not available after some attempts, a
    note says so: the start is better than nothing.

    Raises:
        Stopped: a stop was requested; the message is unchanged.
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
            logger.warning("signal: the rest of a long message is not available yet: %s", error)
            await ending.result_unless_stopped(sleep(pause_after(failures)))
    return completed(inbound, None)


def completed(inbound: Inbound, whole: str | None) -> Inbound:
    """Return a message with the rest of *whole*; with a note if that is None. Pure."""
    extra = {name: value for name, value in inbound.extra.items() if name != BEGINNING}
    if whole is None:
        return replace(inbound, text=inbound.text + _MISSING, extra=extra)
    files = tuple(file for file in inbound.attachments if not is_long_text(file))
    rest = whole[inbound.extra[BEGINNING] :]
    return replace(inbound, text=inbound.text + rest, attachments=files, extra=extra)
