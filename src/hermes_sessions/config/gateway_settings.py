"""Settings of the lifecycle of conversations and of platforms, as the file has them.

`gateway.GatewayConfig` is what the lifecycle itself takes.
"""

from __future__ import annotations

from typing import Literal

from hermes_sessions.config.section import NamedValues, SettingsSection

ResetMode = Literal["none", "idle", "daily", "both"]
BusyInputMode = Literal["interrupt", "queue", "steer"]
ChatType = Literal["dm", "group", "channel", "thread"]


class ResetOverrides(SettingsSection):
    """``session_reset.by_type.<type>`` and ``platforms.<name>.session_reset``: what differs there;
    None: nothing.
    """

    mode: ResetMode | None
    at_hour: int | None
    idle_minutes: int | None
    notify: bool | None
    notify_exclude_platforms: tuple[str, ...] | None
    timezone: str | None


class SessionResetSettings(SettingsSection):
    """``session_reset``: when conversations start anew by themselves."""

    mode: ResetMode
    at_hour: int
    idle_minutes: int
    notify: bool
    notify_exclude_platforms: tuple[str, ...]
    timezone: str | None
    by_type: NamedValues[ResetOverrides]


class HomeChannelSettings(SettingsSection):
    """``platforms.<name>.home_channel``: where messages go when nobody says where."""

    chat_id: str | None
    name: str | None
    thread_id: str | None


class PlatformSettings(SettingsSection):
    """``platforms.<name>``: one messenger."""

    enabled: bool | None
    token: str | None
    api_key: str | None
    allowed_users: tuple[str, ...]
    allowed_chats: tuple[str, ...]
    allowed_roles: tuple[str, ...]
    pairing: bool
    messages_per_minute: int
    home_channel: HomeChannelSettings
    session_reset: ResetOverrides
    extra: NamedValues[object]
    """All other keys, for the platform's adapter: text, tuples of it, and further `NamedValues`."""

    @property
    def is_enabled(self) -> bool:
        """Whether the platform is used: as it says, or because it has a token or a key."""
        return bool(self.token or self.api_key) if self.enabled is None else self.enabled


class GatewaySettings(SettingsSection):
    """``gateway``: the process that connects the agent to messengers."""

    namespace: str
    write_sessions_json: bool | None
    expiry_first_pass: float
    expiry_interval: float
    finalize_turn: bool
    finalize_timeout: float
    agent_cache_size: int
    agent_cache_ttl: float
    mailbox_limit: int
    keep_days: int
    max_turns: int
    lease_seconds: float


class StreamingSettings(SettingsSection):
    """``streaming``: how replies are shown while they are written."""

    enabled: bool
    edit_interval: float
    buffer_threshold: int
    cursor: str


class AgentSettings(SettingsSection):
    """``agent``: how turns are run on messengers."""

    gateway_timeout: float
    gateway_timeout_warning: float
    gateway_notify_interval: float
    restart_drain_timeout: float
    gateway_auto_continue_freshness: float


class PrivacySettings(SettingsSection):
    """``privacy``: what is kept from the model."""

    redact_pii: bool
