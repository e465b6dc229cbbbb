"""Lanes: a conversation key, the session it points at now, and its state."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from itertools import combinations
from typing import Any, Final, Literal, NamedTuple, Protocol, Self, get_args

from hermes_sessions.errors import InvalidInput
from hermes_sessions.model.source import SessionSource

# Some users have several ids: on WhatsApp a phone number and an opaque id, each in many forms.
# `storage/repositories/identities.py` stores which of them appears in keys; this module only
# normalises how an id is written.

#: Platforms on which one user may have several ids.
WITH_ALIASES: Final = frozenset({"whatsapp"})


class CanonicalIdChooser(Protocol):
    """Chooses the id that represents a user: `Identities.canonical` or `first_alias`."""

    def __call__(self, platform: str, aliases: Sequence[str]) -> str:
        """Return one id for all *aliases*; there is at least one."""


def normalise_whatsapp(identifier: object) -> str:
    """Return the id without plus sign, device and domain; empty text for None.

    >>> normalise_whatsapp("+60123456789"), normalise_whatsapp("60123456789:47@s.whatsapp.net")
    ('60123456789', '60123456789')
    """
    text = str(identifier).strip().removeprefix("+") if identifier is not None else ""
    return text.partition(":")[0].partition("@")[0].strip()


def normalise_identifier(platform: str, identifier: str) -> str:
    """Return an id in the form in which aliases are compared.

    It is empty only if the id is: an id that consists only of removable parts stays as it is.
    """
    if platform in WITH_ALIASES:
        return normalise_whatsapp(identifier) or identifier
    return identifier


def first_alias(platform: str, aliases: Sequence[str]) -> str:
    """Return the first alias, normalised: the choice when none is stored."""
    return normalise_identifier(platform, aliases[0])


# Lane keys decide which messages belong to the same conversation.
#
# A key has six columns. The documented string, ``agent:main:telegram:dm:12345``, renders them with
# ``%`` and ``:`` inside a part escaped as ``%25`` and ``%3A``, so that no id can look like two
# parts. The string does not tell whether a single part after a group's id is a thread or a user;
# the columns do, and so does a `SessionKey`.


MAIN_PROFILE: Final = "main"


_PREFIX: Final = "agent"


@dataclass(frozen=True, slots=True)
class LaneKey:
    """The identity of a lane. Empty parts become None."""

    profile: str
    platform: str
    chat_type: str
    chat_id: str | None = None
    thread_id: str | None = None
    participant_id: str | None = None

    def __post_init__(self) -> None:
        if not (self.platform and self.chat_type):
            raise InvalidInput("A lane key needs a platform and a chat type.")
        object.__setattr__(self, "profile", self.profile or MAIN_PROFILE)
        # A plain str: `Platform` is a subclass of it.
        object.__setattr__(self, "platform", str.__str__(self.platform))
        for name in ("chat_id", "thread_id", "participant_id"):
            object.__setattr__(self, name, getattr(self, name) or None)

    def render(self) -> SessionKey:
        """Return the documented string."""
        parts = (self.profile, self.platform, self.chat_type)
        optional = (self.chat_id, self.thread_id, self.participant_id)
        text = ":".join(
            (_PREFIX, *map(_escaped, parts), *(_escaped(part) for part in optional if part))
        )
        return SessionKey(text, self)

    @property
    def digest(self) -> str:
        """The digest that lanes are looked up by: distinct for every key, of fixed length."""
        text = self.render()
        # A user and a thread with the same id would render the same string.
        return key_hash(text if parse_key(text) == self else json.dumps(astuple(self)))


class SessionKey(str):
    """The documented string of a key, which also carries the key.

    A thread and a user of one group may render the same string, but they are two lanes.
    """

    __slots__ = ("key",)
    key: LaneKey

    def __new__(cls, text: str, key: LaneKey) -> Self:
        """Return *text*, the rendering of *key*."""
        made = super().__new__(cls, text)
        made.key = key
        return made

    def __getnewargs__(self) -> tuple[str, LaneKey]:  # type: ignore[override]
        return str(self), self.key


def _escaped(part: str) -> str:
    return part.replace("%", "%25").replace(":", "%3A")


def _unescaped(part: str) -> str:
    return part.replace("%3A", ":").replace("%25", "%")


def parse_key(text: str) -> LaneKey:
    """Return the key that a string renders, as far as the string is unambiguous.

    A single part after the chat is a thread in a ``dm`` or ``thread`` and a user elsewhere.
    Parts beyond the sixth belong to the last one: older keys did not escape colons.

    Raises:
        InvalidInput: not ``agent:<profile>:<platform>:<chat type>`` and at most three more parts.
    """
    prefix, *parts = text.split(":") if isinstance(text, str) else [""]
    if prefix != _PREFIX or len(parts) < 3 or not all(parts[:3]):
        raise InvalidInput(
            f"{text!r} is not a lane key; a lane key looks like agent:main:telegram:dm:12345."
        )
    profile, platform, chat_type, *ids = map(_unescaped, parts)
    if len(ids) > 3:
        ids = [*ids[:2], ":".join(ids[2:])]
    if len(ids) == 2 and chat_type not in {"dm", "thread"}:
        ids.insert(1, "")
    chat_id, thread_id, participant_id = (*ids, "", "", "")[:3]
    return LaneKey(profile, platform, chat_type, chat_id, thread_id, participant_id)


def digests_of(key: LaneKey | str) -> tuple[str, ...]:
    """Return the digests to look a lane up by, the likeliest first.

    A plain string has one digest per possible meaning, and none if it is not a valid key.
    """
    if isinstance(key, SessionKey):
        key = key.key
    if isinstance(key, LaneKey):
        return (key.digest,)
    try:
        first = parse_key(key)
    except InvalidInput:
        return ()
    ids = [part for part in (first.chat_id, first.thread_id, first.participant_id) if part]
    readings = [first]
    for positions in combinations(range(3), len(ids)):
        parts: list[str | None] = [None, None, None]
        for position, part in zip(positions, ids, strict=True):
            parts[position] = part
        readings.append(LaneKey(first.profile, first.platform, first.chat_type, *parts))
    return tuple(dict.fromkeys(reading.digest for reading in readings))


def key_hash(rendered: str) -> str:
    """Return the SHA-256 of a text in hex."""
    return hashlib.sha256(rendered.encode("utf-8", "surrogatepass")).hexdigest()


def lane_key(
    source: SessionSource,
    group_sessions_per_user: bool = True,
    thread_sessions_per_user: bool = False,
    canonical: CanonicalIdChooser | None = None,
) -> LaneKey:
    """Return the key of the lane that a message from *source* belongs to.

    A private chat is one lane, plus one for each thread in it. In other chats every user has their
    own lane, unless *group_sessions_per_user* is off. Users in a thread share its lane, unless
    *thread_sessions_per_user* is also on. Unknown senders share the lane of the chat.

    *canonical* chooses one id for users who have several; without it ids are only normalised.
    """
    platform = source.platform.value
    choose = canonical or first_alias
    if source.chat_type == "dm":
        # A chat without an id is identified by the user, or else by the thread.
        chat_id = (
            _chosen(choose, platform, source.chat_id, source.chat_id_alt)
            if source.chat_id
            else _participant(choose, source)
        )
        ids = [part for part in (chat_id, source.thread_id) if part]
        chat_id, thread_id = (*ids, None, None)[:2]
        return _key(source, chat_id, thread_id, None)
    per_user = group_sessions_per_user and (thread_sessions_per_user or not source.thread_id)
    participant_id = _participant(choose, source) if per_user else None
    return _key(source, source.chat_id, source.thread_id, participant_id)


def _key(
    source: SessionSource, chat_id: str | None, thread_id: str | None, participant_id: str | None
) -> LaneKey:
    return LaneKey(
        source.profile or MAIN_PROFILE,
        source.platform.value,
        source.chat_type,
        chat_id,
        thread_id,
        participant_id,
    )


def participant_id(
    source: SessionSource, canonical: CanonicalIdChooser | None = None
) -> str | None:
    """Return the sender's id as keys contain it; None if it is unknown."""
    return _participant(canonical or first_alias, source)


