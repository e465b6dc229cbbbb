"""Keys of what looks after a store; see ``keys.py``."""

from __future__ import annotations

from hermes_sessions.config.care_settings import SESSION_CLASSES
from hermes_sessions.config.key import Key
from hermes_sessions.config.key_types import OrNothing, Size, WholeNumber, YesNo

_WHO = {
    "human": "conversations of people",
    "cron": "sessions of scheduled jobs",
    "subagent": "sessions of subagents that nobody else belongs to",
    "api": "sessions of programs",
}


def _limits(name: str) -> tuple[Key, ...]:
    who = _WHO[name]
    return (
        Key(
            f"retention.{name}.max_age_days",
            OrNothing(WholeNumber(at_least=1, at_most=36500)),
            None,
            f"How many days after their last activity {who} may be deleted; see "
            f"[retention](retention.md).",
        ),
        Key(
            f"retention.{name}.max_count",
            OrNothing(WholeNumber(at_least=0, at_most=10**9)),
            None,
            f"How many {who} are kept, the newest first.",
        ),
        Key(
            f"retention.{name}.max_bytes",
            OrNothing(Size(at_least=0, at_most=10**6 * 1024**3)),
            None,
            f"How much text of {who} is kept, the newest first.",
        ),
    )


CARE_KEYS: tuple[Key, ...] = (
    Key(
        "sessions.auto_prune",
        YesNo(),
        False,
        "Whether classes without a limit of their own have that of `sessions.retention_days`; "
        "nothing goes before the [plan](retention.md) was approved.",
    ),
    Key(
        "sessions.retention_days",
        WholeNumber(at_least=1, at_most=36500),
        90,
        "That many days after the last activity, if `sessions.auto_prune` is on.",
    ),
    Key(
        "repair.keep",
        WholeNumber(at_least=1, at_most=1000),
        3,
        "How many damaged files [`hermes repair`](repair.md) keeps.",
    ),
    Key(
        "retention.close_after_days",
        WholeNumber(at_least=1, at_most=36500),
        30,
        "After how many days without activity a session that was never ended counts as ended, so "
        "that its class's limits reach it.",
    ),
    *(key for name in SESSION_CLASSES for key in _limits(name)),
)
