"""Explains why a conversation is in its session, from the transitions of its lane."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Final, NamedTuple

from hermes_sessions.lifecycle.session_entry import utc_datetime
from hermes_sessions.model.lane import Lane, LaneKey
from hermes_sessions.storage.provider import ReadTransaction
from hermes_sessions.storage.repositories import lane_sessions, lane_transitions
from hermes_sessions.storage.repositories.lane_transitions import Transition
from hermes_sessions.storage.repositories.lanes import NO_SESSION, Lanes
from hermes_sessions.storage.store_context import StoreContext

#: The reason of a lane that a user suspended.
STOPPED: Final = "stopped"


class ExplanationStep(NamedTuple):
    """One change of a lane."""

    at: datetime
    #: What happened, as a sentence.
    what: str
    #: Why, as a sentence; None if there is nothing to add.
    why: str | None
    transition: Transition


class LaneExplanation(NamedTuple):
    """The history of a lane, oldest first."""

    lane: Lane
    #: The current state, as a sentence.
    state: str
    steps: tuple[ExplanationStep, ...]

    def __str__(self) -> str:
        lines = [self.lane.session_key, self.state]
        for step in self.steps:
            when = step.at.astimezone().strftime("%Y-%m-%d %H:%M:%S")
            lines.append(f"{when}  {step.what}" + (f" {step.why}" if step.why else ""))
        return "\n".join(lines)


def explain_lane(store: StoreContext, namespace: str, key: LaneKey | str) -> LaneExplanation | None:
    """Return the history of a lane; None if it does not exist."""
    lanes = Lanes(store)
    with store.provider.read() as tx:
        lane = lanes.find(tx, namespace, key)
        return None if lane is None else explanation_of(tx, lane)


class LaneMatches(NamedTuple):
    """The lanes that a reference may mean."""

    explanations: list[LaneExplanation]
    #: Otherwise they only start with the reference.
    is_exact: bool = True


def find_lanes(store: StoreContext, reference: str, limit: int) -> LaneMatches:
    """Return the lanes of all bots that a reference may mean.

    It may be a lane key, a current or former session or, if nothing else matches, a prefix of
    either.
    """
    lanes = Lanes(store)
    with store.provider.read() as tx:
        for search in (_by_key, _by_session, _by_former_session, _by_beginning):
            if reference and (found := search(tx, lanes, reference, limit)):
                explained = [explanation_of(tx, lane) for lane in found]
                return LaneMatches(explained, is_exact=search is not _by_beginning)
    return LaneMatches([])


def _by_key(tx: ReadTransaction, lanes: Lanes, reference: str, limit: int) -> list[Lane]:
    return lanes.with_key(tx, reference)[:limit]


def _by_session(tx: ReadTransaction, lanes: Lanes, reference: str, limit: int) -> list[Lane]:
    ids = lane_sessions.in_thread(tx, reference) or [reference]
    return lanes.in_sessions(tx, ids, limit)


def _by_former_session(tx: ReadTransaction, lanes: Lanes, reference: str, limit: int) -> list[Lane]:
    numbers = lane_transitions.lanes_through(tx, reference, limit)
    return [lane for number in numbers if (lane := lanes.find_by_id(tx, number)) is not None]


def _by_beginning(tx: ReadTransaction, lanes: Lanes, reference: str, limit: int) -> list[Lane]:
    return lanes.with_key_prefix(tx, reference, limit) or lanes.with_session_prefix(
        tx, reference, limit
    )


def explanation_of(tx: ReadTransaction, lane: Lane) -> LaneExplanation:
    """Return the history of a lane."""
    steps = tuple(_step(one) for one in lane_transitions.history(tx, lane.id))
    return LaneExplanation(lane, _state(lane, _current(tx, lane)), steps)


def _current(tx: ReadTransaction, lane: Lane) -> str:
    """Return the session of a lane; after compaction, its latest continuation."""
    session = lane_sessions.find(tx, lane.session_id)
    return lane.session_id if session is None else lane_sessions.tip_of(tx, session).id


def _state(lane: Lane, session_id: str) -> str:
    if lane.session_id == NO_SESSION:
        return "A message was received, but no session has begun yet."
    if lane.status == "suspended":
        because = f" ({lane.status_reason})" if lane.status_reason else ""
        return f"Stopped{because}: the next message starts a new session."
    if lane.status == "resume_pending":
        because = f" ({lane.status_reason})" if lane.status_reason else ""
        return f"Interrupted{because}: the next message continues session {session_id}."
    return f"In session {session_id}, last used {_moment(lane.updated_at)}."


def _step(transition: Transition) -> ExplanationStep:
    what, why = _words(transition)
    return ExplanationStep(utc_datetime(transition.at), what, why, transition)


def _words(transition: Transition) -> tuple[str, str | None]:
    known = _ACTIONS.get(transition.action)
    if known is None:
        because = f" ({transition.reason})" if transition.reason else ""
        return f"{transition.action.capitalize()}{because}.", None
    return known(transition)


def _begun(transition: Transition) -> tuple[str, str | None]:
    if transition.from_session_id is None:
        return f"Session {transition.to_session_id} began.", "It was the first message."
    what = f"Session {transition.to_session_id} began after {transition.from_session_id}."
    why = _WHY_RESET.get(transition.reason or "")
    return what, why(transition) if why else f"Reason: {transition.reason}."


def _was_idle(transition: Transition) -> str:
    facts, policy = transition.facts or {}, transition.policy or {}
    allowed = _duration(float(policy.get("idle_minutes", 0)) * 60)
    return f"No activity since {_moment(facts.get('updated_at'))}, for more than {allowed}."


def _was_daily(transition: Transition) -> str:
    facts, policy = transition.facts or {}, transition.policy or {}
    zone = f" ({policy['timezone']})" if policy.get("timezone") else ""
    return (
        f"The last message ({_moment(facts.get('updated_at'))}) was before the daily reset at "
        f"{int(policy.get('at_hour', 0)):02}:00{zone}."
    )


def _was_suspended(transition: Transition) -> str:
    reason = (transition.facts or {}).get("status_reason")
    return f"It had been stopped{f' ({reason})' if reason not in {None, STOPPED} else ''}."


_WHY_RESET: Final[dict[str, Callable[[Transition], str]]] = {
    "idle": _was_idle,
    "daily": _was_daily,
    "suspended": _was_suspended,
    "force_new": lambda _: "The program requested a new session.",
    "requested": lambda _: "The user requested a new conversation.",
    "session_missing": lambda _: "The previous session was deleted, or is in the trash.",
}


def _switched(transition: Transition) -> tuple[str, str | None]:
    if transition.from_session_id == transition.to_session_id:
        return f"Session {transition.to_session_id} continues.", "The user requested it."
    before = f" from session {transition.from_session_id}" if transition.from_session_id else ""
    what = f"Switched{before} to {transition.to_session_id}."
    if transition.reason == "handoff":
        return what, "It was handed over to this chat."
    if transition.reason == "topic":
        return what, "This topic was bound to it."
    return what, "The user requested it."


def _suspended(transition: Transition) -> tuple[str, str | None]:
    why = {
        STOPPED: "The user stopped it.",
        "stuck_loop": "Its turns repeatedly failed to finish.",
    }.get(transition.reason or "", f"Reason: {transition.reason}." if transition.reason else None)
    return "Stopped: the next message starts a new session.", why


_WHY_INTERRUPTED: Final = {
    "restart_interrupted": "The gateway ended unexpectedly.",
    "restart_timeout": "A turn was not finished when the gateway restarted.",
    "shutdown_timeout": "A turn was not finished when the gateway stopped.",
}


def _marked(transition: Transition) -> tuple[str, str | None]:
    why = _WHY_INTERRUPTED.get(transition.reason or "", f"Reason: {transition.reason}.")
    return f"Interrupted: session {transition.to_session_id} will be resumed.", why


def _unmarked(transition: Transition) -> tuple[str, str | None]:
    if transition.reason == "stale":
        return "The interruption was ignored.", "It was too long ago."
    if transition.reason == "drained":
        return "It was not interrupted after all.", "Its turn ended before the gateway did."
    return "Resumed after the interruption.", "A turn succeeded."


def _followed(transition: Transition) -> tuple[str, str | None]:
    what = f"Session {transition.from_session_id} continues as {transition.to_session_id}."
    return what, "It was compacted."


def _kept(transition: Transition) -> tuple[str, str | None]:
    facts = transition.facts or {}
    expired = {"idle": "it had been idle for too long", "daily": "the daily reset was due"}
    but = expired.get(str(facts.get("expired")), "it had expired")
    why = (
        "A turn or a background process of it was running."
        if transition.reason == "busy"
        else "It had been interrupted."
    )
    return f"Session {transition.to_session_id} was kept although {but}.", why


def _imported(transition: Transition) -> tuple[str, str | None]:
    return f"Imported in session {transition.to_session_id}.", f"Found in {transition.reason}."


def _finalized(transition: Transition) -> tuple[str, str | None]:
    why = _WHY_RESET.get(transition.reason or "")
    return f"Session {transition.from_session_id} was ended.", why(transition) if why else None


_ACTIONS: Final[dict[str, Callable[[Transition], tuple[str, str | None]]]] = {
    "create": _begun,
    "reset": _begun,
    "switch": _switched,
    "suspend": _suspended,
    "mark": _marked,
    "unmark": _unmarked,
    "follow": _followed,
    "keep": _kept,
    "resume": _kept,
    "import": _imported,
    "finalize": _finalized,
}


def _moment(seconds: object) -> str:
    if not isinstance(seconds, (int, float)):
        return "an unknown time"
    return utc_datetime(seconds).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def _duration(seconds: float) -> str:
    for size, name in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds >= size and seconds % size == 0:
            count = int(seconds // size)
            return f"{count} {name}{'' if count == 1 else 's'}"
    return f"{seconds:g} seconds"
