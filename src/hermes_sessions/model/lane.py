"""A lane: a conversation key, the session it points at now, and the state it is in."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from itertools import combinations
from typing import Any, Final, Literal, NamedTuple, Protocol, Self, get_args

from hermes_sessions.errors import InvalidInput
from hermes_sessions.model.source import SessionSource

# Ids that one person has several of: on WhatsApp, a phone number and an opaque one, in many forms.
#
# Which of a person's ids stands in a key is decided once and stored; see
# `storage/repositories/identities.py`. What is here is only how an id is written.

#: Platforms on which the ids of one person take several forms.
WITH_ALIASES: Final = frozenset({"whatsapp"})


class CanonicalIdChooser(Protocol):
    """How to choose the id that stands for a person: `Identities.canonical`, or `first_alias`."""

    def __call__(self, platform: str, aliases: Sequence[str]) -> str:
        """Return the one id for all *aliases*, of which there is at least one."""


def normalise_whatsapp(identifier: object) -> str:
    """Return the id without plus sign, device and domain, or the empty text.

    >>> normalise_whatsapp("+60123456789"), normalise_whatsapp("60123456789:47@s.whatsapp.net")
    ('60123456789', '60123456789')
    """
    text = str(identifier).strip().removeprefix("+") if identifier is not None else ""
    return text.partition(":")[0].partition("@")[0].strip()


def normalise_identifier(platform: str, identifier: str) -> str:
    """Return an id as its aliases are compared. Never empty unless the id is: one that consists of
    nothing else than what is cut off stays as it is.
    """
    if platform in WITH_ALIASES:
        return normalise_whatsapp(identifier) or identifier
    return identifier


def first_alias(platform: str, aliases: Sequence[str]) -> str:
    """Return the first of the ids, normalised: the choice where nothing is stored."""
    return normalise_identifier(platform, aliases[0])


# Keys of conversation lanes: which messages belong to the same conversation.
#
# A key is six columns. The documented string, ``agent:main:telegram:dm:12345``, is a rendering of
# them in which ``%`` and ``:`` inside a part are written ``%25`` and ``%3A``, so that no id can
# look like two. The string does not say whether a single part after a group's id is a thread or a
# person; the columns do, and so does a `SessionKey`.


MAIN_PROFILE: Final = "main"


_PREFIX: Final = "agent"


@dataclass(frozen=True, slots=True)
class LaneKey:
    """What identifies a lane. An empty part is none."""

    profile: str
    platform: str
    chat_type: str
    chat_id: str | None = None
    thread_id: str | None = None
    participant_id: str | None = None

    def __post_init__(self) -> None:
        if not (self.platform and self.chat_type):
            raise InvalidInput("A lane's key needs a platform and a chat type.")
        object.__setattr__(self, "profile", self.profile or MAIN_PROFILE)
        # Plain text, whatever was given: platforms are a subclass of it.
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
        """What a lane is looked up by: another one for every key, whatever its length."""
        text = self.render()
        # The string alone would be the same for a person and a thread with one id.
        return key_hash(text if parse_key(text) == self else json.dumps(astuple(self)))


class SessionKey(str):
    """The documented string of a key, which remembers the key.

    A thread and a person of one group may have the same string, and are two lanes all the same.
    """

    __slots__ = ("key",)
    key: LaneKey

    def __new__(cls, text: str, key: LaneKey) -> Self:
        """Return *text*, in which *key* was written down."""
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
    """Return the key that a string renders, as far as a string can say.

    With one part after the chat, it is a thread in a ``dm`` or ``thread`` and a person elsewhere.
    Parts beyond the sixth belong to the last one: older keys did not escape colons.

    Raises:
        InvalidInput: not ``agent:<profile>:<platform>:<chat type>`` and at most three more parts.
    """
    prefix, *parts = text.split(":") if isinstance(text, str) else [""]
    if prefix != _PREFIX or len(parts) < 3 or not all(parts[:3]):
        raise InvalidInput(
            f"{text!r} is not the key of a lane; one looks like agent:main:telegram:dm:12345."
        )
    profile, platform, chat_type, *ids = map(_unescaped, parts)
    if len(ids) > 3:
        ids = [*ids[:2], ":".join(ids[2:])]
    if len(ids) == 2 and chat_type not in {"dm", "thread"}:
        ids.insert(1, "")
    chat_id, thread_id, participant_id = (*ids, "", "", "")[:3]
    return LaneKey(profile, platform, chat_type, chat_id, thread_id, participant_id)


def digests_of(key: LaneKey | str) -> tuple[str, ...]:
    """Return what to look a lane up by: one digest, or one for everything that a plain string may
    mean, the likeliest first; none for a string that is no key.
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
    for places in combinations(range(3), len(ids)):
        parts: list[str | None] = [None, None, None]
        for place, part in zip(places, ids, strict=True):
            parts[place] = part
        readings.append(LaneKey(first.profile, first.platform, first.chat_type, *parts))
    return tuple(dict.fromkeys(reading.digest for reading in readings))


