"""A last turn before a conversation is reset by itself: the agent writes down what matters.

What it says is stored at the end of the session, where a later search finds it; nobody is written
to. See `ExpiryWatcher`.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Final

from hermes_sessions.agent.interrupts import Interrupt
from hermes_sessions.agent.tools.registry import ToolRegistry
from hermes_sessions.agent.turn import Agent, Ended
from hermes_sessions.lifecycle.session_finalization import Claim
from hermes_sessions.storage.repositories.leases import Holder

#: Beyond the turn itself.
_LEASE_GRACE: Final = 30.0
INSTRUCTION: Final = (
    "This conversation ends now, because nobody has written for a while. Nobody reads your answer "
    "at once. Write down in a few sentences what should not be forgotten: decisions, facts about "
    "the people, promises, open questions. If there is nothing, say: Nothing to keep."
)
_QUESTION: Final = "[The conversation is about to be closed. What should be remembered?]"


class Saving:
    """Gives an agent the turn; a `SaveTurn`."""

    def __init__(self, agent: Agent) -> None:
        # Without tools: what a tool does now, nobody would see.
        self._agent = replace(agent, tools=ToolRegistry(), instructions=INSTRUCTION, most_steps=1)

    def __call__(self, claim: Claim, seconds: float) -> None:
        """Let the agent write down what matters, within so many seconds.

        Raises:
            ConversationHeld: somebody is at work there.
            ModelError: the model failed; what was said is stored.
            StoreError: it was not stored.
        """
        db = self._agent.db
        holder = Holder(None, "the last turn before a reset")
        lease = db.take_lease(claim.session_id, holder, ttl=seconds + _LEASE_GRACE)
        interrupt = Interrupt()
        clock = threading.Timer(seconds, interrupt.set)
        clock.daemon = True
        clock.start()
        try:
            agent = replace(self._agent, fence=lease.token)
            # Again after a crash, it is the same question.
            mark = f"saving:{claim.session_id}"
            events = agent.run_turn(
                claim.session_id, _QUESTION, external_id=mark, interrupt=interrupt
            )
            for event in events:
                if isinstance(event, Ended) and event.error is not None:
                    raise event.error
        finally:
            clock.cancel()
            db.release_lease(lease)
