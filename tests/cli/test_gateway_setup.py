"""`hermes gateway setup`, in a terminal and in scripts, for every platform."""

from __future__ import annotations

import shlex
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from hermes_sessions.config import load_settings
from hermes_sessions.config.env_file import variables_in
from hermes_sessions.gateway.platforms import packages, registry
from hermes_sessions.gateway.platforms.registry import find_spec, known_platforms
from hermes_sessions_testing.fake_servers.discord.server import DiscordServer
from hermes_sessions_testing.fake_servers.slack.server import SlackServer
from tests.cli import platform_servers
from tests.cli.harness import Hermes, Result
from tests.cli.platform_servers import PLACES, WRONG, Place
from tests.cli.terminal import Terminal
from tests.gateway.platforms.matrix.conftest import people, synapse  # noqa: F401 - fixtures
from tests.gateway.platforms.matrix.synapse_platform import People


@pytest.fixture(params=sorted([*PLACES, "matrix"]))
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    if request.param == "matrix":
        yield matrix(request.getfixturevalue("people"))
        return
    with PLACES[request.param]() as made:  # type: ignore[attr-defined]
        yield made


def matrix(people: People) -> Place:  # noqa: F811 - the fixture, or what it gave
    bot = people["hermes"]
    url = people.synapse.url
    return Place(
        "matrix",
        (
            ("Homeserver", url),
            ("Access token", ""),
            ("User", bot.user_id),
            ("Password", bot.password),
        ),
        {"MATRIX_PASSWORD": bot.password},
        (),
        {"homeserver": url, "user": bot.user_id, "password": "${MATRIX_PASSWORD}"},
        bot.user_id,
        people["anna"].user_id,
        "!room:hermes.test",
    )


def section(hermes: Hermes, name: str) -> dict[str, Any]:
    text = (hermes.home / "config.yaml").read_text(encoding="utf-8")
    found: dict[str, Any] = yaml.safe_load(text)["platforms"][name]
    return found


def kept(hermes: Hermes) -> dict[str, str]:
    return variables_in((hermes.home / ".env").read_text(encoding="utf-8"))


def given(place: Place) -> list[str]:
    """Return the options for values that are not secret and would be typed."""
    questions = {question.name: question for question in find_spec(place.name).questions}
    options = [*place.options]
    for name, answer in place.typed:
        if not questions[name].is_secret and answer:
            options += ["--set", f"{questions[name].key}={answer}"]
    return options


def nothing_written(hermes: Hermes) -> bool:
    return not hermes.home.exists() or not list(hermes.home.iterdir())


@pytest.fixture
def hermes(short_path: Path) -> Hermes:
    """The command on a home whose path leaves room for a socket's name."""
    return Hermes(short_path / "home")


@pytest.mark.slow
def test_setup_on_a_terminal(hermes: Hermes, place: Place) -> None:
    with Terminal(hermes, "gateway", "setup", place.name, *place.options, columns=200) as terminal:
        for name, answer in place.typed:
            wait_for_prompt(terminal, name)
            terminal.keys(f"{answer}\n")
        if place.anna is not None:
            terminal.wait_for("User ids, separated by commas [none]: ")
            terminal.keys(f"{place.anna}, {place.anna}\n")
            terminal.wait_for("Send pairing codes? [Y/n] ")
            terminal.keys("n\n")
            terminal.wait_for("Home channel [none]: ")
            terminal.keys(f"{place.home}\n")
        terminal.wait_for("config.yaml? [y/N] ")
        terminal.keys("y\n")
        assert terminal.finish() == 0, terminal.screen

    assert place.who in terminal.screen
    for secret in filter(None, place.secrets.values()):
        assert secret not in terminal.screen
    expected = {"enabled": True, **place.section}
    if place.anna is not None:
        expected |= {"allowed_users": [place.anna], "pairing": False, "home_channel": place.home}
    assert section(hermes, place.name) == expected
    assert stat.S_IMODE((hermes.home / "config.yaml").stat().st_mode) == 0o600
    if place.secrets:
        assert stat.S_IMODE((hermes.home / ".env").stat().st_mode) == 0o600
        found = kept(hermes)
        assert found.keys() == place.secrets.keys()
        assert all(
            found[name] == secret or secret is None for name, secret in place.secrets.items()
        )
    assert load_settings(hermes.home, {}).platforms[place.name].is_enabled


def wait_for_prompt(terminal: Terminal, name: str) -> None:
    """Wait until the last line asks for it: the name is also in help texts."""
    while not terminal.screen.rsplit("\n", 1)[-1].startswith(name) or not terminal.screen.endswith(
        ": "
    ):
        assert terminal._read(), terminal.screen


