"""Keys of the gateway and of platforms: valid values and their effect."""

from collections.abc import Callable
from pathlib import Path

import pytest

from hermes_sessions.config import Settings, default_settings, load_settings
from hermes_sessions.config.gateway_config import GatewayConfig, HomeChannel
from hermes_sessions.errors import ConfigError
from hermes_sessions.model.reset_policy import SessionResetPolicy

Load = Callable[..., Settings]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    def load(text: str, **environ: str) -> Settings:
        (tmp_path / "config.yaml").write_text(text, encoding="utf-8")
        return load_settings(tmp_path, environ)

    return load


def configured(settings: Settings) -> GatewayConfig:
    assert settings.warnings == ()
    return GatewayConfig.from_settings(settings)


def test_the_defaults_of_the_lifecycle_are_those_of_the_settings(tmp_path: Path) -> None:
    assert GatewayConfig.from_settings(default_settings(tmp_path)) == GatewayConfig()


def test_every_key_can_be_set(load: Load) -> None:
    config = configured(
        load(
            """
            session_reset: {mode: daily, at_hour: 5, idle_minutes: 90, notify: no,
              notify_exclude_platforms: [webhook, Email], timezone: Asia/Tokyo,
              by_type: {dm: {mode: idle}, THREAD: {timezone: UTC, notify_exclude_platforms: []}}}
            group_sessions_per_user: off
            thread_sessions_per_user: on
            session_store_max_age_days: 7
            platforms:
              telegram:
                token: ${TELEGRAM}
                home_channel: -100123
                session_reset: {mode: none, at_hour: 6, idle_minutes: 30, notify: yes,
                  notify_exclude_platforms: "sms, email"}
              slack: {enabled: false, token: x}
              webhook: {enabled: true, home_channel: {chat_id: 1, name: Ops, thread_id: 2}}
              signal: {api_key: "${NOBODY_SET_IT}"}
            gateway: {namespace: mine, write_sessions_json: false, expiry_first_pass: 1,
              expiry_interval: 2.5, finalize_turn: false, finalize_timeout: 3,
              agent_cache_size: 4, agent_cache_ttl: 5, mailbox_limit: 6, keep_days: 7}
            agent: {gateway_timeout: 0, gateway_timeout_warning: 0, gateway_notify_interval: 0,
              restart_drain_timeout: 0, gateway_auto_continue_freshness: -1}
            display: {busy_input_mode: queue, busy_ack_enabled: 0}
            privacy: {redact_pii: true}
            """,
            TELEGRAM="t",
        )
    )
    policy = SessionResetPolicy("daily", 5, 90, False, ("webhook", "email"), "Asia/Tokyo")
    assert config == GatewayConfig(
        reset_policy=policy,
        reset_by_type={
            "dm": {"mode": "idle"},
            "thread": {"timezone": "UTC", "notify_exclude_platforms": ()},
        },
        reset_by_platform={
            "telegram": {
                "mode": "none",
                "at_hour": 6,
                "idle_minutes": 30,
                "notify": True,
                "notify_exclude_platforms": ("sms", "email"),
            },
            "slack": {},
            "webhook": {},
            "signal": {},
        },
        group_sessions_per_user=False,
        thread_sessions_per_user=True,
        namespace="mine",
        session_store_max_age_days=7,
        auto_continue_freshness=-1,
        turn_timeout=0,
        turn_warning=0,
        notify_interval=0,
        drain_timeout=0,
        busy_input_mode="queue",
        busy_ack_enabled=False,
        redact_pii=True,
        connected_platforms=("telegram", "webhook"),
        home_channels={
            "telegram": HomeChannel("-100123"),
            "webhook": HomeChannel("1", "Ops", "2"),
        },
        write_sessions_json=False,
        expiry_first_pass=1,
        expiry_interval=2.5,
        finalize_turn=False,
        finalize_timeout=3,
        agent_cache_size=4,
        agent_cache_ttl=5,
        mailbox_limit=6,
        keep_days=7,
    )


def test_a_platform_wins_over_a_type_and_a_type_over_the_rest(load: Load) -> None:
    by_type = "session_reset: {at_hour: 6, by_type: {dm: {mode: idle, idle_minutes: 5}}}\n"
    config = configured(load(by_type + "platforms: {telegram: {session_reset: {mode: none}}}"))
    assert config.get_reset_policy("telegram", "dm") == SessionResetPolicy("none", 6, 5)
    config = configured(load(by_type))
    assert config.get_reset_policy("telegram", "dm") == SessionResetPolicy("idle", 6, 5)
    assert config.get_reset_policy("telegram", "group") == SessionResetPolicy(at_hour=6)


