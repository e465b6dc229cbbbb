import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hermes_sessions import config
from hermes_sessions.config import (
    DisplaySettings,
    ModelSettings,
    MySQLSettings,
    PostgreSQLSettings,
    SessionDBSettings,
    SessionsSettings,
    Settings,
    SQLiteSettings,
    default_settings,
    load_settings,
)
from hermes_sessions.config.settings import (
    BackupsSettings,
    RepairSettings,
    RetentionLimits,
    RetentionSettings,
)
from hermes_sessions.errors import ConfigError, HermesSessionsError
from hermes_sessions.model.price import Price

Load = Callable[..., Settings]

UNLIMITED = RetentionLimits(max_age_days=None, max_count=None, max_bytes=None)


@pytest.fixture
def load(tmp_path: Path) -> Load:
    def load(text: str, **environ: str) -> Settings:
        (tmp_path / "config.yaml").write_text(text, encoding="utf-8")
        return load_settings(tmp_path, {"HOME": "/home/ada"} | environ)

    return load


@pytest.fixture
def problems(load: Load) -> Callable[..., list[str]]:
    def problems(text: str, **environ: str) -> list[str]:
        with pytest.raises(ConfigError) as caught:
            load(text, **environ)
        return str(caught.value).splitlines()[1:]

    return problems


SERVER_DEFAULTS: dict[str, Any] = {
    "dsn": None,
    "host": None,
    "user": None,
    "password": None,
    "database": None,
    "max_connections": 10,
    "lock_timeout": 16.0,
    "statement_timeout": 120.0,
}


def of_the_gateway(settings: Settings) -> dict[str, Any]:
    """What test_gateway_keys.py is about."""
    names = """session_reset platforms group_sessions_per_user thread_sessions_per_user
        session_store_max_age_days gateway agent privacy streaming"""
    return {name: getattr(settings, name) for name in names.split()}


def test_defaults(tmp_path: Path) -> None:
    settings = load_settings(tmp_path, {})
    assert settings == Settings(
        home=tmp_path,
        warnings=(),
        sessiondb=SessionDBSettings(
            provider="sqlite",
            dsn=None,
            max_message_bytes=8388608,
            sqlite=SQLiteSettings(
                path=tmp_path / "state.db", durability="full", lock_timeout=16.0, journal="auto"
            ),
            postgresql=PostgreSQLSettings(
                **SERVER_DEFAULTS, port=5432, schema="public", synchronous_commit="server"
            ),
            mysql=MySQLSettings(**SERVER_DEFAULTS, port=3306, ssl_ca=None),
        ),
        model=ModelSettings(
            base_url=None,
            api_key=None,
            default=None,
            context_length=None,
            connect_timeout=10.0,
            first_byte_timeout=180.0,
            piece_timeout=180.0,
            retry_time=60.0,
            prices=(),
        ),
        sessions=SessionsSettings(trash_days=30, auto_prune=False, retention_days=90),
        repair=RepairSettings(keep=3),
        retention=RetentionSettings(
            close_after_days=30, human=UNLIMITED, cron=UNLIMITED, subagent=UNLIMITED, api=UNLIMITED
        ),
        backups=BackupsSettings(
            directory=tmp_path / "backups",
            keep=10,
            max_age_days=None,
            max_bytes=None,
            before_migration=True,
            before_migration_max_bytes=None,
        ),
        display=DisplaySettings(
            resume_display="full", busy_input_mode="interrupt", busy_ack_enabled=True
        ),
        **of_the_gateway(settings),
    )
    assert settings == default_settings(tmp_path)


