"""Access control: which senders may talk to the agent. The default is to deny.

A sender is allowed by an allow-list of the platform (users, chats, or roles where there are any),
by a pairing code that the owner approved, or because the platform is open to all. A sender whom the
owner blocked is never allowed. Senders above the rate limit have to wait.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, cast

from hermes_sessions.gateway.events import Refusal
from hermes_sessions.model.source import SessionSource
from hermes_sessions.storage.repositories.senders import Senders

#: The most senders whose rate is remembered.
_REMEMBERED: Final = 10_000


@dataclass(frozen=True, slots=True)
class AccessPolicy:
    """The access settings of one platform."""

    #: User ids. ``*`` allows every user.
    allowed_users: frozenset[str] = frozenset()
    #: Chats in which every user is allowed.
    allowed_chats: frozenset[str] = frozenset()
    #: Whether an unknown user who writes in private gets a pairing code.
    pairing: bool = True
    #: The most messages of one user in a minute; 0 for no limit.
    messages_per_minute: int = 30
    #: Ids of roles whose members are allowed in chats where they have them.
    allowed_roles: frozenset[str] = frozenset()


class AccessDecision(NamedTuple):
    """Whether a sender is allowed, and the reply if not."""

    is_allowed: bool
    #: ``user``, ``chat``, ``role``, ``paired``, ``open``; or the refusal: ``unknown``,
    #: ``blocked``, ``too many``, ``bot``.
    because: Literal["user", "chat", "role", "paired", "open"] | Refusal
    #: None sends no reply, so that strangers learn nothing.
    reply: str | None = None

    @property
    def refusal(self) -> Refusal | None:
        """The reason of a refusal; None if the sender is allowed."""
        return None if self.is_allowed else cast("Refusal", self.because)


@dataclass(slots=True)
class Authorisation:
    """Decides which senders are allowed; as thread-safe as the store."""

    senders: Senders
    #: By platform; a platform that is not listed allows no sender.
    access: Mapping[str, AccessPolicy]
    clock: Callable[[], float]
    choose: Callable[[str], str] = secrets.choice
    _rates: RateLimiter = field(init=False)

    def __post_init__(self) -> None:
        self._rates = RateLimiter(self.clock)

    def decide(
        self, source: SessionSource, roles: Collection[str] = (), *, is_final: bool = True
    ) -> AccessDecision:
        """Decide whether this sender may send a message now; count the message if so.

        *roles* are the ids of their roles in the chat. Without *is_final*, the store is not asked
        about senders on a list; the caller then checks `is_blocked` later.

        Raises:
            StoreError: the pairings cannot be read.
        """
        platform = source.platform.value
        access = self.access.get(platform)
        if source.is_bot:
            return AccessDecision(False, "bot")
        verdict = (
            AccessDecision(False, "unknown")
            if access is None
            else self._known(source, access, roles, is_final=is_final)
        )
        if not verdict.is_allowed or access is None:
            return verdict
        who = f"{platform}\0{source.user_id or source.chat_id}"
        wait = self._rates.seconds_to_wait(who, access.messages_per_minute)
        if wait:
            return AccessDecision(
                False,
                "too many",
                f"The limit is {access.messages_per_minute} messages per minute. "
                f"This message was not accepted; try again in {wait:.0f} s.",
            )
        return verdict

    def may_talk(self, source: SessionSource, roles: Collection[str] = ()) -> bool:
        """Tell whether a sender is allowed, without counting a message or creating a code.

        Raises:
            StoreError: the pairings cannot be read.
        """
        access = self.access.get(source.platform.value)
        if source.is_bot or access is None:
            return False
        decided = self._decided(source)
        is_listed = _listed(source, access, roles) is not None
        return decided != "blocked" and (is_listed or decided == "allowed")

    def is_blocked(self, source: SessionSource) -> bool:
        """Tell whether the owner blocked a sender.

        Raises:
            StoreError: the pairings cannot be read.
        """
        return self._decided(source) == "blocked"

    def _known(
        self, source: SessionSource, access: AccessPolicy, roles: Collection[str], *, is_final: bool
    ) -> AccessDecision:
        listed = _listed(source, access, roles)
        if listed is not None and not is_final:
            return listed
        decided = self._decided(source)
        if decided == "blocked":
            return AccessDecision(False, "blocked")
        if listed is not None:
            return listed
        return (
            AccessDecision(True, "paired")
            if decided == "allowed"
            else self._refuse_unknown(source, access)
        )

    def _decided(self, source: SessionSource) -> Literal["allowed", "blocked"] | None:
        """Return the owner's decision about a sender."""
        platform = source.platform.value
        statuses = {self.senders.status(platform, sender_id) for sender_id in _ids(source)}
        if "blocked" in statuses:
            return "blocked"
        return "allowed" if "allowed" in statuses else None

    def _refuse_unknown(self, source: SessionSource, access: AccessPolicy) -> AccessDecision:
        ids = _ids(source)
        if not ids:
            return AccessDecision(False, "unknown")
        if not access.pairing or source.chat_type != "dm":
            return AccessDecision(False, "unknown")
        code = self.senders.request(source.platform.value, ids[0], source.user_name, self.choose)
        if code is None:
            return AccessDecision(False, "unknown")
        return AccessDecision(
            False,
            "unknown",
            f"I do not know you yet. To get access, ask my owner to run: "
            f"hermes gateway pair {code[:4]}-{code[4:]}",
        )


def _listed(
    source: SessionSource, access: AccessPolicy, roles: Collection[str]
) -> AccessDecision | None:
    """Return the list that allows a sender, if one does."""
    # Only ids count: users can choose any display name.
    if {source.user_id, source.user_id_alt} & access.allowed_users:
        return AccessDecision(True, "user")
    if {source.chat_id, source.chat_id_alt, source.parent_chat_id} & access.allowed_chats:
        return AccessDecision(True, "chat")
    if source.role_authorized or not access.allowed_roles.isdisjoint(roles):
        return AccessDecision(True, "role")
    return AccessDecision(True, "open") if "*" in access.allowed_users else None


def _ids(source: SessionSource) -> list[str]:
    # The owner may have decided about the user or the chat; a platform may name only one at first.
    return [sender_id for sender_id in (source.user_id_alt, source.user_id) if sender_id]


class RateLimiter:
    """Limits how often a sender may write per minute, with a token bucket for each."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        #: Tokens left and the time of the last message; the longest silent sender first.
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def seconds_to_wait(self, who: str, per_minute: int) -> float:
        """Count a message and return 0, or the seconds to wait if it exceeds the rate."""
        if per_minute <= 0:
            return 0.0
        now = self._clock()
        room, at = self._buckets.pop(who, (float(per_minute), now))
        # A clock that went backwards has no effect.
        room = min(float(per_minute), room + max(0.0, now - at) * per_minute / 60)
        wait = 0.0 if room >= 1 else (1 - room) * 60 / per_minute
        self._buckets[who] = (room - 1 if room >= 1 else room, now)
        if len(self._buckets) > _REMEMBERED:
            self._buckets.popitem(last=False)
        return wait
