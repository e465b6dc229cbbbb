"""Answer invitations by policy."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import Final

from hermes_sessions.errors import StoreError
from hermes_sessions.gateway.platforms.matrix.client import Invitation, MatrixClient
from hermes_sessions.gateway.platforms.matrix.settings import Invites
from hermes_sessions.gateway.platforms.port import PlatformError, Services, Undeliverable
from hermes_sessions.model.source import Platform, SessionSource

logger = logging.getLogger(__name__)

_ATTEMPTS: Final = 5
#: How long an answer may take when the gateway stops.
_GRACE_SECONDS: Final = 5.0


class Invitations:
    """Pending invitations. They are answered in the background: a remote homeserver may be slow, or
    never respond.
    """

    def __init__(self, policy: Invites) -> None:
        self._policy = policy
        self._waiting: dict[str, Invitation] = {}
        self._attempts: Counter[str] = Counter()
        self._task: asyncio.Task[None] | None = None

    def add(self, invitations: list[Invitation]) -> None:
        """Add new invitations."""
        for invitation in invitations:
            self._waiting[invitation.room_id] = invitation
            self._attempts[invitation.room_id] = 0

    def answer(self, client: MatrixClient, services: Services) -> None:
        """Start to answer pending invitations; failures are retried the next time, a limited number
        of times.
        """
        if self._waiting and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._answer_all(client, services))

    async def stop(self) -> None:
        """Return when no answer is in progress."""
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=_GRACE_SECONDS)
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _answer_all(self, client: MatrixClient, services: Services) -> None:
        for invitation in list(self._waiting.values()):
            room_id = invitation.room_id
            self._attempts[room_id] += 1
            try:
                await self._answer(client, services, invitation)
            except (PlatformError, StoreError) as error:
                is_over = isinstance(error, Undeliverable) or self._attempts[room_id] >= _ATTEMPTS
                logger.warning(
                    "matrix: an invitation to %s could not be answered: %s", room_id, error
                )
                if not is_over:
                    continue
            # Unless a new one has arrived meanwhile.
            if self._waiting.get(room_id) is invitation:
                del self._waiting[room_id], self._attempts[room_id]

    async def _answer(
        self, client: MatrixClient, services: Services, invitation: Invitation
    ) -> None:
        if await self._may_invite(invitation, services):
            await client.join(invitation.room_id)
            logger.info("matrix: joined %s, invited by %s", invitation.room_id, invitation.inviter)
        else:
            await client.decline(invitation.room_id)
            logger.warning(
                "matrix: an invitation of %s to %s was declined: see platforms.matrix.invites",
                invitation.inviter,
                invitation.room_id,
            )

    async def _may_invite(self, invitation: Invitation, services: Services) -> bool:
        if self._policy != "allowed":
            return self._policy == "everyone"
        inviter = SessionSource(
            platform=Platform.MATRIX,
            chat_id=invitation.room_id,
            chat_type="group",
            user_id=invitation.inviter,
        )
        return await services.may_talk(inviter)
