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


@click.command(short_help="Connect a messenger: ask, check, and write the configuration.")
@click.argument("platform", required=False)
@click.option("--token-from-env", metavar="VARIABLE", help="The variable that holds the token.")
@click.option(
    "--secret-from-env",
    "secrets",
    multiple=True,
    metavar="KEY=VARIABLE",
    help="The variable that holds another secret.",
)
@click.option("--set", "pairs", multiple=True, metavar="KEY=VALUE", help="A key that is no secret.")
@click.option("--allow", multiple=True, metavar="ID", help="Somebody who may talk to the agent.")
@click.option(
    "--pairing/--no-pairing", default=None, help="Whether strangers may ask to be let in."
)
@click.option("--home-channel", metavar="ID", help="The chat for what nobody asked for.")
@click.option("--no-check", is_flag=True, help="Do not ask the platform whether it works.")
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
    """Set up PLATFORM: ask for what it needs, check that, and write it to config.yaml.

    Without PLATFORM, shows which there are. Secrets are asked for without being shown, or named by
    variables; config.yaml says ${VARIABLE}, and the file .env beside it, which only you can read,
    holds what you typed. Comments in config.yaml stay, and what is replaced is kept as a copy.

    With --yes or --json, or without a terminal, nothing is asked.
    """
    settings = load_settings()
    if platform is None:
        _list(console, settings)
        return
    asks = sys.stdin.isatty() and not yes and not console.as_json
    if not asks and not yes:
        raise click.UsageError("Nobody can be asked here. With --yes, what is given is written.")
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
            f"There is no platform {one_line(platform)!r}. Known: {', '.join(known_platforms())}."
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
    console.tell("Set one up: hermes gateway setup NAME")


def _find_spec(console: Console, name: str, *, asks: bool) -> PlatformSpec[Any]:
    """Return what a platform declares; install its packages first if the user wants that."""
    from hermes_sessions.gateway.platforms import packages
    from hermes_sessions.gateway.platforms.registry import PackageMissing, find_spec

    try:
        return find_spec(name)
    except PackageMissing as missing:
        command = packages.command_to_install(name) if packages.runs_from_clone() else None
        if command is None:
            raise
        if not asks:
            raise ConfigError(f"{missing}\nIn this clone: {command}") from missing
        console.tell(f"The packages for {name} are not installed.")
        if not console.confirm("Install them now, into the environment of this clone?"):
            raise ConfigError(f"Nothing was changed. To install them: {command}") from missing
    packages.install_packages(name)
    return find_spec(name)


class _PlatformSetup:
    """Setting up one platform."""

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
        """Ask, check and write."""
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

    # ── what the platform needs ───────────────────────────────────────────────────────────────

    def _checked_answers(self, given: GivenAnswers) -> tuple[SetupAnswers, SetupResult | None]:
        from hermes_sessions.cli.gateway.setup_answers import SetupQuestionnaire
        from hermes_sessions.gateway.platforms.port import PlatformError

        interview = SetupQuestionnaire(
            self._console, self._spec, given, self._files.variables, asks=self._asks
        )
        known = self._known_values()
        while True:
            answers = interview.answers(known)
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
        """Return what is configured already, by the keys of the questions."""
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
        found = asyncio.run(_in_time(self._spec, settings, self._home))
        if self._asks:
            self._console.tell(f"It works: {one_line(found.who)}")
        return found

    # ── who may talk to it, and where it speaks by itself ─────────────────────────────────────

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
        kept = ", ".join(before) or "nobody"
        text = ask(f"Ids, with commas between them [{kept}]: ")
        if text:
            values["allowed_users"] = _ids(text)
        if pairing is None:
            self._console.tell(
                "Somebody else who writes in private can be given a code, which you approve with "
                "`hermes gateway pair CODE`."
            )
            wanted = not self._before or self._before.pairing
            answer = ask(f"Give out codes? [{'Y/n' if wanted else 'y/N'}] ").lower()
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

    # ── the end ───────────────────────────────────────────────────────────────────────────────

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
        who = f" as {one_line(found.who)}" if found else ", unchecked"
        title = self._spec.title
        lines = [f"{title[0].upper()}{title[1:]} is set up{who}: {written.config}"]
        if written.backup:
            lines.append(f"The configuration as it was: {written.backup}")
        if written.secrets:
            lines.append(f"{', '.join(sorted(answers.secrets))}: in {written.secrets}")
        lines += [one_line(note) for note in notes]
        lines.append("Start it with `hermes gateway run`; if it runs: hermes gateway restart")
        self._console.print(lines)

    def _hidden(self, answers: SetupAnswers) -> list[str]:
        """Return what to say about variables that would win over what was kept."""
        environ = self._console.environ
        return [
            f"{name} is also set in the environment, to something else, which counts: unset it."
            for name, value in answers.secrets.items()
            if environ.get(name) not in (None, value)
        ]


async def _in_time(spec: PlatformSpec[Any], settings: PlatformSettings, home: Path) -> SetupResult:
    from hermes_sessions.gateway.platforms.port import Unreachable

    try:
        async with asyncio.timeout(_SECONDS):
            return await spec.check(spec.read(settings, home), home)
    except TimeoutError as error:
        raise Unreachable(f"{spec.title} does not answer.") from error


#: A check asks a few questions; each has a time limit of its own.
_SECONDS = 90.0


def _ids(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each.strip() for each in text.split(",") if each.strip()))