def test_variables_in_any_value(load: Load) -> None:
    text = """
        session_reset: {mode: "${MODE}", idle_minutes: "${MIN}"}
        platforms: {matrix: {token: "${T}", homeserver: "https://${HOST}", rooms: ["${R}", b],
          nested: {secret: "${T}", absent: "${ABSENT}"}}}
    """
    settings = load(text, MODE="idle", MIN="30", T="hunter2", HOST="m.org", R="!r")
    assert configured(settings).get_reset_policy() == SessionResetPolicy("idle", idle_minutes=30)
    platform = settings.platforms["matrix"]
    assert platform.token == "hunter2"
    assert dict(platform.extra) == {
        "homeserver": "https://m.org",
        "rooms": ("!r", "b"),
        "nested": {"secret": "hunter2", "absent": None},
    }
    assert hash(settings)
    assert "hunter2" not in repr(settings)
    assert "m.org" in repr(settings)


@pytest.mark.parametrize(
    ("value", "environ"),
    [
        ("25", {}),
        ("-4", {}),
        ("soon", {}),
        ('"${MIN}"', {}),
        ('"${MIN}"', {"MIN": "x"}),
        ("[]", {}),
    ],
)
@pytest.mark.parametrize(
    "place",
    [
        "session_reset: {X}",
        "session_reset: {by_type: {group: {X}}}",
        "platforms: {telegram: {session_reset: {X}}}",
    ],
)
@pytest.mark.parametrize("key", ["at_hour", "idle_minutes"])
def test_a_wrong_number_is_a_warning_and_the_default(
    load: Load, key: str, place: str, value: str, environ: dict[str, str]
) -> None:
    if (key, value) == ("idle_minutes", "25"):
        value = "0"
    settings = load("# 1\n" + place.replace("X", f"{key}: {value}"), **environ)
    (warning,) = settings.warnings
    assert warning.startswith(f"{settings.home / 'config.yaml'}, line 2: ")
    assert f".{key} " in warning
    assert warning.endswith("the default is used.")
    config = GatewayConfig.from_settings(settings)
    assert config.get_reset_policy("telegram", "group") == SessionResetPolicy()


def test_a_wrong_number_in_an_override_leaves_what_is_more_general(load: Load) -> None:
    text = "session_reset: {at_hour: 6, by_type: {dm: {at_hour: 24}}}"
    config = GatewayConfig.from_settings(load(text))
    assert config.get_reset_policy(None, "dm") == SessionResetPolicy(at_hour=6)


