"""Handoffs: sessions that continue on a messenger because a user asked for it elsewhere.

A session continues in the home channel of the platform. A handoff completes in the transaction that
points the lane at the session, so none is ever half done.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Final

from hermes_sessions.config.gateway_config import HomeChannel
from hermes_sessions.errors import HermesSessionsError, StoreUnavailable
from hermes_sessions.gateway.delivery import reply_to
from hermes_sessions.gateway.events import Target
from hermes_sessions.lifecycle.session_store import SessionStore
from hermes_sessions.model.lane import is_shared_multi_user_session
from hermes_sessions.model.source import Platform, SessionSource
from hermes_sessions.storage.logs import Logger
from hermes_sessions.storage.repositories.outbox import Outbox

logger = Logger(__name__)

_NO_USER_YET: Final = (
    "In the home channel of {platform} each user has a separate conversation, and no user has "
    "written there yet. Send a message there, then hand off again."
)


class Handoffs:
    """Takes over the sessions that were handed off to the platforms of one gateway."""

    def __init__(
        self,
        store: SessionStore,
        outbox: Outbox,
        is_connected: Callable[[str], bool],
        *,
        chat_type_of: Callable[[str, str], str | None],
        people: Callable[[str], Collection[str]],
    ) -> None:
        """*is_connected* tells whether a platform is connected here, *chat_type_of* returns the
        kind of a chat if it is known yet, *people* returns the users on a platform's allow-list.
        """
        self._store = store
        self._outbox = outbox
        self._is_connected = is_connected
        self._chat_type_of = chat_type_of
        self._people = people

    def take_all(self) -> int:
        """Take over every session that waits for a platform of this gateway; return how many."""
        taken = 0
        for session in self._store.db.list_pending_handoffs():
            platform = str(session["handoff_platform"])
            if not self._is_connected(platform):
                continue
            try:
                taken += self._take(session["id"], platform)
            except StoreUnavailable:
                raise
            except HermesSessionsError as error:
                # It stays where it is; the user sees the reason and can try again.
                logger.warning("could not hand off session %s: %s", session["id"], error)
                self._store.db.fail_handoff(session["id"], str(error))
        return taken

    def _take(self, session_id: str, platform: str) -> bool:
        home = self._store.config.home_channels.get(platform)
        if home is None:
            self._store.db.fail_handoff(
                session_id, f"No home channel: set platforms.{platform}.home_channel first."
            )
            return False
        source = self._last_source(platform, home)
        if source is None:
            chat_type = self._chat_type_of(platform, home.chat_id)
            if chat_type is None:
                return False  # Wait until the platform has reported it.
            source = self._expected_source(platform, home, chat_type)
        if source is None:
            self._store.db.fail_handoff(session_id, _NO_USER_YET.format(platform=platform))
            return False
        entry = self._store.accept_handoff(session_id, source)
        if entry is None:
            return False
        title = self._store.db.get_session_title(entry.session_id) or entry.session_id
        target = Target(platform, home.chat_id, home.thread_id)
        self._outbox.put(reply_to(target, f"Continuing here: {title}"))
        return True

    def _last_source(self, platform: str, home: HomeChannel) -> SessionSource | None:
        """Return the source of the last message in the home channel."""
        for entry in self._store.list_sessions():
            origin = entry.origin
            if (
                origin is not None
                and origin.platform.value == platform
                and (origin.chat_id, origin.thread_id) == (home.chat_id, home.thread_id)
            ):
                return origin
        return None

    def _expected_source(
        self, platform: str, home: HomeChannel, chat_type: str
    ) -> SessionSource | None:
        """Return the source of future messages in the home channel; None if it depends on the
        user.
        """
        source = SessionSource(
            Platform(platform),
            home.chat_id,
            chat_name=home.name,
            chat_type=chat_type,
            thread_id=home.thread_id,
        )
        config = self._store.config
        if source.chat_type == "dm" or is_shared_multi_user_session(
            source,
            group_sessions_per_user=config.group_sessions_per_user,
            thread_sessions_per_user=config.thread_sessions_per_user,
        ):
            return source
        people = set(self._people(platform)) - {"*"}
        return replace(source, user_id=people.pop()) if len(people) == 1 else None
