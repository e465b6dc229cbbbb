"""What an agent is told about where it is: the chat, who is there, and what else it can reach."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any, Protocol

from hermes_sessions.config.gateway_config import GatewayConfig, HomeChannel
from hermes_sessions.model.key import lane_key
from hermes_sessions.model.source import SessionSource


class Entry(Protocol):
    """What is needed of a `SessionEntry`."""

    @property
    def session_key(self) -> str: ...  # noqa: D102

    @property
    def session_id(self) -> str: ...  # noqa: D102

    @property
    def created_at(self) -> datetime: ...  # noqa: D102

    @property
    def updated_at(self) -> datetime: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class SessionContext:
    """Where a conversation takes place. Immutable."""

    source: SessionSource
    #: Names of the platforms that the gateway is connected to.
    connected_platforms: tuple[str, ...] = ()
    #: By the name of the platform.
    home_channels: Mapping[str, HomeChannel] = field(default_factory=dict, hash=False)
    #: Several people write in this conversation.
    shared_multi_user_session: bool = False
    session_key: str = ""
    session_id: str = ""
    created_at: datetime | None = None
    updated_at: datetime | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "home_channels", MappingProxyType(dict(self.home_channels)))

    def to_dict(self) -> dict[str, Any]:
        """Return the context as JSON can hold it; times in ISO 8601."""
        return {
            "source": self.source.to_dict(),
            "connected_platforms": list(self.connected_platforms),
            "home_channels": {name: asdict(home) for name, home in self.home_channels.items()},
            "shared_multi_user_session": self.shared_multi_user_session,
            "session_key": self.session_key,
            "session_id": self.session_id,
            "created_at": self.created_at.isoformat() if self.created_at else None,
            "updated_at": self.updated_at.isoformat() if self.updated_at else None,
        }


def build_session_context(
    source: SessionSource, config: GatewayConfig, session_entry: Entry | None = None
) -> SessionContext:
    """Return the context of a message from *source*, with the session's if its entry is given.

    The conversation counts as shared when its key names no person: as configured, or because the
    platform did not say who wrote.
    """
    key = lane_key(source, config.group_sessions_per_user, config.thread_sessions_per_user)
    context = SessionContext(
        source,
        config.connected_platforms,
        config.home_channels,
        shared_multi_user_session=source.chat_type != "dm" and key.participant_id is None,
    )
    if session_entry is None:
        return context
    return SessionContext(
        context.source,
        context.connected_platforms,
        context.home_channels,
        context.shared_multi_user_session,
        session_entry.session_key,
        session_entry.session_id,
        session_entry.created_at,
        session_entry.updated_at,
    )
