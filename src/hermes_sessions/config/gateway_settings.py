"""Settings of the gateway: resets, platforms, turns, streaming and privacy.

`gateway_config.GatewayConfig` is the form in which the lifecycle of conversations takes them.
"""

from __future__ import annotations

from typing import Any, Final, Literal, get_args

from hermes_sessions.config.key_types import (
    Choice,
    Name,
    NameList,
    OptionalValue,
    Seconds,
    Text,
    TextList,
    TimeZone,
    WholeNumber,
    YesNo,
)
from hermes_sessions.config.sections import (
    NamedValues,
    SettingsSection,
    key_of,
    named_sections,
    section,
    setting,
)
from hermes_sessions.model import reset_defaults
from hermes_sessions.model.reset_defaults import ResetMode

BusyInputMode = Literal["interrupt", "queue", "steer"]
ChatType = Literal["dm", "group", "channel", "thread"]

PLATFORM_ENTRY_POINTS: Final = "hermes_sessions.platforms"
"""The entry point by which packages add messengers; their names are sections of ``platforms``."""

_A_DAY: Final = 86_400
_TEN_YEARS_IN_MINUTES: Final = 5_256_000


class ResetPolicySettings(SettingsSection):
    """The fields of a reset policy."""

    mode: ResetMode = setting(
        reset_defaults.MODE,
        kind=Choice(get_args(ResetMode)),
        doc=(
            "When a chat gets a new session automatically: after `idle_minutes` (`idle`), at "
            "`at_hour` (`daily`), at whichever comes first (`both`), or never (`none`); see "
            "[lifecycle](lifecycle.md#automatic-resets)."
        ),
    )
    # As documented, an invalid number does not stop anything. An invalid mode would mean a reset
    # that never happens, or one on every message.
    at_hour: int = setting(
        reset_defaults.AT_HOUR,
        kind=WholeNumber(at_least=0, at_most=23),
        env=("SESSION_RESET_HOUR",),
        doc="The hour of the `daily` reset.",
        invalid_means_default=True,
    )
    idle_minutes: int = setting(
        reset_defaults.IDLE_MINUTES,
        kind=WholeNumber(at_least=1, at_most=_TEN_YEARS_IN_MINUTES),
        env=("SESSION_IDLE_MINUTES",),
        doc="Minutes without a message before the `idle` reset.",
        invalid_means_default=True,
    )
    notify: bool = setting(
        reset_defaults.NOTIFY, kind=YesNo(), doc="Whether the user is told about a reset, once."
    )
    notify_exclude_platforms: tuple[str, ...] = setting(
        reset_defaults.NOTIFY_EXCLUDE_PLATFORMS,
        kind=NameList(),
        doc="Platforms on which users are not told about resets.",
    )
    timezone: str | None = setting(
        None,
        kind=OptionalValue(TimeZone()),
        doc="The time zone of `at_hour`; default: the host's.",
    )


def _override(name: str) -> Any:
    """Declare a key that overrides the one of a reset policy, without a default of its own."""
    key = key_of(ResetPolicySettings, name)
    kind = key.kind if isinstance(key.kind, OptionalValue) else OptionalValue(key.kind)
    return key._replace(kind=kind, default=None, doc="The same {where}.", environment=())


class ResetOverrides(SettingsSection):
    """``session_reset.by_type.<type>`` and ``platforms.<name>.session_reset``: fields of a reset
    policy that differ there; None: not overridden.
    """

    mode: ResetMode | None = _override("mode")
    at_hour: int | None = _override("at_hour")
    idle_minutes: int | None = _override("idle_minutes")
    notify: bool | None = _override("notify")
    notify_exclude_platforms: tuple[str, ...] | None = _override("notify_exclude_platforms")
    timezone: str | None = _override("timezone")


class SessionResetSettings(ResetPolicySettings):
    """``session_reset``: when chats get a new session automatically."""

    by_type: NamedValues[ResetOverrides] = named_sections(
        "type", ResetOverrides, where="for a type of chat: `dm`, `group`, `channel` or `thread`"
    )


class HomeChannelSettings(SettingsSection, short_form="chat_id"):
    """``platforms.<name>.home_channel``: where messages without a given chat go."""

    chat_id: str | None = setting(
        None,
        kind=Text(),
        doc=(
            "The chat for messages that the agent starts, such as results of scheduled work; may "
            "also be written as `home_channel: id`."
        ),
        may_be_unset=True,
    )
    name: str | None = setting(None, kind=Text(), doc="A name for it.")
    thread_id: str | None = setting(None, kind=Text(), doc="The thread in it.")


