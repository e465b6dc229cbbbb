"""Where a message came from: the platform, the chat and the sender."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Final, Self

from hermes_sessions.errors import InvalidInput


class Platform(str):
    """A messaging platform: a ``str`` with one object per name.

    ``Platform("Telegram") is Platform.TELEGRAM``. Unregistered names raise `InvalidInput`, which
    is a `ValueError`.
    """

    __slots__ = ()

    LOCAL: ClassVar[Platform]
    TELEGRAM: ClassVar[Platform]
    DISCORD: ClassVar[Platform]
    WHATSAPP: ClassVar[Platform]
    WHATSAPP_CLOUD: ClassVar[Platform]
    SLACK: ClassVar[Platform]
    SIGNAL: ClassVar[Platform]
    MATTERMOST: ClassVar[Platform]
    MATRIX: ClassVar[Platform]
    HOMEASSISTANT: ClassVar[Platform]
    EMAIL: ClassVar[Platform]
    SMS: ClassVar[Platform]
    DINGTALK: ClassVar[Platform]
    API_SERVER: ClassVar[Platform]
    WEBHOOK: ClassVar[Platform]
    MSGRAPH_WEBHOOK: ClassVar[Platform]
    FEISHU: ClassVar[Platform]
    WECOM: ClassVar[Platform]
    WECOM_CALLBACK: ClassVar[Platform]
    WEIXIN: ClassVar[Platform]
    BLUEBUBBLES: ClassVar[Platform]
    QQBOT: ClassVar[Platform]
    YUANBAO: ClassVar[Platform]
    RELAY: ClassVar[Platform]

    def __new__(cls, name: object) -> Self:
        """Return the registered platform of that name, ignoring case."""
        found = _REGISTERED.get(_folded(name))
        if found is None:
            raise InvalidInput(
                f"There is no platform {name!r}. Known: {', '.join(sorted(_REGISTERED))}. "
                f"A plug-in adds its own with Platform.register(name)."
            )
        return found  # type: ignore[return-value]

    @classmethod
    def register(cls, name: str, *, pii_safe: bool = False, title: str | None = None) -> Platform:
        """Register a platform in this process and return it; a registered one is returned as is.

        *pii_safe* says that agents on it work without raw ids, so that they may be redacted;
        *title* is its name as people write it.

        Raises:
            InvalidInput: the name is not text, or blank.
        """
        if not isinstance(name, str) or not _folded(name):
            raise InvalidInput("The name of a platform must not be blank.")
        platform = _REGISTERED.setdefault(_folded(name), str.__new__(cls, _folded(name)))
        if pii_safe:
            _PII_SAFE.add(platform)
        if title:
            _TITLES[platform] = title
        return platform

    @classmethod
    def known(cls) -> tuple[Platform, ...]:
        """Return all platforms, sorted by name."""
        return tuple(_REGISTERED[name] for name in sorted(_REGISTERED))

    @property
    def value(self) -> str:
        """The name as plain text, as in keys and files."""
        return str.__str__(self)

    @property
    def pii_safe(self) -> bool:
        """Whether agents on this platform work without raw ids."""
        return self in _PII_SAFE

    def __repr__(self) -> str:
        return f"Platform({self.value!r})"

    def __getnewargs__(self) -> tuple[str]:
        return (self.value,)


def _folded(name: object) -> str:
    return name.strip().lower() if isinstance(name, str) else ""


def platform_title(name: str) -> str:
    """Return the name of a platform as people write it, whether or not it is registered."""
    return _TITLES.get(name) or name.replace("_", " ").replace("-", " ").title()


_REGISTERED: Final[dict[str, Platform]] = {}
#: Where the title is not the capitalised name.
_TITLES: Final[dict[str, str]] = {
    "api_server": "API",
    "bluebubbles": "iMessage",
    "dingtalk": "DingTalk",
    "homeassistant": "Home Assistant",
    "local": "CLI",
    "msgraph_webhook": "Microsoft Graph",
    "qqbot": "QQ",
    "sms": "SMS",
    "wecom": "WeCom",
    "wecom_callback": "WeCom",
    "whatsapp": "WhatsApp",
    "whatsapp_cloud": "WhatsApp",
}
_PII_SAFE: Final[set[str]] = set()
#: Mentions on these platforms contain the user's id: ``<@1234>``, ``<@U1234>``.
_MENTIONED_BY_ID: Final = frozenset({"discord", "slack"})

for _name in Platform.__annotations__:
    _platform = Platform.register(_name, pii_safe=_name.lower() not in _MENTIONED_BY_ID)
    setattr(Platform, _name, _platform)


@dataclass(frozen=True, slots=True)
class SessionSource:
    """Where a message came from. Immutable; ids are text, and an empty id becomes None.

    Raises:
        InvalidInput: the platform is not registered.
    """

    platform: Platform
    #: Chat, group or channel; empty where the platform has none.
    chat_id: str
    chat_name: str | None = None
    #: ``dm``, ``group``, ``channel`` or ``thread``; adapters may have others.
    chat_type: str = "dm"
    user_id: str | None = None
    user_name: str | None = None
    #: Forum topic or thread in the chat.
    thread_id: str | None = None
    chat_topic: str | None = None
    #: The id that stays when `user_id` changes: Signal's UUID, Feishu's union id.
    user_id_alt: str | None = None
    chat_id_alt: str | None = None
    is_bot: bool = False
    #: Discord guild, Slack workspace, Matrix server.
    guild_id: str | None = None
    #: The channel that a thread belongs to.
    parent_chat_id: str | None = None
    #: The message that triggered this.
    message_id: str | None = None
    #: The platform admitted the sender by a role, not by their id.
    role_authorized: bool = False
    #: The profile, in a gateway that runs several; None is the main profile.
    profile: str | None = None

    def __post_init__(self) -> None:
        for name in _TEXTS:
            value = getattr(self, name)
            if value is not None and type(value) is not str:
                object.__setattr__(self, name, str(value))
            if value == "":
                object.__setattr__(self, name, None)
        object.__setattr__(self, "platform", Platform(self.platform))
        object.__setattr__(self, "chat_id", "" if self.chat_id is None else str(self.chat_id))
        object.__setattr__(self, "chat_type", str(self.chat_type or "dm"))
        object.__setattr__(self, "is_bot", bool(self.is_bot))
        object.__setattr__(self, "role_authorized", bool(self.role_authorized))

    @property
    def description(self) -> str:
        """A description for users: ``DM with Alice``, ``group: My Group, thread: 12345``."""
        if self.platform is Platform.LOCAL:
            return "CLI terminal"
        if self.chat_type == "dm":
            words = f"DM with {self.user_name or self.user_id or 'user'}"
        elif self.chat_type in {"group", "channel"}:
            words = f"{self.chat_type}: {self.chat_name or self.chat_id}"
        else:
            words = self.chat_name or self.chat_id
        return f"{words}, thread: {self.thread_id}" if self.thread_id else words

    def to_dict(self) -> dict[str, Any]:
        """Return the documented form: the first eight fields always, the others only when set.

        `from_dict` restores an equal source from it.
        """
        values: dict[str, Any] = {name: getattr(self, name) for name in _ALWAYS_WRITTEN}
        values["platform"] = self.platform.value
        for name in _WRITTEN_WHEN_SET:
            if value := getattr(self, name):
                values[name] = value
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> SessionSource:
        """Return the source that `to_dict` wrote; unknown keys are ignored.

        Raises:
            InvalidInput: not a mapping, platform or chat is missing, or the platform is
            unregistered.
        """
        if not isinstance(values, Mapping):
            raise InvalidInput(f"A source must be a mapping, not {type(values).__name__}.")
        missing = [name for name in ("platform", "chat_id") if values.get(name) is None]
        if missing:
            raise InvalidInput(f"The source has no {' and no '.join(missing)}.")
        known = {name: values[name] for name in _FIELDS if name in values}
        # Later versions of the documented system use this name.
        if not known.get("guild_id") and values.get("scope_id"):
            known["guild_id"] = values["scope_id"]
        return cls(**known)


_FIELDS: Final = tuple(field.name for field in fields(SessionSource))
_ALWAYS_WRITTEN: Final = _FIELDS[:8]
_WRITTEN_WHEN_SET: Final = _FIELDS[8:]
_TEXTS: Final = tuple(
    name
    for name in _FIELDS
    if name not in {"platform", "chat_id", "chat_type", "is_bot", "role_authorized"}
)