def test_every_key_can_be_set(load: Load, tmp_path: Path) -> None:
    settings = load(
        """
        sessiondb:
          provider: postgresql
          max_message_bytes: 1MB
          sqlite:
            path: data/mine.db
            durability: normal
            lock_timeout: 2.5
            journal: delete
          dsn: acme://host/x
          postgresql:
            dsn: postgresql://db/x
            host: db
            port: 6432
            user: ada
            password: ${WORD}
            database: x
            max_connections: 3
            lock_timeout: 4
            statement_timeout: 5
            schema: mine
            synchronous_commit: remote_write
          mysql: {dsn: "mysql://db/x", host: db, port: 3307, user: ada, password: a, database: x,
            max_connections: 3, lock_timeout: 4, statement_timeout: 5, ssl_ca: /ca.pem}
        model: {base_url: "http://gpu:8080/v1", api_key: "${WORD}", default: big,
          context_length: 32000, connect_timeout: 1, first_byte_timeout: 2, piece_timeout: 3,
          retry_time: 4, prices: {big: "1 in, 2 out", "x:8b": "$0.5 in, 1.5 out, 0.05 cached"}}
        sessions: {trash_days: 7, auto_prune: yes, retention_days: 60}
        repair: {keep: 5}
        retention: {close_after_days: 14, human: {max_age_days: 1, max_count: 2, max_bytes: 3KB},
          cron: {max_age_days: 4, max_count: 5, max_bytes: 6},
          subagent: {max_age_days: 7, max_count: 8, max_bytes: 9},
          api: {max_age_days: 10, max_count: 11, max_bytes: 12}}
        backups: {directory: aside, keep: 3, max_age_days: 90, max_bytes: 1GB,
          before_migration: no, before_migration_max_bytes: 1MB}
        display:
          resume_display: minimal
          busy_input_mode: Steer
          busy_ack_enabled: off
        """,
        WORD="secret",
    )
    server: dict[str, Any] = {
        "host": "db",
        "user": "ada",
        "database": "x",
        "max_connections": 3,
        "lock_timeout": 4.0,
        "statement_timeout": 5.0,
    }
    assert "secret" not in repr(settings)
    assert settings == Settings(
        home=tmp_path,
        warnings=(),
        sessiondb=SessionDBSettings(
            provider="postgresql",
            dsn="acme://host/x",
            max_message_bytes=1024**2,
            sqlite=SQLiteSettings(
                path=tmp_path / "data" / "mine.db",
                durability="normal",
                lock_timeout=2.5,
                journal="delete",
            ),
            postgresql=PostgreSQLSettings(
                **server,
                dsn="postgresql://db/x",
                password="secret",
                port=6432,
                schema="mine",
                synchronous_commit="remote_write",
            ),
            mysql=MySQLSettings(
                **server, dsn="mysql://db/x", password="a", port=3307, ssl_ca="/ca.pem"
            ),
        ),
        model=ModelSettings(
            base_url="http://gpu:8080/v1",
            api_key="secret",
            default="big",
            context_length=32000,
            connect_timeout=1.0,
            first_byte_timeout=2.0,
            piece_timeout=3.0,
            retry_time=4.0,
            prices=(("big", Price(1.0, 2.0)), ("x:8b", Price(0.5, 1.5, 0.05))),
        ),
        sessions=SessionsSettings(trash_days=7, auto_prune=True, retention_days=60),
        repair=RepairSettings(keep=5),
        retention=RetentionSettings(
            close_after_days=14,
            human=RetentionLimits(max_age_days=1, max_count=2, max_bytes=3 * 1024),
            cron=RetentionLimits(max_age_days=4, max_count=5, max_bytes=6),
            subagent=RetentionLimits(max_age_days=7, max_count=8, max_bytes=9),
            api=RetentionLimits(max_age_days=10, max_count=11, max_bytes=12),
        ),
        backups=BackupsSettings(
            directory=tmp_path / "aside",
            keep=3,
            max_age_days=90,
            max_bytes=1024**3,
            before_migration=False,
            before_migration_max_bytes=1024**2,
        ),
        display=DisplaySettings(
            resume_display="minimal", busy_input_mode="steer", busy_ack_enabled=False
        ),
        **of_the_gateway(settings),
    )


@pytest.mark.parametrize("text", ["", "# nothing\n", "sessiondb:\n", "sessiondb: {sqlite: ~}\n"])
def test_what_says_nothing_changes_nothing(load: Load, tmp_path: Path, text: str) -> None:
    assert load(text) == default_settings(tmp_path)


