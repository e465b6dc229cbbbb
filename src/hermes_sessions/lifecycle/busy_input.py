"""What a message does that arrives while a turn runs: pure rules.

Whatever they say, the message is in the mailbox first. ``interrupt`` ends the running turn, and the
message is the next one; ``queue`` lets it wait; ``steer`` gives it to the running turn, after its
next tool call. What cannot be done becomes ``queue``: waiting is always possible.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, get_args

BusyMode = Literal["interrupt", "queue", "steer"]
BUSY_MODES: Final[tuple[BusyMode, ...]] = get_args(BusyMode)

#: A platform cuts long texts into several messages: what comes so soon belongs to the last one.
FOLLOWUP_GRACE: Final = 3.0
#: Seconds between two words to a lane that its message was received.
ACK_INTERVAL: Final = 30.0


class RunningTurn(NamedTuple):
    """What is known about the turn that runs."""

    #: Seconds since it began.
    age: float
    #: The agent is where text can be given to it.
    can_steer: bool = False
    #: Interrupting would lose work that others do for it.
    has_subagents: bool = False
    #: The gateway is about to stop: nothing is begun or ended because of a message.
    is_draining: bool = False


class BusyAction(NamedTuple):
    """What to do, and why, where it is not what the mode says."""

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
    """Return what a message does to the turn that runs.

    *mode* is ``display.busy_input_mode``; *wants* is what the sender asked for with ``/queue`` or
    ``/steer``, and counts more.
    """
    action = wants or mode
    because = None if action == "queue" else _obstacle(action, running, has_media, grace)
    return BusyAction(action) if because is None else BusyAction("queue", because)


def _obstacle(action: BusyMode, running: RunningTurn, has_media: bool, grace: float) -> str | None:
    """Return why the message has to wait, or None if it does not."""
    if running.is_draining:
        return "draining"
    if has_media:
        # The rest of an album is on its way, and a file cannot be put into a running turn.
        return "media"
    if action == "steer":
        return None if running.can_steer else "cannot_steer"
    if running.has_subagents:
        return "subagents"
    return "follow_up" if running.age < grace else None


def should_acknowledge(
    last_at: float | None, now: float, *, interval: float = ACK_INTERVAL
) -> bool:
    """Tell whether the sender is told that the message was received, having been told at *last_at*.

    A clock that ran backwards does not silence it.
    """
    return last_at is None or not 0 <= now - last_at < interval
