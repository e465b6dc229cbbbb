"""``hermes gateway setup``."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hermes_sessions.cli.console import Console
from hermes_sessions.cli.options import pass_console, yes_option
from hermes_sessions.cli.render.safe_text import one_line
from hermes_sessions.config import load_settings
from hermes_sessions.errors import ConfigError

if TYPE_CHECKING:
    from hermes_sessions.cli.gateway.setup_answers import GivenAnswers, SetupAnswers
    from hermes_sessions.cli.gateway.setup_files import ConfigFiles, Written
    from hermes_sessions.config.gateway_settings import PlatformSettings
    from hermes_sessions.config.settings import Settings
    from hermes_sessions.config.yaml_editor import Value
    from hermes_sessions.gateway.platforms.spec import PlatformSpec, SetupResult

#: For the whole check; each of its requests has its own shorter limit.
_CHECK_SECONDS = 90.0


@click.command(short_help="Set up a messenger and write its configuration.")
@click.argument("platform", required=False)
@click.option(
    "--token-from-env", metavar="VARIABLE", help="Read the token from this environment variable."
)
@click.option(
    "--secret-from-env",
    "secrets",
    multiple=True,
    metavar="KEY=VARIABLE",
    help="Read another secret from this variable. Can be repeated.",
)
@click.option(
    "--set",
    "pairs",
    multiple=True,
    metavar="KEY=VALUE",
    help="Set a key that is not a secret. Can be repeated.",
)
@click.option(
    "--allow",
    multiple=True,
    metavar="ID",
    help="A user who may talk to the agent. Can be repeated.",
)
@click.option(
    "--pairing/--no-pairing", default=None, help="Whether other users get a pairing code."
)
@click.option("--home-channel", metavar="ID", help="The chat for messages that the agent starts.")
@click.option("--no-check", is_flag=True, help="Do not check the settings with the platform.")
@yes_option
@pass_console
def setup(
    console: Console,
    *,
    platform: str | None,
    token_from_env: str | None,
    secrets: tuple[str, ...],
    pairs: tuple[str, ...],
    allow: tuple[str, ...],
    pairing: bool | None,
    home_channel: str | None,
    no_check: bool,
    yes: bool,
) -> None:
    """Set up PLATFORM: ask for its settings, check them, and write them to config.yaml.

    Without PLATFORM, lists the platforms. Secrets are typed without echo, or read from environment
    variables. config.yaml refers to them as ${VARIABLE}; typed secrets go into .env beside it,
    which only you can read. Comments in config.yaml are kept, and so is a copy of the old file.

    Asks nothing with --yes or --json, or without a terminal.
    """
    settings = load_settings()
    if platform is None:
        _list(console, settings)
        return
    asks = sys.stdin.isatty() and not yes and not console.as_json
    if not asks and not yes:
        raise click.UsageError(
            "There is no terminal for questions. To use only the given options, add --yes."
        )
    from hermes_sessions.cli.gateway.setup_answers import read_given_answers

    name = _known(platform)
    spec = _find_spec(console, name, asks=asks)
    platform_setup = _PlatformSetup(console, settings, spec, asks=asks, checks=not no_check)
    given = read_given_answers(spec, pairs, secrets, token_from_env)
    platform_setup.run(given, allow, pairing=pairing, home_channel=home_channel)


def _known(platform: str) -> str:
    from hermes_sessions.gateway.platforms.registry import known_platforms

    name = platform.strip().lower()
    if name not in known_platforms():
        raise click.UsageError(
            f"Unknown platform {one_line(platform)!r}. Known: {', '.join(known_platforms())}."
        )
    return name


def _list(console: Console, settings: Settings) -> None:
    from hermes_sessions.gateway.platforms.registry import known_platforms

    enabled = {name for name, each in settings.platforms.items() if each.is_enabled}
    if console.as_json:
        listed = [{"name": name, "enabled": name in enabled} for name in known_platforms()]
        console.print_json({"platforms": listed})
        return
    width = max(len(name) for name in known_platforms())
    console.print(
        f"{name:<{width}}  {'enabled' if name in enabled else 'not enabled'}"
        for name in known_platforms()
    )
    console.tell("To set one up, run: hermes gateway setup NAME")


def _find_spec(console: Console, name: str, *, asks: bool) -> PlatformSpec[Any]:
    """Return the spec of a platform; offer to install missing packages first."""
    from hermes_sessions.gateway.platforms import packages
    from hermes_sessions.gateway.platforms.registry import PackageMissing, find_spec

    try:
        return find_spec(name)
    except PackageMissing as missing:
        command = packages.command_to_install(name) if packages.runs_from_clone() else None
        if command is None:
            raise
        if not asks:
            raise ConfigError(f"{missing}\nIn this clone, run: {command}") from missing
        console.tell(f"The packages for {name} are not installed.")
        if not console.confirm("Install them into the environment of this clone?"):
            raise ConfigError(f"Nothing was changed. To install them, run: {command}") from missing
    packages.install_packages(name)
    return find_spec(name)


class _PlatformSetup:
    """The setup of one platform: asks, checks and writes."""

    def __init__(
        self,
        console: Console,
        settings: Settings,
        spec: PlatformSpec[Any],
        *,
        asks: bool,
        checks: bool,
    ) -> None:
        from hermes_sessions.cli.gateway.setup_files import ConfigFiles

        self._console = console
        self._name = spec.name
        self._spec = spec
        self._asks = asks
        self._checks = checks
        self._files: ConfigFiles = ConfigFiles(settings.home, console.environ)
        self._home = settings.home / "gateway"
        self._before: PlatformSettings | None = settings.platforms.get(spec.name)

    def run(
        self,
        given: GivenAnswers,
        allow: tuple[str, ...],
        *,
        pairing: bool | None,
        home_channel: str | None,
    ) -> None:
        """Ask for what is missing, check the settings, and write them."""
        if self._asks:
            self._console.tell([f"Setting up {self._spec.title}.", self._spec.before_setup])
        answers, found = self._checked_answers(given)
        values = {"enabled": True, **answers.written}
        values |= self._people(allow, pairing)
        values |= self._home_channel(home_channel)
        self._read(values, answers.secrets)
        if self._asks and not self._console.confirm(f"\nWrite this to {self._files.path}?"):
            self._console.tell("Nothing was written.")
            raise click.exceptions.Exit(1)
        written = self._files.write(self._name, values, answers.secrets, self._console.clock())
        self._tell(written, answers, found)

    # ── settings of the platform ──────────────────────────────────────────────────────────────

    def _checked_answers(self, given: GivenAnswers) -> tuple[SetupAnswers, SetupResult | None]:
        from hermes_sessions.cli.gateway.setup_answers import SetupQuestionnaire
        from hermes_sessions.gateway.platforms.port import PlatformError

        questionnaire = SetupQuestionnaire(
            self._console, self._spec, given, self._files.variables, asks=self._asks
        )
        known = self._known_values()
        while True:
            answers = questionnaire.answers(known)
            try:
                settings = self._read({"enabled": True, **answers.written}, answers.secrets)
                found = self._check(settings)
            except (ConfigError, PlatformError) as error:
                if not self._asks:
                    raise ConfigError(f"{error}\nNothing was written.") from error
                self._console.tell(["", str(error)])
                if not self._console.confirm("Nothing was written. Answer again?"):
                    raise click.exceptions.Exit(1) from error
                kept = {q.key for q in self._spec.questions if not q.is_secret}
                known |= {key: text for key, text in answers.values.items() if key in kept}
            else:
                return answers, found

    def _known_values(self) -> dict[str, str]:
        """Return the configured values, by the keys of the questions."""
        if self._before is None:
            return {}
        every = {**self._before.extra, "token": self._before.token}
        keys = {question.key for question in self._spec.questions}
        return {key: text for key, text in every.items() if key in keys and isinstance(text, str)}

    def _read(self, values: Mapping[str, Value], secrets: Mapping[str, str]) -> PlatformSettings:
        settings = self._files.platform(self._name, values, secrets)
        self._spec.read(settings, self._home)
        return settings

    def _check(self, settings: PlatformSettings) -> SetupResult | None:
        if not self._checks:
            return None
        if self._asks:
            self._console.tell("\nChecking …")
        found = asyncio.run(_check_in_time(self._spec, settings, self._home))
        if self._asks:
            self._console.tell(f"Connected as {one_line(found.who)}")
        return found

    # ── allowed users and home channel ────────────────────────────────────────────────────────

    def _people(self, allow: tuple[str, ...], pairing: bool | None) -> dict[str, Value]:
        from hermes_sessions.cli.gateway.setup_answers import ask

        values: dict[str, Value] = {} if pairing is None else {"pairing": pairing}
        before = self._before.allowed_users if self._before else ()
        if allow:
            return {**values, "allowed_users": tuple(dict.fromkeys((*before, *allow)))}
        if self._spec.user_id_help is None or not self._asks:
            return values
        self._console.tell(
            ["", "Who may talk to the agent? Other users get no answer.", self._spec.user_id_help]
        )
        kept = ", ".join(before) or "none"
        text = ask(f"User ids, separated by commas [{kept}]: ")
        if text:
            values["allowed_users"] = _ids(text)
        if pairing is None:
            self._console.tell(
                "Other users who write in private can get a pairing code, which you approve with "
                "`hermes gateway pair CODE`."
            )
            wanted = not self._before or self._before.pairing
            answer = ask(f"Send pairing codes? [{'Y/n' if wanted else 'y/N'}] ").lower()
            if answer:
                values["pairing"] = answer in {"y", "yes"}
        return values

    def _home_channel(self, given: str | None) -> dict[str, Value]:
        from hermes_sessions.cli.gateway.setup_answers import ask

        if given:
            return {"home_channel": given}
        if self._spec.home_channel_help is None or not self._asks:
            return {}
        before = self._before.home_channel.chat_id if self._before else None
        self._console.tell(
            [
                "",
                "The home channel is the chat for messages that the agent starts.",
                self._spec.home_channel_help,
            ]
        )
        text = ask(f"Home channel [{before or 'none'}]: ")
        return {"home_channel": text} if text else {}

    # ── report ────────────────────────────────────────────────────────────────────────────────

    def _tell(self, written: Written, answers: SetupAnswers, found: SetupResult | None) -> None:
        notes = [*(found.notes if found else ()), *self._hidden(answers)]
        if self._console.as_json:
            self._console.print_json(
                {
                    "platform": self._name,
                    "checked": found is not None,
                    "who": found.who if found else None,
                    "config": str(written.config),
                    "backup": str(written.backup) if written.backup else None,
                    "secrets": str(written.secrets) if written.secrets else None,
                    "variables": sorted(answers.secrets),
                    "notes": notes,
                }
            )
            return
        who = f" as {one_line(found.who)}" if found else ", not checked"
        title = self._spec.title
        lines = [f"{title[0].upper()}{title[1:]} is set up{who}: {written.config}"]
        if written.backup:
            lines.append(f"Previous configuration: {written.backup}")
        if written.secrets:
            lines.append(f"{', '.join(sorted(answers.secrets))}: saved in {written.secrets}")
        lines += [one_line(note) for note in notes]
        lines.append(
            "To start it, run: hermes gateway run (or, if it is running: hermes gateway restart)"
        )
        self._console.print(lines)

    def _hidden(self, answers: SetupAnswers) -> list[str]:
        """Return a note for each saved secret that an environment variable overrides."""
        environ = self._console.environ
        return [
            f"The environment sets {name} to another value, which takes precedence: unset it."
            for name, value in answers.secrets.items()
            if environ.get(name) not in (None, value)
        ]


async def _check_in_time(
    spec: PlatformSpec[Any], settings: PlatformSettings, home: Path
) -> SetupResult:
    from hermes_sessions.gateway.platforms.port import Unreachable

    try:
        async with asyncio.timeout(_CHECK_SECONDS):
            return await spec.check(spec.read(settings, home), home)
    except TimeoutError as error:
        raise Unreachable(f"{spec.title} does not answer. Try again later.") from error


def _ids(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each.strip() for each in text.split(",") if each.strip()))
