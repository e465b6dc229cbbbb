"""Defaults of a reset policy, for the policy itself and for ``session_reset`` in the settings.

Apart from `reset_policy` because that module loads calendars, which every start would pay for.
"""

from __future__ import annotations

from typing import Final, Literal

ResetMode = Literal["none", "idle", "daily", "both"]

MODE: Final[ResetMode] = "both"
AT_HOUR: Final = 4
IDLE_MINUTES: Final = 1440
NOTIFY: Final = True
NOTIFY_EXCLUDE_PLATFORMS: Final = ("api_server", "webhook")