def test_the_documented_variables_win_over_the_file(load: Load) -> None:
    settings = load(
        "session_reset: {at_hour: 6}", SESSION_RESET_HOUR="7", SESSION_IDLE_MINUTES="junk"
    )
    policy = GatewayConfig.from_settings(settings).get_reset_policy()
    assert policy == SessionResetPolicy(at_hour=7)
    (warning,) = settings.warnings
    assert warning.startswith(
        'environment: session_reset.idle_minutes is "junk" (from SESSION_IDLE'
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "session_reset: {mode: nightly}",
            'session_reset.mode is "nightly"; allowed: none, idle, daily, both.',
        ),
        (
            "session_reset: {by_type: {dm: {mode: never}}}",
            'session_reset.by_type.dm.mode is "never"; allowed: none, idle, daily, both.',
        ),
        (
            "platforms: {telegram: {session_reset: {mode: dayly}}}",
            (
                'platforms.telegram.session_reset.mode is "dayly"; allowed: none, idle, daily, '
                "both. Did you mean daily?"
            ),
        ),
        ("session_reset: {timezone: Mars}", 'session_reset.timezone is "Mars"; allowed: the name'),
        ("session_reset: {notify: maybe}", 'session_reset.notify is "maybe"; allowed: true or'),
        (
            "session_reset: {notify_exclude_platforms: [a, {b: c}]}",
            "session_reset.notify_exclude_platforms is a section; allowed: a list of names",
        ),
        (
            "session_reset: {notify_exclude_platforms: [a b]}",
            'session_reset.notify_exclude_platforms is "a b"; allowed: a list of names',
        ),
        ("group_sessions_per_user: perhaps", 'group_sessions_per_user is "perhaps"'),
        ("agent: {gateway_timeout: -1}", 'agent.gateway_timeout is "-1"; allowed: a number of sec'),
        ("platforms: [telegram]", "platforms is a list, but it must be a section"),
        (
            "platforms: {telegram: here}",
            (
                "platforms.telegram is a single value, but it must be a section with keys, "
                "like platforms.telegram.enabled."
            ),
        ),
        ("platforms: {a: {}, A: {}}", "platforms.a appears twice"),
        ("platforms: {a: {colour: '${'}}", "platforms.a.colour contains a ${ that is not"),
        ("gateway: {keep_days: 0}", 'gateway.keep_days is "0"'),
        ("gateway: {mailbox_limit: 0}", 'gateway.mailbox_limit is "0"'),
    ],
)
def test_what_is_wrong_is_named(load: Load, text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(text)
    (line,) = str(caught.value).splitlines()[1:]
    assert line.startswith(f"  line 1: {problem}")


def test_all_problems_are_told_at_once(load: Load) -> None:
    with pytest.raises(ConfigError) as caught:
        load(
            "platforms:\n  a: {enabled: x}\n  b: {enabled: y, k: '${'}\nsession_reset: {mode: z}\n"
        )
    assert [line.split(":")[0] for line in str(caught.value).splitlines()[1:]] == [
        "  line 2",
        "  line 3",
        "  line 3",
        "  line 4",
    ]


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        (
            "session_reset: {idle_minute: 5}",
            (
                "session_reset.idle_minute is not a known key and is ignored; did you mean "
                "session_reset.idle_minutes?"
            ),
        ),
        (
            "session_reset: {by_type: {groups: {mode: none}}}",
            (
                "session_reset.by_type.groups is not a known key and is ignored; did you mean "
                "session_reset.by_type.group?"
            ),
        ),
        (
            "session_reset: {by_type: {dm: {hour: 3}}}",
            (
                "session_reset.by_type.dm.hour is not a known key and is ignored; did you mean "
                "session_reset.by_type.dm.at_hour?"
            ),
        ),
        (
            "platforms: {telegramm: {}}",
            ("platforms.telegramm is not a known platform; did you mean platforms.telegram?"),
        ),
        (
            "platforms: {telegram: {tokn: x}}",
            (
                "platforms.telegram.tokn is not a known key and is ignored; did you mean "
                "platforms.telegram.token?"
            ),
        ),
        (
            "platforms: {'a b': {}}",
            (
                "platforms.a b is ignored because it is not a valid name; allowed: a name of "
                "lower-case letters, digits, - and _"
            ),
        ),
        (
            "platforms.telegram.token: x",
            (
                "platforms.telegram.token is ignored because its name is written with dots; "
                "nest it: platforms > telegram > token"
            ),
        ),
    ],
)
def test_what_looks_like_a_mistake_is_mentioned(load: Load, text: str, warning: str) -> None:
    settings = load(text)
    assert settings.warnings == (f"{settings.home / 'config.yaml'}, line 1: {warning}",)


@pytest.mark.parametrize(
    "text",
    [
        "agent: {max_turns: 90, disabled_toolsets: []}",
        "gateway: {streaming: true}",
        "privacy: {other: 1}",
        "platforms: {smoke-signal: {colour: grey, extra: {hill: 7}}}",
        "platforms:",
        "platforms: {telegram: }",
    ],
)
def test_keys_of_other_programs_are_not_mentioned(load: Load, text: str) -> None:
    assert load(text).warnings == ()


def test_keys_of_an_adapter_are_kept(load: Load) -> None:
    platforms = load("platforms: {X: {colour: grey, extra: {hill: 7, colour: red}}}").platforms
    assert platforms["x"].extra == {"colour": "grey", "hill": "7"}
    assert not platforms["x"].is_enabled
    assert "x" in platforms
    assert len(platforms) == 1


def test_the_section_api_configures_the_platform_api_server(load: Load) -> None:
    config = configured(
        load(
            """
            platforms:
              api: {token: secret, home_channel: main, session_reset: {mode: none}}
            """
        )
    )
    assert config.connected_platforms == ("api_server",)
    assert config.home_channels["api_server"].chat_id == "main"
    assert config.get_reset_policy("api_server", "dm").mode == "none"
