"""A messenger conversation with a long history."""

from __future__ import annotations

from itertools import count

from hermes_sessions import SessionDB
from hermes_sessions.config.gateway_config import GatewayConfig
from hermes_sessions.lifecycle.lane_dependencies import LaneDependencies
from hermes_sessions.lifecycle.lane_operations import LaneChanges, LaneSweeps
from hermes_sessions.lifecycle.session_routing import route_to_session
from hermes_sessions.model.lane import first_alias
from hermes_sessions.model.reset_policy import SessionResetPolicy
from hermes_sessions.model.scope import OWNER
from hermes_sessions.model.source import Platform, SessionSource
from hermes_sessions.storage.repositories.lanes import Lanes
from hermes_sessions_testing.clock import FrozenClock
from tests.cli.harness import DAY, NOW

LANE = "agent:main:telegram:dm:12345"
#: The first session that it was in.
FORMER = "20250224_150000_00000001"
HOUR = 3600.0
ADA = SessionSource(Platform.TELEGRAM, "12345", chat_name="Ada\x1b[31m", user_id="12345")


def live(db: SessionDB) -> None:
    """Let it all happen, in the nine days before the tests."""
    clock, numbers, busy = FrozenClock(NOW - 9 * DAY), count(1), [False]
    store = db.store._replace(clock=clock)
    engine = LaneDependencies(
        store,
        GatewayConfig(
            reset_policy=SessionResetPolicy("both", at_hour=4, idle_minutes=1440, timezone="UTC")
        ),
        Lanes(store),
        first_alias,
        lambda _key: busy[0],
        lambda _bytes: f"{next(numbers):08x}",
    )
    changes = LaneChanges(engine)

    def message(after: float = 0.0, *, force_new: bool = False) -> str:
        clock.advance(after)
        return route_to_session(engine, ADA, force_new=force_new).lane.session_id

    first = message()
    db.append_message(first, "user", "Hello")
    message(2 * DAY)  # Idle.
    message(15 * HOUR)  # Daily.
    changes.suspend(LANE, "stopped")
    message(HOUR)
    changes.reset(LANE, None)
    clock.advance(HOUR)
    changes.switch(LANE, first, OWNER)
    db.continue_session(first, "20250227_090000_0c0c0c0c", [{"role": "user", "content": "Sum"}])
    message(HOUR)
    LaneSweeps(engine).mark_recent(120, "restart_interrupted")
    message(HOUR)
    changes.clear_resume(LANE, None)
    busy[0] = True
    message(2 * DAY)
    gone = message(HOUR, force_new=True)
    db.trash_sessions([gone])
    message(HOUR)
    changes.mark_resume(LANE, "shutdown_timeout")