def test_null_means_the_default(load: Load, tmp_path: Path) -> None:
    text = "sessiondb: {provider: , sqlite: {path: ~, durability: null}}\nsessions: {trash_days: }"
    assert load(text) == default_settings(tmp_path)


def test_an_imported_store_is_the_default(load: Load, tmp_path: Path) -> None:
    (tmp_path / "hermes-sessions.db").touch()
    assert load("").sessiondb.sqlite.path == tmp_path / "hermes-sessions.db"
    assert load("sessiondb: {sqlite: {path: state.db}}").sessiondb.sqlite.path == (
        tmp_path / "state.db"
    )


@pytest.mark.parametrize(
    ("provider", "has_file", "port"),
    [("sqlite", True, None), ("postgresql", False, 5432), ("mysql", False, 3306)],
)
def test_the_configured_store_is_a_file_or_on_a_server(
    load: Load, tmp_path: Path, provider: str, has_file: bool, port: int | None
) -> None:
    found = load(f"sessiondb:\n  provider: {provider}\n  sqlite: {{path: a.db}}\n").sessiondb
    assert found.store_file == (tmp_path / "a.db" if has_file else None)
    assert (found.server.port if found.server else None) == port


@pytest.mark.parametrize("provider", ["dsn", "server", "theirs"])
def test_a_provider_of_a_plug_in_has_no_section(provider: str) -> None:
    found = SessionDBSettings(
        provider=provider,
        dsn="theirs://host",
        sqlite=SQLiteSettings(path=Path("a.db")),
    )
    assert (found.store_file, found.server) == (None, None)


