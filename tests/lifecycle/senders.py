"""Senders and chats of lifecycle tests."""

from __future__ import annotations

from typing import Any

from hermes_sessions.model.source import Platform, SessionSource

MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0


def ann(**changes: Any) -> SessionSource:
    """A private chat with Ann."""
    values = {"chat_id": "1", "chat_name": "Ann", "user_id": "u1", "user_name": "Ann"}
    return SessionSource(Platform.TELEGRAM, **{**values, **changes})


def in_group(user_id: str | None, **changes: Any) -> SessionSource:
    """Return a sender in a group."""
    values = {"chat_id": "-100", "chat_name": "Friends", "chat_type": "group"}
    return SessionSource(Platform.TELEGRAM, **{**values, "user_id": user_id, **changes})


ANN = ann()
ANNS_KEY = "agent:main:telegram:dm:1"
