"""The keys of the lifecycle of conversations and of platforms; part of the table in ``keys.py``.

A part of a path in angle brackets stands for any name: ``platforms.<name>.token``.
"""

from __future__ import annotations

from typing import get_args

from hermes_sessions.config.key_types import (
    Choice,
    Key,
    Kind,
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
from hermes_sessions.config.settings import BusyInputMode, ResetMode

_A_DAY = 86_400
_TEN_YEARS_IN_MINUTES = 5_256_000

#: Name, kind, default and meaning of what a reset policy has.
_POLICY: tuple[tuple[str, Kind, object, str], ...] = (
    (
        "mode",
        Choice(get_args(ResetMode)),
        "both",
        (
            "When a conversation starts anew by itself: when it is `idle`, `daily` at an hour, at "
            "whichever of `both` comes first, or never; see "
            "[lifecycle](lifecycle.md#starting-anew)."
        ),
    ),
    ("at_hour", WholeNumber(at_least=0, at_most=23), 4, "The hour of `daily`."),
    (
        "idle_minutes",
        WholeNumber(at_least=1, at_most=_TEN_YEARS_IN_MINUTES),
        1440,
        "How long nothing may happen until `idle`.",
    ),
    ("notify", YesNo(), True, "Whether the user is told, once."),
    (
        "notify_exclude_platforms",
        NameList(),
        ("api_server", "webhook"),
        "Platforms on which nobody would read that.",
    ),
    ("timezone", TimeZone(), None, "The zone of `at_hour`; when it is not set, the host's."),
)
# As documented, a wrong number is no reason to stop; a wrong mode would be a reset that never
# happens, or always.
_OTHERWISE_DEFAULT = frozenset({"at_hour", "idle_minutes"})
_ENVIRONMENT = {"at_hour": ("SESSION_RESET_HOUR",), "idle_minutes": ("SESSION_IDLE_MINUTES",)}


def _reset_keys() -> tuple[Key, ...]:
    return tuple(
        Key(
            f"session_reset.{name}",
            OptionalValue(kind) if default is None else kind,
            default,
            doc,
            _ENVIRONMENT.get(name, ()),
            otherwise_default=name in _OTHERWISE_DEFAULT,
        )
        for name, kind, default, doc in _POLICY
    )


def _override_keys(section: str, where: str) -> tuple[Key, ...]:
    return tuple(
        Key(
            f"{section}.{name}",
            OptionalValue(kind),
            None,
            f"The same {where}.",
            otherwise_default=name in _OTHERWISE_DEFAULT,
        )
        for name, kind, _, _ in _POLICY
    )


GATEWAY_DISPLAY_KEYS: tuple[Key, ...] = (
    Key(
        "display.busy_input_mode",
        Choice(get_args(BusyInputMode)),
        "interrupt",
        "What a message does that comes while the agent works: `interrupt` it, wait in a `queue`, "
        "or `steer` it after the next tool call.",
    ),
    Key(
        "display.busy_ack_enabled",
        YesNo(),
        True,
        "Whether such a message is acknowledged.",
    ),
)

GATEWAY_KEYS: tuple[Key, ...] = (
    *_reset_keys(),
    *_override_keys(
        "session_reset.by_type.<type>", "for a type of chat: `dm`, `group`, `channel` or `thread`"
    ),
    Key(
        "group_sessions_per_user",
        YesNo(),
        True,
        "Whether everybody in a group or channel has a conversation of their own.",
    ),
    Key(
        "thread_sessions_per_user",
        YesNo(),
        False,
        "Whether the same holds in threads; otherwise those who write in one share it.",
    ),
    Key(
        "session_store_max_age_days",
        WholeNumber(at_least=0, at_most=36500),
        0,
        "After how many days without use it is forgotten which session a chat was in; the session "
        "stays. 0: never.",
    ),
    Key(
        "platforms.<name>.enabled",
        OptionalValue(YesNo()),
        None,
        "Whether the platform is used; when it is not set: if it has a token or a key.",
    ),
    Key(
        "platforms.<name>.token",
        Text(),
        None,
        "Its token, best as `${VAR}`.",
        may_be_unset=True,
    ),
    Key(
        "platforms.<name>.api_key",
        Text(),
        None,
        "Its key, best as `${VAR}`.",
        may_be_unset=True,
    ),
    Key(
        "platforms.<name>.allowed_users",
        TextList(),
        (),
        "Ids of people who may talk to the agent there; `*` is everybody. Others need "
        "[pairing](gateway.md#who-may-talk-to-it).",
    ),
    Key(
        "platforms.<name>.allowed_chats",
        TextList(),
        (),
        "Ids of chats in which everybody may.",
    ),
    Key(
        "platforms.<name>.allowed_roles",
        TextList(),
        (),
        "Ids of roles whose members may, in the chats in which they have them; on platforms where "
        "people have roles, as on Discord.",
    ),
    Key(
        "platforms.<name>.pairing",
        YesNo(),
        True,
        "Whether somebody unknown who writes in private is given a code that the owner can "
        "approve.",
    ),
    Key(
        "platforms.<name>.messages_per_minute",
        WholeNumber(at_least=0, at_most=100_000),
        30,
        "How many messages one person may send in a minute. 0: any number.",
    ),
    Key(
        "platforms.<name>.home_channel.chat_id",
        Text(),
        None,
        "The chat for what nobody asked for, like results of scheduled work; may also be written "
        "as `home_channel: id`.",
        may_be_unset=True,
    ),
    Key("platforms.<name>.home_channel.name", Text(), None, "What it is called."),
    Key("platforms.<name>.home_channel.thread_id", Text(), None, "The thread in it."),
    *_override_keys("platforms.<name>.session_reset", "on this platform; wins over `by_type`"),
    Key(
        "gateway.namespace",
        Name(),
        "default",
        "The bot whose conversations these are, where several share a database.",
    ),
    Key(
        "gateway.write_sessions_json",
        OptionalValue(YesNo()),
        None,
        "Whether `sessions.json` is kept for other programs; when it is not set: if the store is "
        "SQLite.",
    ),
    Key(
        "gateway.expiry_first_pass",
        Seconds(at_most=_A_DAY),
        60.0,
        "How long after the start the first look for expired conversations is taken.",
    ),
    Key(
        "gateway.expiry_interval",
        Seconds(at_most=_A_DAY),
        300.0,
        "How often after that.",
    ),
    Key(
        "gateway.finalize_turn",
        YesNo(),
        True,
        "Whether the agent gets a turn to save what matters before an automatic reset.",
    ),
    Key(
        "gateway.finalize_timeout",
        Seconds(at_most=_A_DAY),
        120.0,
        "How long that turn may take.",
    ),
    Key(
        "gateway.agent_cache_size",
        WholeNumber(at_least=1, at_most=100_000),
        128,
        "How many agents are kept between turns.",
    ),
    Key(
        "gateway.agent_cache_ttl",
        Seconds(at_most=30 * _A_DAY),
        3600.0,
        "For how long an agent is kept that nobody writes to.",
    ),
    Key(
        "gateway.mailbox_limit",
        WholeNumber(at_least=1, at_most=100_000),
        100,
        "How many messages may wait in one chat; whoever writes more is told.",
    ),
    Key(
        "gateway.keep_days",
        WholeNumber(at_least=1, at_most=36_500),
        30,
        (
            "For how many days it is remembered what was answered, so that a message that is "
            "delivered again is recognised, and which turns, processes and replies there were. "
            "Sessions stay."
        ),
    ),
    Key(
        "gateway.max_turns",
        WholeNumber(at_least=1, at_most=10_000),
        64,
        "How many chats are answered at the same time by one gateway.",
    ),
    Key(
        "gateway.lease_seconds",
        Seconds(at_most=3600),
        60.0,
        (
            "How long after its last sign of life, of which there are six in that time, the chats "
            "of a gateway are taken over by others."
        ),
    ),
    Key(
        "streaming.enabled",
        YesNo(),
        True,
        "Whether a reply is shown while it is written, where messages can be changed.",
    ),
    Key(
        "streaming.edit_interval",
        Seconds(at_most=60),
        1.0,
        "Seconds between two changes, if the platform does not ask for more.",
    ),
    Key(
        "streaming.buffer_threshold",
        WholeNumber(at_least=1, at_most=10_000),
        40,
        "Characters that must be new before the shown reply is changed.",
    ),
    Key(
        "streaming.cursor",
        Text(),
        "▉",
        "What stands at the end of an unfinished reply.",
    ),
    Key(
        "agent.gateway_timeout",
        Seconds(at_most=30 * _A_DAY, at_least=0),
        1800.0,
        "How long a turn may do nothing before it is ended. 0: for ever.",
    ),
    Key(
        "agent.gateway_timeout_warning",
        Seconds(at_most=30 * _A_DAY, at_least=0),
        900.0,
        "When the user is warned of that. 0: never.",
    ),
    Key(
        "agent.gateway_notify_interval",
        Seconds(at_most=30 * _A_DAY, at_least=0),
        180.0,
        "How often the user hears that a long turn is still at work. 0: never.",
    ),
    Key(
        "agent.restart_drain_timeout",
        Seconds(at_most=_A_DAY, at_least=0),
        180.0,
        "How long turns may finish when the gateway stops. 0: they are interrupted at once.",
    ),
    Key(
        "agent.gateway_auto_continue_freshness",
        Seconds(at_most=365 * _A_DAY, at_least=-1),
        3600.0,
        "How long after an interruption a conversation goes on by itself. 0 or less: however "
        "long it was.",
    ),
    Key(
        "privacy.redact_pii",
        YesNo(),
        False,
        "Whether ids and names of people and chats are kept from the model.",
    ),
)
