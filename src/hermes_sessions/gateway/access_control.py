"""Who may talk to the agent: deny by default.

Somebody is let in by an allow-list of the platform (people, chats, or roles where people have
some), by a pairing code that the owner approved, or because the platform is open to all; but not
whom the owner blocked, whatever the lists say. Whoever writes more often than allowed has to wait.
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

#: Senders whose rate is remembered.
_REMEMBERED: Final = 10_000


@dataclass(frozen=True, slots=True)
class AccessPolicy:
    """What is configured for one platform."""

    #: Ids of people. ``*`` is everybody.
    allowed_users: frozenset[str] = frozenset()
    #: Chats in which everybody may talk.
    allowed_chats: frozenset[str] = frozenset()
    #: Whether an unknown person who writes in private is given a pairing code.
    pairing: bool = True
    #: Messages that one person may send in a minute; 0: any number.
    messages_per_minute: int = 30
    #: Ids of roles whose members may talk where they have them.
    allowed_roles: frozenset[str] = frozenset()


class AccessDecision(NamedTuple):
    """Whether a sender may, and what they are told if not."""

    is_allowed: bool
    #: ``user``, ``chat``, ``role``, ``paired``, ``everybody``; or why not: ``unknown``,
    #: ``blocked``, ``too many``, ``bot``.
    because: Literal["user", "chat", "role", "paired", "everybody"] | Refusal
    #: None: nothing, as to somebody who has no business here.
    reply: str | None = None

    @property
    def refusal(self) -> Refusal | None:
        """Why not; None when they may."""
        return None if self.is_allowed else cast("Refusal", self.because)


@dataclass(slots=True)
class Authorisation:
    """Decides about senders; thread-safe as far as the store is."""

    senders: Senders
    #: By platform; one that is not named lets nobody in.
    access: Mapping[str, AccessPolicy]
    clock: Callable[[], float]
    choose: Callable[[str], str] = secrets.choice
    _rates: RateLimiter = field(init=False)

    def __post_init__(self) -> None:
        self._rates = RateLimiter(self.clock)

    def decide(
        self, source: SessionSource, roles: Collection[str] = (), *, is_final: bool = True
    ) -> AccessDecision:
        """Return whether this sender may say something now; counts the message if so.

        *roles* are those that they have in the chat, by id. Without *is_final*, the store is not
        asked about those who are on a list; whoever is let in so is to be asked for with
        `is_blocked` later.

        Raises:
            StoreError: it is not known who was paired.
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
                f"That is more than {access.messages_per_minute} messages in a minute. "
                f"This one was not taken; try again in {wait:.0f} s.",
            )
        return verdict

    def may_talk(self, source: SessionSource, roles: Collection[str] = ()) -> bool:
        """Return whether somebody is let in; nothing is counted, and no code is given.

        Raises:
            StoreError: it is not known who was paired.
        """
        access = self.access.get(source.platform.value)
        if source.is_bot or access is None:
            return False
        decided = self._decided(source)
        is_listed = _listed(source, access, roles) is not None
        return decided != "blocked" and (is_listed or decided == "allowed")

    def is_blocked(self, source: SessionSource) -> bool:
        """Return whether somebody is kept out by name.

        Raises:
            StoreError: it is not known.
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
            else self._strange(source, access)
        )

    def _decided(self, source: SessionSource) -> Literal["allowed", "blocked"] | None:
        """Return what the owner decided about somebody."""
        platform = source.platform.value
        statuses = {self.senders.status(platform, sender_id) for sender_id in _ids(source)}
        if "blocked" in statuses:
            return "blocked"
        return "allowed" if "allowed" in statuses else None

    def _strange(self, source: SessionSource, access: AccessPolicy) -> AccessDecision:
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
            f"I do not know you yet. If you may talk to me, ask my owner to run: "
            f"hermes gateway pair {code[:4]}-{code[4:]}",
        )


def _listed(
    source: SessionSource, access: AccessPolicy, roles: Collection[str]
) -> AccessDecision | None:
    """Return by which list somebody is let in, if by any."""
    # By id alone: anybody can call themselves anything.
    if {source.user_id, source.user_id_alt} & access.allowed_users:
        return AccessDecision(True, "user")
    if {source.chat_id, source.chat_id_alt, source.parent_chat_id} & access.allowed_chats:
        return AccessDecision(True, "chat")
    if source.role_authorized or not access.allowed_roles.isdisjoint(roles):
        return AccessDecision(True, "role")
    return AccessDecision(True, "everybody") if "*" in access.allowed_users else None


def _ids(source: SessionSource) -> list[str]:
    # The owner may have decided about either; a platform may name only one at first.
    return [sender_id for sender_id in (source.user_id_alt, source.user_id) if sender_id]


class RateLimiter:
    """How often somebody wrote within the last minute, as a bucket that fills by itself."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        #: Room left and when that was so, the longest silent first.
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def seconds_to_wait(self, who: str, per_minute: int) -> float:
        """Count a message; return 0, or how long to wait if it is one too many, uncounted."""
        if per_minute <= 0:
            return 0.0
        now = self._clock()
        room, at = self._buckets.pop(who, (float(per_minute), now))
        # A clock that ran backwards gives nothing and takes nothing.
        room = min(float(per_minute), room + max(0.0, now - at) * per_minute / 60)
        wait = 0.0 if room >= 1 else (1 - room) * 60 / per_minute
        self._buckets[who] = (room - 1 if room >= 1 else room, now)
        if len(self._buckets) > _REMEMBERED:
            self._buckets.popitem(last=False)
        return wait