def script(hermes: Hermes, place: Place, *options: str, **environ: str) -> Result:
    known = {
        name: value or "0123456789abcdef0123456789abcdef" for name, value in place.secrets.items()
    }
    return hermes.call(
        *("gateway", "setup", place.name, "--yes", "--json", *given(place), *options),
        environ={**known, **environ},
    )


def test_a_script_sets_a_platform_up(hermes: Hermes, place: Place) -> None:
    allowed = ["--allow", place.anna, "--home-channel", place.home] if place.anna else []

    result = script(hermes, place, *filter(None, allowed))

    assert result.code == 0, result.err
    assert result.json["platform"] == place.name
    assert result.json["checked"]
    assert place.who in result.json["who"]
    # What is in the environment need not be kept elsewhere.
    assert not (hermes.home / ".env").exists()
    assert result.json["variables"] == []
    expected = {"enabled": True, **place.section}
    if place.anna is not None:
        expected |= {"allowed_users": [place.anna], "home_channel": place.home}
    assert {key: str(value) for key, value in section(hermes, place.name).items()} == {
        key: str(value) for key, value in expected.items()
    }


@pytest.mark.parametrize("name", sorted(WRONG))
def test_a_wrong_token_is_told_and_nothing_is_written(
    hermes: Hermes, name: str, request: pytest.FixtureRequest
) -> None:
    if name == "matrix":
        found = matrix(request.getfixturevalue("people"))
        options, environ = ["--set", f"homeserver={found.section['homeserver']}"], {}
        result = hermes.call(
            *("gateway", "setup", name, "--yes", *options, "--token-from-env", "MINE"),
            environ={**environ, "MINE": WRONG[name]},
        )
    else:
        with PLACES[name]() as place:  # type: ignore[attr-defined]
            result = script(hermes, place, "--token-from-env", "MINE", MINE=WRONG[name])

    assert result.code != 0
    assert "Nothing was written." in result.err
    assert WRONG[name] not in result.err + result.out
    assert nothing_written(hermes)


def test_discord_without_the_intent_is_refused(hermes: Hermes) -> None:
    server = DiscordServer()
    server.forbid_intents(1 << 15)
    place = Place("discord", secrets={"DISCORD_BOT_TOKEN": server.token})
    try:
        result = script(hermes, place, "--set", f"base_url={server.base_url}")
    finally:
        server.close()

    assert result.code != 0
    assert "may not read messages" in result.err
    assert nothing_written(hermes)


def test_a_check_leaves_no_session_on_matrix(
    hermes: Hermes,
    people: People,  # noqa: F811 - fixture
) -> None:
    bot = people["hermes"]

    def devices() -> set[str]:
        answer = httpx.get(
            f"{people.synapse.url}/_matrix/client/v3/devices",
            headers={"Authorization": f"Bearer {bot.token}"},
        )
        return {device["device_id"] for device in answer.json()["devices"]}

    before = devices()
    assert script(hermes, matrix(people)).code == 0

    assert devices() == before
    assert not (hermes.home / "gateway").exists()


def test_slack_is_set_up_for_the_events_api_and_back(hermes: Hermes) -> None:
    server = SlackServer(mode="events")
    events = Place(
        "slack",
        secrets={"SLACK_BOT_TOKEN": server.token, "SLACK_SIGNING_SECRET": server.signing_secret},
        options=("--set", f"base_url={server.base_url}"),
    )
    try:
        result = script(hermes, events)
    finally:
        server.close()
    assert result.code == 0, result.err
    assert any("Request URL" in note for note in result.json["notes"])
    assert section(hermes, "slack")["signing_secret"] == "${SLACK_SIGNING_SECRET}"

    with platform_servers.slack() as place:
        result = script(hermes, place, "--secret-from-env", "app_token=SLACK_APP_TOKEN")

    assert result.code == 0, result.err
    assert section(hermes, "slack")["app_token"] == "${SLACK_APP_TOKEN}"
    assert "signing_secret" not in section(hermes, "slack")


