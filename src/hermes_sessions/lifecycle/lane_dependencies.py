"""What the parts of the lifecycle share: the store, the configuration, and callbacks."""

from __future__ import annotations

from collections.abc import Callable
from secrets import token_hex
from typing import NamedTuple

from hermes_sessions.config.gateway_config import GatewayConfig
from hermes_sessions.model.ids import new_session_id
from hermes_sessions.model.lane import CanonicalIdChooser, Lane, LaneKey, lane_key, participant_id
from hermes_sessions.model.reset_policy import SessionResetPolicy
from hermes_sessions.model.source import SessionSource
from hermes_sessions.storage.logs import Logger
from hermes_sessions.storage.repositories.lanes import Lanes
from hermes_sessions.storage.store_context import StoreContext

logger = Logger(__name__)

#: Tells by a lane's key whether background processes of it are running.
HasActiveProcesses = Callable[[str], bool]


class LaneDependencies(NamedTuple):
    """One bot's lanes in one store."""

    store: StoreContext
    config: GatewayConfig
    lanes: Lanes
    #: Chooses one id for users who have several.
    canonical: CanonicalIdChooser
    active_processes: HasActiveProcesses | None = None
    #: Returns n random bytes in hex.
    random_hex: Callable[[int], str] = token_hex
    #: Called after a change of lanes outside `SessionStore`, which then exports them.
    changed: Callable[[], None] = lambda: None

    @property
    def namespace(self) -> str:
        """The bot that the lanes belong to."""
        return self.config.namespace

    def key_of(self, source: SessionSource) -> LaneKey:
        """Return the key of the lane that messages from *source* belong to."""
        return lane_key(
            source,
            self.config.group_sessions_per_user,
            self.config.thread_sessions_per_user,
            self.canonical,
        )

    def policy_for(self, key: LaneKey) -> SessionResetPolicy:
        """Return the reset policy of a lane."""
        return self.config.get_reset_policy(key.platform, key.chat_type)

    def owner_of(self, key: LaneKey, source: SessionSource | None) -> str | None:
        """Return the user who owns the lane's sessions; None if several users share the lane.

        Call it before the transaction that uses the result: the choice among several ids of a user
        is stored in a transaction of its own.
        """
        if key.participant_id or key.chat_type != "dm":
            return key.participant_id
        # In a private chat, the chat represents a user whom the platform does not name.
        named = None if source is None else participant_id(source, self.canonical)
        return named or key.chat_id

    def new_session_id(self, now: float) -> str:
        """Return an id for a new session."""
        return new_session_id(now, self.random_hex)

    def has_processes(self, lane: Lane | str) -> bool:
        """Tell whether background processes of a lane are running; an error counts as yes.

        Never call this inside a transaction: the answer comes from outside and may take long.
        """
        key = lane if isinstance(lane, str) else lane.session_key
        if self.active_processes is None:
            return False
        try:
            return bool(self.active_processes(key))
        except Exception as error:  # noqa: BLE001 - third-party code; assuming yes loses nothing
            logger.warning("Cannot tell whether %s has active processes: %s", key, error)
            return True