def _participant(choose: CanonicalIdChooser, source: SessionSource) -> str | None:
    return _chosen(choose, source.platform.value, source.user_id_alt, source.user_id)


def _chosen(choose: CanonicalIdChooser, platform: str, *identifiers: str | None) -> str | None:
    """Return the first id that is set, or the one that represents all of them."""
    known = [identifier for identifier in identifiers if identifier]
    if not known:
        return None
    return choose(platform, known) if platform in WITH_ALIASES else known[0]


def build_session_key(
    source: SessionSource,
    group_sessions_per_user: bool = True,
    thread_sessions_per_user: bool = False,
) -> str:
    """Return the documented key of the lane that a message belongs to; see `lane_key`."""
    return lane_key(source, group_sessions_per_user, thread_sessions_per_user).render()


def is_shared_multi_user_session(
    source: SessionSource, *, group_sessions_per_user: bool, thread_sessions_per_user: bool
) -> bool:
    """Tell whether several users may write in the lane of *source*.

    Decided by chat and settings alone, as documented: never in a private chat, in a thread unless
    threads are per user, in any other chat unless groups are per user.
    """
    if source.chat_type == "dm":
        return False
    if source.thread_id:
        return not thread_sessions_per_user
    return not group_sessions_per_user


#: In use; to be resumed after an interruption; reset by the next message.
Status = Literal["active", "resume_pending", "suspended"]
#: An automatic reset; a reset by the user; the first conversation; a switch to another session;
#: the session had disappeared.
NoticeKind = Literal["auto_reset", "fresh_reset", "new", "switched", "lost"]