def key_hash(rendered: str) -> str:
    """Return the digest of a text, whatever its length: SHA-256 in hex."""
    return hashlib.sha256(rendered.encode("utf-8", "surrogatepass")).hexdigest()


def lane_key(
    source: SessionSource,
    group_sessions_per_user: bool = True,
    thread_sessions_per_user: bool = False,
    canonical: CanonicalIdChooser | None = None,
) -> LaneKey:
    """Return the key of the lane that a message from *source* belongs to.

    A private chat is one lane, and one for each thread in it. In other chats everybody has a lane,
    unless *group_sessions_per_user* is off; those who write in a thread share it, unless
    *thread_sessions_per_user* is on as well. Who is not known shares.

    *canonical* chooses one id for people who have several; without it the id is only normalised.
    """
    platform = source.platform.value
    choose = canonical or first_alias
    if source.chat_type == "dm":
        # Where the chat has no id, it is known by the person, or at least by the thread.
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
    """Return the id of who wrote, as keys have it; None when that is not known."""
    return _participant(canonical or first_alias, source)


def _participant(choose: CanonicalIdChooser, source: SessionSource) -> str | None:
    return _chosen(choose, source.platform.value, source.user_id_alt, source.user_id)


def _chosen(choose: CanonicalIdChooser, platform: str, *identifiers: str | None) -> str | None:
    """Return the first id there is, or the one that stands for all of them."""
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
    """Tell whether several people may write in the lane of *source*.

    As documented, by chat and settings alone: a private chat never, a thread unless threads are
    per user, any other chat unless groups are.
    """
    if source.chat_type == "dm":
        return False
    if source.thread_id:
        return not thread_sessions_per_user
    return not group_sessions_per_user


#: Nothing special; goes on after an interruption; starts anew with the next message.
Status = Literal["active", "resume_pending", "suspended"]
#: An automatic reset; one that the user asked for; a first conversation; another session was
#: chosen; the session was gone.
NoticeKind = Literal["auto_reset", "fresh_reset", "new", "switched", "lost"]

STATUSES: Final[tuple[Status, ...]] = get_args(Status)
NOTICE_KINDS: Final[tuple[NoticeKind, ...]] = get_args(NoticeKind)


class Notice(NamedTuple):
    """What is said once about a change of a lane, to the user and to the agent."""

    kind: NoticeKind
    #: ``idle``, ``daily``, ``suspended``, …
    reason: str | None = None
    #: Whether the session before had messages: otherwise nobody misses anything.
    had_activity: bool = False
    previous_session_id: str | None = None
    #: When it happened, in seconds since the epoch.
    at: float | None = None
    #: Why it had been suspended: ``stopped``, or ``stuck_loop``: then its last input was dropped.
    suspended_for: str | None = None

    def to_json(self) -> str:
        """Return the text that `from_json` reads."""
        return json.dumps(self._asdict())

    @classmethod
    def from_json(cls, text: str) -> Notice:
        """Return the notice that `to_json` wrote; fields of later versions are left out.

        Raises:
            InvalidInput: the text is no notice.
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


class Lane(NamedTuple):
    """One row of ``lanes``. Times are seconds since the epoch."""

    id: int
    #: The bot it belongs to.
    namespace: str
    key: LaneKey
    session_key: str
    session_id: str
    created_at: float
    updated_at: float
    status: Status = "active"
    status_reason: str | None = None
    status_at: float | None = None
    #: The source that its session came from; where answers go.
    origin: SessionSource | None = None
    display_name: str | None = None
    #: Not handed out yet.
    notice: Notice | None = None
    last_prompt_tokens: int = 0
    #: Starts of a gateway that found it with an unfinished turn, without a good one since.
    unfinished_starts: int = 0
    finalized_at: float | None = None
    finalize_attempts: int = 0
    finalize_error: str | None = None