def test_home_comes_from_the_environment(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("sessions: {trash_days: 1}\n", encoding="utf-8")
    settings = load_settings(environ={"HERMES_HOME": str(tmp_path)})
    assert (settings.home, settings.sessions.trash_days) == (tmp_path, 1)


def test_environment_is_the_one_of_the_process_when_none_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    monkeypatch.setenv("TEST_TRASH_DAYS", "5")
    (tmp_path / "config.yaml").write_text("sessions: {trash_days: '${TEST_TRASH_DAYS}'}\n")
    assert load_settings().sessions.trash_days == 5


def test_relative_home_becomes_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert load_settings("here", {}).home == tmp_path / "here"


def test_nothing_is_created(tmp_path: Path) -> None:
    load_settings(tmp_path / "none", {})
    assert list(tmp_path.iterdir()) == []


def test_variables_are_substituted(load: Load) -> None:
    settings = load(
        """
        sessiondb:
          provider: ${DB:-mysql}
          max_message_bytes: ${SIZE}KB
          sqlite:
            path: "${DATA}/$${literal}/${NAME:-store}.db"
            lock_timeout: '${WAIT}'
        """,
        SIZE="64",
        DATA="~/data",
        WAIT="3",
    )
    assert settings.sessiondb.provider == "mysql"
    assert settings.sessiondb.max_message_bytes == 65536
    assert settings.sessiondb.sqlite.path == Path("/home/ada/data/${literal}/store.db")
    assert settings.sessiondb.sqlite.lock_timeout == 3.0


def test_variables_of_other_programs_are_left_alone(load: Load, tmp_path: Path) -> None:
    text = "model: {api_key: '${UNSET_ELSEWHERE}'}\nother: '${'\ngateway: {dsn: ${X}}"
    with pytest.raises(ConfigError, match="in quotes"):
        load(text)
    assert load(text.replace("${X}", "'${X}'")) == default_settings(tmp_path)


def test_the_store_opens_without_the_key_of_a_model(load: Load) -> None:
    settings = load(
        "model: {base_url: 'http://${GPU}/v1', api_key: '${UNSET_KEY}', context_length: ''}"
    )
    assert settings.model.base_url is None
    assert settings.model.api_key is None
    assert settings.model.context_length is None
    with pytest.raises(ConfigError, match="api_key contains a"):
        load("model:\n  api_key: ${unclosed\n")


def test_a_model_may_be_given_by_its_name_alone(load: Load, tmp_path: Path) -> None:
    assert load("model: small-one\n").model.default == "small-one"
    assert load("model:\n") == default_settings(tmp_path)
    assert load("model: {provider: other, default: x}\n").warnings == ()


@pytest.mark.parametrize("price", ["free", "1 in", "1 in, 2 out, 3 in", "-1 in, 2 out", "[1, 2]"])
def test_a_price_that_is_none(problems: Callable[..., list[str]], price: str) -> None:
    (problem,) = problems(f"model:\n  prices:\n    big: {price}\n")
    assert problem.startswith("  line 2: model.prices.big is ")
    assert "allowed: a price like `0.15 in, 0.60 out, 0.075 cached`" in problem


def test_prices_need_names(problems: Callable[..., list[str]]) -> None:
    (problem,) = problems("model:\n  prices: 1 in, 2 out\n")
    assert "allowed: for each model, a price like" in problem


def test_unset_variable_names_key_and_variable(problems: Callable[..., list[str]]) -> None:
    (problem,) = problems("sessiondb:\n  sqlite:\n    path: ${STORE_DIR}/x.db\n")
    assert problem.startswith("  line 3: sessiondb.sqlite.path refers to STORE_DIR, not set")
    assert "${STORE_DIR:-default}" in problem


def test_wrong_value_is_answered_with_key_value_allowed_and_remedy(
    problems: Callable[..., list[str]],
) -> None:
    assert problems("sessiondb:\n  provider: postgres\n") == [
        (
            '  line 2: sessiondb.provider is "postgres"; allowed: sqlite, postgresql, mysql. '
            "Did you mean postgresql? Change it, or remove the key to get the default (sqlite)."
        )
    ]


def test_every_problem_is_reported_at_once_in_file_order(
    problems: Callable[..., list[str]],
) -> None:
    found = problems(
        """display: [a]
sessiondb:
  max_message_bytes: 12
  sqlite:
    lock_timeout: soon
    journal: {a: b}
    path: ${NOWHERE}
  provider: ""
  sqlite: {}
sessions:
  trash_days: -1
  trash_days: 3
"""
    )
    assert [problem.split(": ")[:2] for problem in found] == [
        ["  line 1", ("display is a list, but it must be a section with keys, like "
         "display.resume_display. Write the keys below it, indented.")],
        ["  line 3", 'sessiondb.max_message_bytes is "12"; allowed'],
        ["  line 5", 'sessiondb.sqlite.lock_timeout is "soon"; allowed'],
        ["  line 6", "sessiondb.sqlite.journal is a section; allowed"],
        ["  line 7", ("sessiondb.sqlite.path refers to NOWHERE, not set in the environment. "
         "Set it, or write a default, like ${NOWHERE:-default}.")],
        ["  line 8", 'sessiondb.provider is ""; allowed'],
        ["  line 9", "sessiondb.sqlite appears twice, first on line 4. Remove one of them."],
        ["  line 11", 'sessions.trash_days is "-1"; allowed'],
        ["  line 12", "sessions.trash_days appears twice, first on line 11. Remove one of them."],
    ]  # fmt: skip


def test_duplicates_of_other_programs_are_their_business(load: Load, tmp_path: Path) -> None:
    text = "tools: 1\ntools: 2\ndisplay: {skin: a, skin: b}\nmodel: {a: 1, a: 2}\n"
    assert load(text) == default_settings(tmp_path)


def test_a_scalar_in_place_of_a_section_does_not_show_itself(
    problems: Callable[..., list[str]],
) -> None:
    (problem,) = problems("sessiondb: mysql://ada:hunter2@db/sessions\n")
    assert "sessiondb is a single value" in problem
    assert "hunter2" not in problem


@pytest.mark.parametrize(
    "value",
    [
        "mysql://ada:hunter2@db/sessions",
        "mysql://ada:/@hunter2@db/sessions",
        "postgresql://db/sessions?user=ada&password=hunter2&x=1",
        "host=db Password = hunter2",
    ],
)
def test_credentials_in_a_value_are_not_shown(
    problems: Callable[..., list[str]], value: str
) -> None:
    (problem,) = problems(f"sessiondb: {{provider: '{value}'}}\n")
    assert f'sessiondb.provider is "{value[:5]}' in problem
    assert "..." in problem
    assert "hunter2" not in problem


def test_value_of_a_secret_variable_is_not_shown(problems: Callable[..., list[str]]) -> None:
    (problem,) = problems("sessiondb: {provider: '${DB_PASSWORD}'}", DB_PASSWORD="hunter2")
    assert "sessiondb.provider is (hidden) (from DB_PASSWORD); allowed: sqlite" in problem
    assert "hunter2" not in problem


def test_value_of_another_variable_is_shown_with_its_name(
    problems: Callable[..., list[str]],
) -> None:
    (problem,) = problems("sessiondb: {provider: '${DB_KIND}'}", DB_KIND="oracle")
    assert 'sessiondb.provider is "oracle" (from DB_KIND); allowed' in problem


def test_long_and_unprintable_values_are_shown_short(problems: Callable[..., list[str]]) -> None:
    (problem,) = problems('sessions: {trash_days: "\\e[31m' + "9" * 500 + '"}')
    assert 'sessions.trash_days is "?[31m999' in problem
    assert len(problem) < 250


def test_home_of_an_unknown_user_in_a_path_names_the_key(
    problems: Callable[..., list[str]],
) -> None:
    (problem,) = problems("sessiondb: {sqlite: {path: ~no-such-user-here/x.db}}")
    assert problem.startswith("  line 1: sessiondb.sqlite.path: '~no-such-user-here'")


def test_error_is_caught_as_value_error_and_as_ours(load: Load, tmp_path: Path) -> None:
    for error in (ValueError, HermesSessionsError):
        with pytest.raises(error, match=str(tmp_path / "config.yaml")):
            load("sessions: {trash_days: x}")


def test_home_that_is_a_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "home").touch()
    with pytest.raises(ConfigError, match="is not a directory"):
        load_settings(tmp_path / "home", {})


