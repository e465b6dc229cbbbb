"""Retention policies from the settings."""

from __future__ import annotations

from hermes_sessions.config.settings import RetentionLimits, Settings
from hermes_sessions.model.retention import ClassLimits, RetentionPolicies


def retention_policies(settings: Settings) -> RetentionPolicies:
    """Return the limits of every class. With ``sessions.auto_prune``, classes without a limit of
    their own get ``sessions.retention_days``.
    """
    configured = settings.retention
    age = settings.sessions.retention_days if settings.sessions.auto_prune else None
    return RetentionPolicies(
        _limits(configured.human, age),
        _limits(configured.cron, age),
        _limits(configured.subagent, age),
        _limits(configured.api, age),
        configured.close_after_days,
    )


def _limits(configured: RetentionLimits, otherwise: int | None) -> ClassLimits:
    limits = ClassLimits(configured.max_age_days, configured.max_count, configured.max_bytes)
    return limits if limits.has_limits else ClassLimits(otherwise)
