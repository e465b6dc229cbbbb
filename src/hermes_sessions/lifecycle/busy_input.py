"""Rules for a message that arrives while a turn is running; pure.

The message is always stored in the mailbox first. ``interrupt`` ends the running turn and runs the
message next; ``queue`` lets it wait; ``steer`` passes it to the running turn after its next tool
call. If an action is impossible, the message is queued: waiting is always possible.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, get_args

BusyMode = Literal["interrupt", "queue", "steer"]
BUSY_MODES: Final[tuple[BusyMode, ...]] = get_args(BusyMode)

#: Platforms split long texts into several messages: one that follows within this time continues
#: the previous one.
FOLLOWUP_GRACE: Final = 3.0
#: Minimum seconds between two acknowledgements to a lane.
ACK_INTERVAL: Final = 30.0


class RunningTurn(NamedTuple):
    """The state of the running turn."""

    #: Seconds since it began.
    age: float
    #: Whether the agent can accept text now.
    can_steer: bool = False
    #: Whether an interruption would lose the work of subagents.
    has_subagents: bool = False
    #: Whether the gateway is about to stop: messages then start and end nothing.
    is_draining: bool = False


class BusyAction(NamedTuple):
    """The action to take, and the reason if it differs from the mode."""

    action: BusyMode
    because: str | None = None


def on_message(
    mode: BusyMode,
    running: RunningTurn,
    *,
    has_media: bool = False,
    wants: BusyMode | None = None,
    grace: float = FOLLOWUP_GRACE,
) -> BusyAction:
    """Return what a message does to the running turn.

    *mode* is ``display.busy_input_mode``; *wants* is the sender's choice with ``/queue`` or
    ``/steer``, and takes precedence.
    """
    action = wants or mode
    because = None if action == "queue" else _obstacle(action, running, has_media, grace)
    return BusyAction(action) if because is None else BusyAction("queue", because)


def _obstacle(action: BusyMode, running: RunningTurn, has_media: bool, grace: float) -> str | None:
    """Return why the message must wait, or None if it need not."""
    if running.is_draining:
        return "draining"
    if has_media:
        # More of an album may follow, and files cannot be passed to a running turn.
        return "media"
    if action == "steer":
        return None if running.can_steer else "cannot_steer"
    if running.has_subagents:
        return "subagents"
    return "follow_up" if running.age < grace else None


def should_acknowledge(
    last_at: float | None, now: float, *, interval: float = ACK_INTERVAL
) -> bool:
    """Tell whether to acknowledge a message, given that the last acknowledgement was at *last_at*.

    A clock that ran backwards does not suppress it.
    """
    return last_at is None or not 0 <= now - last_at < interval