STATUSES: Final[tuple[Status, ...]] = get_args(Status)
NOTICE_KINDS: Final[tuple[NoticeKind, ...]] = get_args(NoticeKind)


class LaneNotice(NamedTuple):
    """A message about a change of a lane, delivered once to the user and to the agent."""

    kind: NoticeKind
    #: ``idle``, ``daily``, ``suspended``, …
    reason: str | None = None
    #: Whether the previous session had messages; otherwise the user lost nothing.
    had_activity: bool = False
    previous_session_id: str | None = None
    #: When it happened, in seconds since the epoch.
    at: float | None = None
    #: Why it was suspended: ``stopped``, or ``stuck_loop``, which also dropped its last input.
    suspended_for: str | None = None

    def to_json(self) -> str:
        """Return the text that `from_json` reads."""
        return json.dumps(self._asdict())

    @classmethod
    def from_json(cls, text: str) -> LaneNotice:
        """Return the notice that `to_json` wrote; fields of later versions are ignored.

        Raises:
            InvalidInput: the text is not a notice.
        """
        try:
            values: Any = json.loads(text)
        except ValueError as error:
            raise InvalidInput(f"A notice cannot be read: {error}.") from error
        if not isinstance(values, dict) or values.get("kind") not in NOTICE_KINDS:
            raise InvalidInput(
                f"A notice must be an object whose kind is one of: {', '.join(NOTICE_KINDS)}."
            )
        return cls(**{name: values[name] for name in cls._fields if name in values})


#: The former name.
Notice = LaneNotice


class Lane(NamedTuple):
    """One row of ``lanes``. Times are seconds since the epoch."""

    id: int
    #: The bot that the lane belongs to.
    namespace: str
    key: LaneKey
    session_key: str
    session_id: str
    created_at: float
    updated_at: float
    status: Status = "active"
    status_reason: str | None = None
    status_at: float | None = None
    #: The source of its session, and the destination of replies.
    origin: SessionSource | None = None
    display_name: str | None = None
    #: Pending, not delivered yet.
    notice: LaneNotice | None = None
    last_prompt_tokens: int = 0
    #: Abandoned turns since the last completed one.
    unfinished_starts: int = 0
    finalized_at: float | None = None
    finalize_attempts: int = 0
    finalize_error: str | None = None
