"""The configuration of the lifecycle of conversations, as one value that tests can construct."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from hermes_sessions.config.gateway_settings import (
    AgentSettings,
    BusyInputMode,
    GatewaySettings,
    PrivacySettings,
)
from hermes_sessions.config.sections import SettingsSection, default_of
from hermes_sessions.config.settings import DisplaySettings, Settings
from hermes_sessions.errors import InvalidInput
from hermes_sessions.model.ids import require_id
from hermes_sessions.model.reset_policy import SessionResetPolicy

if TYPE_CHECKING:
    from hermes_sessions.config.gateway_settings import ResetOverrides, SessionResetSettings


#: Platforms whose name differs from their section under ``platforms``, by the section.
_CALLED: Final[Mapping[str, str]] = MappingProxyType({"api": "api_server"})


def platform_of_section(section: str) -> str:
    """Return the name of the platform that ``platforms.<section>`` configures."""
    name = section.strip().lower()
    return _CALLED.get(name, name)


#: Fields of a policy that override those of a more general one.
Overrides = Mapping[str, Any]

_NONE: Final[Mapping[str, Any]] = MappingProxyType({})
_DEFAULT_POLICY: Final = SessionResetPolicy()
_POLICY_FIELDS: Final = frozenset(field.name for field in fields(SessionResetPolicy))


def _setting(section: type[SettingsSection], name: str) -> Any:
    """Declare a field that has the value and the default of a setting."""
    return field(default=default_of(section, name), metadata={"setting": (section, name)})


@dataclass(frozen=True, slots=True)
class HomeChannel:
    """Where messages of a platform go when no chat is given."""

    chat_id: str
    name: str | None = None
    thread_id: str | None = None


@dataclass(frozen=True, slots=True)
class GatewayConfig:
    """How conversations are separated, when they get a new session, and how turns are run.

    ``GatewayConfig()`` has the documented defaults. Immutable; times are in seconds.

    Raises:
        InvalidInput: overrides name a field that a policy does not have, a value is not allowed,
            the namespace is empty, or a limit is below 1.
    """

    #: When any conversation gets a new session.
    reset_policy: SessionResetPolicy = _DEFAULT_POLICY
    #: Fields that differ in ``dm``, ``group``, ``channel``, ``thread``.
    reset_by_type: Mapping[str, Overrides] = field(default_factory=dict, hash=False)
    #: Fields that differ on a platform; they win over those by type.
    reset_by_platform: Mapping[str, Overrides] = field(default_factory=dict, hash=False)
    #: In groups and channels, each user has a conversation of their own.
    group_sessions_per_user: bool = _setting(Settings, "group_sessions_per_user")
    #: In threads, too.
    thread_sessions_per_user: bool = _setting(Settings, "thread_sessions_per_user")
    #: The bot that owns the lanes, where several share a database.
    namespace: str = _setting(GatewaySettings, "namespace")
    #: After how many unused days a lane is removed; 0: never.
    session_store_max_age_days: int = _setting(Settings, "session_store_max_age_days")
    #: How long after an interruption a conversation continues; 0 or less: no limit.
    auto_continue_freshness: float = _setting(AgentSettings, "gateway_auto_continue_freshness")
    #: How long a turn may be inactive before it is ended; 0: no limit.
    turn_timeout: float = _setting(AgentSettings, "gateway_timeout")
    #: Inactivity after which the user is warned; 0: no warning.
    turn_warning: float = _setting(AgentSettings, "gateway_timeout_warning")
    #: How often the user is told that a long turn is still running; 0: never.
    notify_interval: float = _setting(AgentSettings, "gateway_notify_interval")
    #: How long turns may finish when the gateway stops; 0: not at all.
    drain_timeout: float = _setting(AgentSettings, "restart_drain_timeout")
    #: What a message does that arrives while a turn runs.
    busy_input_mode: BusyInputMode = _setting(DisplaySettings, "busy_input_mode")  # noqa: RUF009
    #: Whether a message that has to wait is acknowledged.
    busy_ack_enabled: bool = _setting(DisplaySettings, "busy_ack_enabled")
    #: Whether ids and names are hidden from the model.
    redact_pii: bool = _setting(PrivacySettings, "redact_pii")
    #: Platforms that are enabled.
    connected_platforms: tuple[str, ...] = ()
    home_channels: Mapping[str, HomeChannel] = field(default_factory=dict, hash=False)
    #: Whether ``sessions.json`` is written; None: where the store is a file on this machine.
    write_sessions_json: bool | None = _setting(GatewaySettings, "write_sessions_json")
    #: When a gateway first checks for expired conversations, and the time between two checks.
    expiry_first_pass: float = _setting(GatewaySettings, "expiry_first_pass")
    expiry_interval: float = _setting(GatewaySettings, "expiry_interval")
    #: Whether the agent gets a turn to save what matters before an automatic reset.
    finalize_turn: bool = _setting(GatewaySettings, "finalize_turn")
    #: How long that turn may take.
    finalize_timeout: float = _setting(GatewaySettings, "finalize_timeout")
    #: How many agents are kept between turns, and for how long.
    agent_cache_size: int = _setting(GatewaySettings, "agent_cache_size")
    agent_cache_ttl: float = _setting(GatewaySettings, "agent_cache_ttl")
    #: How many messages may wait in one lane.
    mailbox_limit: int = _setting(GatewaySettings, "mailbox_limit")
    #: How many days records of answered messages are kept.
    keep_days: int = _setting(GatewaySettings, "keep_days")

    def __post_init__(self) -> None:
        require_id(self.namespace, "namespace")
        for name in ("agent_cache_size", "mailbox_limit", "keep_days"):
            if getattr(self, name) < 1:
                raise InvalidInput(f"{name} is {getattr(self, name)}; allowed: 1 or more.")
        for name in ("reset_by_type", "reset_by_platform"):
            given: Mapping[str, Overrides] = getattr(self, name)
            by_name = {key.lower(): _checked(name, key, value) for key, value in given.items()}
            object.__setattr__(self, name, MappingProxyType(by_name))
        channels = {key.lower(): channel for key, channel in self.home_channels.items()}
        object.__setattr__(self, "home_channels", MappingProxyType(channels))
        platforms = tuple(name.lower() for name in self.connected_platforms)
        object.__setattr__(self, "connected_platforms", platforms)

    @classmethod
    def from_settings(cls, settings: Settings) -> GatewayConfig:
        """Return the configuration of a home directory."""
        reset = settings.session_reset
        return cls(
            reset_policy=SessionResetPolicy.from_dict(_given(reset)),
            reset_by_type={name: _given(found) for name, found in reset.by_type.items()},
            reset_by_platform={
                platform_of_section(name): _given(platform.session_reset)
                for name, platform in settings.platforms.items()
            },
            connected_platforms=tuple(
                platform_of_section(name)
                for name, platform in settings.platforms.items()
                if platform.is_enabled
            ),
            home_channels={
                platform_of_section(name): HomeChannel(
                    channel.chat_id, channel.name, channel.thread_id
                )
                for name, platform in settings.platforms.items()
                if (channel := platform.home_channel).chat_id
            },
            **_values_of(settings),
        )

    def get_reset_policy(
        self, platform: str | None = None, chat_type: str | None = None
    ) -> SessionResetPolicy:
        """Return the policy for conversations of a type on a platform.

        Fields by type win over the general ones, and those by platform over both.
        """
        overrides = {
            **self.reset_by_type.get((chat_type or "").lower(), _NONE),
            **self.reset_by_platform.get((platform or "").lower(), _NONE),
        }
        return replace(self.reset_policy, **overrides) if overrides else self.reset_policy


def _values_of(settings: Settings) -> dict[str, Any]:
    """Return the values of the fields that are settings."""
    sections = (
        settings,
        settings.gateway,
        settings.agent,
        settings.display,
        settings.privacy,
    )
    by_class = {type(section): section for section in sections}
    found = {}
    for each in fields(GatewayConfig):
        if "setting" in each.metadata:
            section, name = each.metadata["setting"]
            found[each.name] = getattr(by_class[section], name)
    return found


def _given(section: ResetOverrides | SessionResetSettings) -> dict[str, Any]:
    """Return the fields of a policy that are set."""
    values = {name: getattr(section, name) for name in _POLICY_FIELDS}
    return {name: value for name, value in values.items() if value is not None}


def _checked(where: str, name: str, overrides: Overrides) -> Overrides:
    unknown = sorted(set(overrides) - _POLICY_FIELDS)
    if unknown:
        raise InvalidInput(
            f"{where}[{name!r}] has {', '.join(unknown)}, which a reset policy does not have; "
            f"allowed: {', '.join(sorted(_POLICY_FIELDS))}."
        )
    # Invalid values are refused now, not when the first message arrives.
    SessionResetPolicy.from_dict(overrides)
    return MappingProxyType({key: value for key, value in overrides.items() if value is not None})