def test_a_port_that_is_taken_is_told(hermes: Hermes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = hermes.call("gateway", "setup", "api", "--yes", "--set", f"port={port}")
        unchecked = hermes.call(
            "gateway", "setup", "api", "--yes", "--no-check", "--set", f"port={port}"
        )

    assert refused.code != 0
    assert f"cannot listen on 127.0.0.1 port {port}" in refused.err
    assert unchecked.code == 0, unchecked.err
    assert "not checked" in unchecked.out
    assert len(kept(hermes)["HERMES_API_TOKEN"]) == 64


def test_an_unavailable_platform_is_reported(hermes: Hermes) -> None:
    place = Place("telegram", secrets={"TELEGRAM_BOT_TOKEN": "1:" + "x" * 35})
    result = script(hermes, place, "--set", "base_url=http://127.0.0.1:1")

    assert result.code != 0
    assert "Nothing was written." in result.err
    assert nothing_written(hermes)


def test_every_secret_can_be_in_a_variable_of_any_name(hermes: Hermes) -> None:
    with platform_servers.slack() as place:
        result = hermes.call(
            "gateway",
            "setup",
            "slack",
            "-y",
            "--pairing",
            "--token-from-env",
            "BOT",
            "--secret-from-env",
            "app_token=APP",
            "--allow",
            "U012ABCDEF",
            "--home-channel",
            "C012ABCDEF",
            "--set",
            f"base_url={place.section['base_url']}",
            environ={
                "BOT": str(place.secrets["SLACK_BOT_TOKEN"]),
                "APP": str(place.secrets["SLACK_APP_TOKEN"]),
            },
        )

    assert result.code == 0, result.err
    assert section(hermes, "slack") == {
        "enabled": True,
        "token": "${BOT}",
        "app_token": "${APP}",
        "base_url": place.section["base_url"],
        "pairing": True,
        "allowed_users": ["U012ABCDEF"],
        "home_channel": "C012ABCDEF",
    }


# ── what is there stays ───────────────────────────────────────────────────────────────────────


def test_comments_and_order_stay_and_the_file_is_kept(hermes: Hermes) -> None:
    hermes.home.mkdir()
    path = hermes.home / "config.yaml"
    text = (
        "# ours\nmodel:\n  default: x # small\n"
        "platforms:\n  # at home\n  local:\n    enabled: true\n"
    )
    path.write_text(text)
    (hermes.home / ".env").write_text("# keys\nOTHER=1\n")
    (hermes.home / ".env").chmod(0o644)

    with Terminal(hermes, "gateway", "setup", "api", "--no-check") as terminal:
        for name in ("Token", "Host", "Port"):
            terminal.wait_for(f"{name} [")
            terminal.keys("\n")
        terminal.wait_for("[y/N] ")
        terminal.keys("y\n")
        assert terminal.finish() == 0, terminal.screen

    assert path.read_text() == text + "  api:\n    enabled: true\n    token: ${HERMES_API_TOKEN}\n"
    (backup,) = hermes.home.glob("config.yaml.*.bak")
    assert backup.read_text() == text
    assert (hermes.home / ".env").read_text().startswith("# keys\nOTHER=1\nHERMES_API_TOKEN=")
    assert stat.S_IMODE((hermes.home / ".env").stat().st_mode) == 0o600


def test_a_second_setup_keeps_settings_that_are_not_given(hermes: Hermes) -> None:
    with platform_servers.telegram() as place:
        first = script(hermes, place, "--allow", "7", "--no-pairing")
        environ = {"TELEGRAM_BOT_TOKEN": str(place.secrets["TELEGRAM_BOT_TOKEN"])}
        again = hermes.call(
            *("gateway", "setup", "telegram", "--yes", "--allow", "8", "--home-channel", "7"),
            environ=environ,
        )

    assert (first.code, again.code) == (0, 0), again.err
    assert section(hermes, "telegram") == {
        "enabled": True,
        **place.section,
        "allowed_users": ["7", "8"],
        "pairing": False,
        "home_channel": "7",
    }


def test_no_at_the_end_writes_nothing(hermes: Hermes) -> None:
    with Terminal(hermes, "gateway", "setup", "local") as terminal:
        terminal.wait_for("[y/N] ")
        terminal.keys("n\n")
        assert terminal.finish() == 1

    assert "Nothing was written." in terminal.screen
    assert nothing_written(hermes)


def test_a_wrong_answer_can_be_given_again(hermes: Hermes) -> None:
    with (
        platform_servers.telegram() as place,
        Terminal(hermes, "gateway", "setup", "telegram", *place.options) as terminal,
    ):
        terminal.wait_for("Bot token: ")
        terminal.keys("no token\n")
        terminal.wait_for("Answer again? [y/N] ")
        terminal.keys("y\n")
        wait_for_prompt(terminal, "Bot token")
        terminal.keys(f"{place.secrets['TELEGRAM_BOT_TOKEN']}\n")
        terminal.wait_for(f"Connected as {place.who}")
        terminal.press_interrupt()
        assert terminal.finish() == 130

    assert "token is not valid; allowed: a bot token" in terminal.screen
    assert nothing_written(hermes)


def test_a_file_that_cannot_be_edited_is_left_alone(hermes: Hermes) -> None:
    hermes.home.mkdir()
    path = hermes.home / "config.yaml"
    path.write_text("platforms: {local: {enabled: false}}\n")

    result = hermes.call("gateway", "setup", "local", "--yes")

    assert result.code != 0
    assert "by hand:\nplatforms:\n  local:\n    enabled: true" in result.err
    assert path.read_text() == "platforms: {local: {enabled: false}}\n"


# ── bad input ─────────────────────────────────────────────────────────────────────────────────


def test_without_a_platform_they_are_listed(hermes: Hermes) -> None:
    assert hermes.call("gateway", "setup", "local", "--yes").code == 0

    listed = hermes.call("gateway", "setup", "--json").json["platforms"]
    assert [each["name"] for each in listed] == list(known_platforms())
    assert [each["name"] for each in listed if each["enabled"]] == ["local"]
    assert "local     enabled\n" in hermes.call("gateway", "setup").out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["telegrm", "--yes"],
            "Known: api, discord, local, matrix, signal, slack, telegram, whats",
        ),
        (["telegram"], "There is no terminal for questions."),
        (["telegram", "--json"], "There is no terminal for questions."),
        (["telegram", "--yes"], "set TELEGRAM_BOT_TOKEN, or name another variable with --token-f"),
        (["signal", "--yes"], "Number: --set account=…"),
        (["slack", "--yes"], "or instead of Signing secret, App token: set SLACK_APP_TOKEN"),
        (["matrix", "--yes"], "or instead of User and Password, Access token: set MATRIX_TOKEN"),
        (["telegram", "--yes", "--set", "token=1:x"], "--secret-from-env token=VARIABLE"),
        (["slack", "--yes", "--set", "app_token=x"], "--secret-from-env app_token=VARIABLE"),
        (["telegram", "--yes", "--set", "base_url"], "--set takes KEY=VALUE"),
        (["telegram", "--yes", "--set", "webhook.url=x"], "nested keys cannot be set here"),
        (
            ["telegram", "--yes", "--secret-from-env", "tokn=X"],
            "has no secret 'tokn'. Known: token",
        ),
        (["telegram", "--yes", "--token-from-env", "UNSET"], "The variable UNSET is not set"),
    ],
)
def test_bad_input_is_a_usage_error(hermes: Hermes, arguments: list[str], said: str) -> None:
    result = hermes.call("gateway", "setup", *arguments)

    assert result.code == 2
    assert said in result.err
    assert nothing_written(hermes)


