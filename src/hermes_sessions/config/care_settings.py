"""The settings of what looks after a store; see ``settings.py``."""

from __future__ import annotations

from hermes_sessions.config.section import SettingsSection

#: Kinds of sessions that have limits of their own; see `hermes_sessions.model.session_class`.
SESSION_CLASSES = ("human", "cron", "subagent", "api")


class RepairSettings(SettingsSection):
    """``repair``: what a repair leaves behind."""

    keep: int


class RetentionLimits(SettingsSection):
    """``retention.<class>``: how long, how many and how much; None: without a limit."""

    max_age_days: int | None
    max_count: int | None
    max_bytes: int | None


class RetentionSettings(SettingsSection):
    """``retention``: what may be deleted in time, after the plan was approved."""

    close_after_days: int
    human: RetentionLimits
    cron: RetentionLimits
    subagent: RetentionLimits
    api: RetentionLimits