class PlatformSettings(SettingsSection, shared=True, keeps_unknown_keys=True):
    """``platforms.<name>``: one messenger."""

    enabled: bool | None = setting(
        None,
        kind=OptionalValue(YesNo()),
        doc="Whether the platform is used; default: if it has a token or a key.",
    )
    token: str | None = setting(
        None, kind=Text(), doc="Its token, best as `${VAR}`.", may_be_unset=True
    )
    api_key: str | None = setting(
        None, kind=Text(), doc="Its key, best as `${VAR}`.", may_be_unset=True
    )
    allowed_users: tuple[str, ...] = setting(
        (),
        kind=TextList(),
        doc=(
            "Ids of users who may talk to the agent there; `*` allows all. Others need "
            "[pairing](gateway.md#who-may-talk-to-it)."
        ),
    )
    allowed_chats: tuple[str, ...] = setting(
        (), kind=TextList(), doc="Ids of chats in which all members may talk to the agent."
    )
    allowed_roles: tuple[str, ...] = setting(
        (),
        kind=TextList(),
        doc=(
            "Ids of roles whose members may talk to the agent, in the chats where they have them; "
            "on platforms with roles, such as Discord."
        ),
    )
    pairing: bool = setting(
        True,
        kind=YesNo(),
        doc="Whether an unknown user who writes in private gets a code that the owner can approve.",
    )
    messages_per_minute: int = setting(
        30,
        kind=WholeNumber(at_least=0, at_most=100_000),
        doc="How many messages one user may send per minute. 0: no limit.",
    )
    home_channel: HomeChannelSettings = section(HomeChannelSettings)
    session_reset: ResetOverrides = section(
        ResetOverrides, where="on this platform; wins over `by_type`"
    )
    extra: NamedValues[object]
    """All other keys, for the platform's adapter: text, tuples of it, and further `NamedValues`."""

    @property
    def is_enabled(self) -> bool:
        """Whether the platform is used: as it says, or because it has a token or a key."""
        return bool(self.token or self.api_key) if self.enabled is None else self.enabled


class GatewaySettings(SettingsSection, shared=True):
    """``gateway``: the process that connects the agent to messengers."""

    namespace: str = setting(
        "default",
        kind=Name(),
        doc="The bot that owns the conversations, where several share a database.",
    )
    write_sessions_json: bool | None = setting(
        None,
        kind=OptionalValue(YesNo()),
        doc="Whether `sessions.json` is kept for other programs; default: if the store is SQLite.",
    )
    expiry_first_pass: float = setting(
        60.0,
        kind=Seconds(at_most=_A_DAY),
        doc="How long after the start the gateway first checks for expired conversations.",
    )
    expiry_interval: float = setting(
        300.0, kind=Seconds(at_most=_A_DAY), doc="Time between two of these checks."
    )
    finalize_turn: bool = setting(
        True,
        kind=YesNo(),
        doc="Whether the agent gets a turn to save what matters before an automatic reset.",
    )
    finalize_timeout: float = setting(
        120.0, kind=Seconds(at_most=_A_DAY), doc="How long that turn may take."
    )
    agent_cache_size: int = setting(
        128,
        kind=WholeNumber(at_least=1, at_most=100_000),
        doc="How many agents are kept between turns.",
    )
    agent_cache_ttl: float = setting(
        3600.0, kind=Seconds(at_most=30 * _A_DAY), doc="How long an unused agent is kept."
    )
    mailbox_limit: int = setting(
        100,
        kind=WholeNumber(at_least=1, at_most=100_000),
        doc="How many messages may wait in one chat; the sender of a further one is told.",
    )
    keep_days: int = setting(
        30,
        kind=WholeNumber(at_least=1, at_most=36_500),
        doc=(
            "How many days records of answered messages, turns, processes and replies are kept, so "
            "that a message delivered again is recognised. Sessions stay."
        ),
    )
    max_turns: int = setting(
        64,
        kind=WholeNumber(at_least=1, at_most=10_000),
        doc="How many chats one gateway answers at the same time.",
    )
    lease_seconds: float = setting(
        60.0,
        kind=Seconds(at_most=3600),
        doc=(
            "How long after a gateway's last heartbeat others take over its chats; it sends six in "
            "that time."
        ),
    )


class StreamingSettings(SettingsSection, shared=True):
    """``streaming``: how replies are shown while they are written."""

    enabled: bool = setting(
        True,
        kind=YesNo(),
        doc="Whether a reply is shown while it is written, on platforms that can edit messages.",
    )
    edit_interval: float = setting(
        1.0,
        kind=Seconds(at_most=60),
        doc="Seconds between two edits; a platform may require more.",
    )
    buffer_threshold: int = setting(
        40,
        kind=WholeNumber(at_least=1, at_most=10_000),
        doc="How many new characters cause an edit.",
    )
    cursor: str = setting("▉", kind=Text(), doc="Shown at the end of an unfinished reply.")


class AgentSettings(SettingsSection, shared=True):
    """``agent``: how turns are run on messengers."""

    gateway_timeout: float = setting(
        1800.0,
        kind=Seconds(at_most=30 * _A_DAY, at_least=0),
        doc="How long a turn may be inactive before it is ended. 0: no limit.",
    )
    gateway_timeout_warning: float = setting(
        900.0,
        kind=Seconds(at_most=30 * _A_DAY, at_least=0),
        doc="Inactivity after which the user is warned. 0: no warning.",
    )
    gateway_notify_interval: float = setting(
        180.0,
        kind=Seconds(at_most=30 * _A_DAY, at_least=0),
        doc="How often the user is told that a long turn is still running. 0: never.",
    )
    restart_drain_timeout: float = setting(
        180.0,
        kind=Seconds(at_most=_A_DAY, at_least=0),
        doc="How long turns may finish when the gateway stops. 0: they are interrupted at once.",
    )
    gateway_auto_continue_freshness: float = setting(
        3600.0,
        kind=Seconds(at_most=365 * _A_DAY, at_least=-1),
        doc=(
            "How long after an interruption a conversation continues automatically. 0 or less: no "
            "limit."
        ),
    )


class PrivacySettings(SettingsSection, shared=True):
    """``privacy``: what the model does not see."""

    redact_pii: bool = setting(
        False,
        kind=YesNo(),
        doc="Whether ids and names of users and chats are hidden from the model.",
    )