def test_ids_in_another_form_are_refused(hermes: Hermes) -> None:
    with platform_servers.whatsapp() as place:
        result = script(hermes, place, "--allow", "+49 157 00000007")

    assert result.code != 0
    assert "write 4915700000007 instead" in result.err
    assert nothing_written(hermes)


# ── packages ──────────────────────────────────────────────────────────────────────────────────


def test_a_missing_package_is_named(hermes: Hermes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "import_module", _missing)
    monkeypatch.setattr(packages, "runs_from_clone", lambda: False)
    result = hermes.call("gateway", "setup", "discord", "--yes")

    assert result.code != 0
    assert "pip install 'hermes-sessions[discord]'" in result.err

    monkeypatch.setattr(packages, "runs_from_clone", lambda: True)
    result = hermes.call("gateway", "setup", "discord", "--yes")

    lock = shlex.quote(str(packages.lock_of("discord")))
    assert f"--require-hashes --only-binary :all: -r {lock}" in result.err


def _missing(_name: str) -> None:
    raise ModuleNotFoundError(name="discord")


@pytest.mark.parametrize("name", known_platforms())
def test_a_platform_has_a_lock_if_a_clone_lacks_its_packages(name: str) -> None:
    needs_more = registry.BUILT_IN[name] != "gateway"

    assert (packages.lock_of(name) is not None) == needs_more


def test_what_the_installer_says_is_told() -> None:
    commands = []

    def run(command: Any, _environ: dict[str, str]) -> tuple[int, str]:
        commands.append(command)
        return 1, "no\nspace\n"

    with pytest.raises(Exception, match="could not be installed:\nno\nspace"):
        packages.install_packages("slack", run)
    assert "--require-hashes" in commands[0]