def test_merged_sections_count(load: Load) -> None:
    settings = load("x: &x {durability: normal}\nsessiondb: {sqlite: {<<: *x, journal: wal}}\n")
    assert settings.sessiondb.sqlite.durability == "normal"
    assert settings.sessiondb.sqlite.journal == "wal"


def test_settings_are_frozen_and_hashable(tmp_path: Path) -> None:
    settings = load_settings(tmp_path, {})
    with pytest.raises(AttributeError, match="cannot be changed"):
        settings.sessiondb.provider = "mysql"  # type: ignore[misc]
    with pytest.raises(AttributeError, match="cannot be removed"):
        del settings.sessiondb
    assert {settings, default_settings(tmp_path)} == {settings}


def test_sections_have_all_their_values_and_no_others() -> None:
    assert DisplaySettings(busy_ack_enabled=False).resume_display == "full"
    with pytest.raises(TypeError, match="missing or unknown: path"):
        SQLiteSettings()  # its default depends on the home directory
    with pytest.raises(TypeError, match="missing or unknown: colour"):
        SessionsSettings(trash_days=1, auto_prune=False, retention_days=1, colour=True)  # type: ignore[call-arg]


def test_exported_names_exist() -> None:
    assert dir(config) == sorted(config.__all__)
    assert all(getattr(config, name) is not None for name in config.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        config.nothing  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("import hermes_sessions.config", {"yaml", "difflib", "dataclasses", "pathlib"}),
        ("from hermes_sessions.config import hermes_home", {"yaml", "difflib", "dataclasses"}),
        (
            "from hermes_sessions.config import load_settings; load_settings(sys.argv[1], {})",
            {"yaml", "difflib", "dataclasses", "hermes_sessions.config.resolver"},
        ),
    ],
)
def test_nothing_is_imported_before_it_is_needed(
    tmp_path: Path, code: str, absent: set[str]
) -> None:
    # Without start-up files and with the package above left empty, only config's own imports count.
    package = Path(config.__file__).parents[1]
    script = (
        "import sys, types; above = types.ModuleType('hermes_sessions'); "
        f"above.__path__ = [{str(package)!r}]; sys.modules['hermes_sessions'] = above; "
        f"{code}; print(*sys.modules)"
    )
    result = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert not absent & set(result.stdout.split())
