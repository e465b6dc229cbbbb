"""Answers to the setup questions of a platform: from options, the configuration or the terminal."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import click

from hermes_sessions.cli.console import Console
from hermes_sessions.config.error_text import is_secret
from hermes_sessions.config.yaml_editor import Value
from hermes_sessions.gateway.platforms.spec import PlatformSpec, Question


@dataclass(slots=True)
class SetupAnswers:
    """The answers, and how they are written."""

    #: By key; secrets in plain text.
    values: dict[str, str] = field(default_factory=dict)
    #: Changes to config.yaml: secrets as ``${VAR}``; keys that are not in it stay unchanged.
    written: dict[str, Value] = field(default_factory=dict)
    #: Secrets to save in .env, by variable.
    secrets: dict[str, str] = field(default_factory=dict)

    def refer(self, key: str, variable: str, value: str) -> None:
        """Use a secret that a variable already holds."""
        self.values[key] = value
        self.written[key] = f"${{{variable}}}"

    def keep(self, key: str, variable: str, value: str) -> None:
        """Use a secret and save it in .env under *variable*."""
        self.refer(key, variable, value)
        self.secrets[variable] = value


@dataclass(frozen=True, slots=True)
class GivenAnswers:
    """Answers given as options of the command."""

    #: By key.
    values: Mapping[str, str]
    #: Variables that hold secrets, by key.
    variables: Mapping[str, str]

    @property
    def everything(self) -> dict[str, str]:
        """All given answers by key: values, and names of variables."""
        return {**self.values, **self.variables}


def read_given_answers(
    spec: PlatformSpec[Any], pairs: tuple[str, ...], secrets: tuple[str, ...], token: str | None
) -> GivenAnswers:
    """Return the answers in the options.

    Raises:
        click.UsageError: an option is malformed, or has a secret where other users could see it.
    """
    secret_keys = {question.key for question in spec.questions if question.is_secret}
    values = dict(_pair(pair, "--set", "KEY=VALUE") for pair in pairs)
    for key in values:
        if key in secret_keys or is_secret(key):
            raise click.UsageError(
                f"{key} is a secret, and other users of this machine could see it in the command. "
                f"Put it into an environment variable: --secret-from-env {key}=VARIABLE"
            )
        if "." in key:
            raise click.UsageError(
                f"--set {key}: nested keys cannot be set here. Edit config.yaml instead."
            )
    variables = dict(_pair(pair, "--secret-from-env", "KEY=VARIABLE") for pair in secrets)
    if token is not None:
        variables["token"] = token
    for key in variables:
        if key not in secret_keys:
            known = ", ".join(sorted(secret_keys)) or "none"
            raise click.UsageError(f"{spec.title} has no secret {key!r}. Known: {known}.")
    return GivenAnswers(values, variables)


def _pair(text: str, option: str, form: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not (key and equals and value):
        raise click.UsageError(f"{option} takes {form}.")
    return key, value


class SetupQuestionnaire:
    """Finds an answer to every question: given, configured, or asked for."""

    def __init__(
        self,
        console: Console,
        spec: PlatformSpec[Any],
        given: GivenAnswers,
        environ: Mapping[str, str],
        *,
        asks: bool,
    ) -> None:
        """*environ* has the environment and the variables in .env; *asks* needs a terminal."""
        self._console = console
        self._spec = spec
        self._given = given
        self._environ = environ
        self._asks = asks

    def answers(self, known: Mapping[str, str]) -> SetupAnswers:
        """Return all answers; *known* are the configured ones.

        Raises:
            click.UsageError: an answer is missing, and there is no terminal to ask for it.
        """
        answers = SetupAnswers()
        missing = []
        for question in self._spec.questions:
            if not question.ask.when({**self._given.everything, **answers.values}):
                answers.written[question.key] = None
            elif not self._answer(question, known.get(question.key), answers):
                missing.append(question)
        if missing:
            wanted = "".join(
                f"\n  {question.name}: {_how_to_give(question)}" for question in missing
            )
            wanted += "".join(self._instead(missing, answers))
            raise click.UsageError(f"These settings are missing:{wanted}")
        answers.written.update(self._given.values)
        return answers

    def _instead(self, missing: Sequence[Question], answers: SetupAnswers) -> Iterator[str]:
        """Yield the optional settings that could replace missing ones."""
        said = {**self._given.everything, **answers.values}
        for other in self._spec.questions:
            if not other.is_optional or said.get(other.key):
                continue
            # Conditions only check whether an answer exists, so any text will do.
            replaced = [
                each.name for each in missing if not each.ask.when({**said, other.key: "…"})
            ]
            if replaced:
                names = " and ".join(replaced)
                yield f"\n  or instead of {names}, {other.name}: {_how_to_give(other)}"

    def _answer(self, question: Question, known: str | None, answers: SetupAnswers) -> bool:
        key = question.key
        if key in self._given.variables:
            variable = self._given.variables[key]
            if not self._environ.get(variable):
                raise click.UsageError(f"The variable {variable} is not set. Set it and try again.")
            answers.refer(key, variable, self._environ[variable])
        elif key in self._given.values:
            answers.values[key] = self._given.values[key]
        elif question.ask.variable and not known and self._environ.get(question.ask.variable):
            self._console.tell(f"{question.name}: using {question.ask.variable}.")
            answers.refer(key, question.ask.variable, self._environ[question.ask.variable])
        elif self._asks:
            self._ask(question, known, answers)
        elif known:
            answers.values[key] = known
        elif question.ask.make is not None:
            self._keep(question, question.ask.make(), answers)
        else:
            return question.default is not None or question.is_optional
        return True

    def _ask(self, question: Question, known: str | None, answers: SetupAnswers) -> None:
        self._console.tell(["", *question.help.splitlines()])
        default = _default_text(question, known)
        label = f"{question.name} [{default}]: " if default else f"{question.name}: "
        while True:
            text = ask_hidden(label) if question.is_secret else ask(label)
            if text:
                self._keep(question, text, answers)
            elif known:
                answers.values[question.key] = known
            elif question.ask.make is not None:
                self._keep(question, question.ask.make(), answers)
            elif question.default is None and not question.is_optional:
                self._console.tell(
                    "This setting is required. To leave without changes, press Ctrl-C."
                )
                continue
            return

    def _keep(self, question: Question, value: str, answers: SetupAnswers) -> None:
        if question.ask.variable is not None:
            answers.keep(question.key, question.ask.variable, value)
        else:
            answers.values[question.key] = value
            is_default = value == question.default
            answers.written[question.key] = None if is_default else value


def _default_text(question: Question, known: str | None) -> str | None:
    """Return the answer that an empty line stands for, as text in the prompt."""
    if known:
        return "unchanged" if question.is_secret else known
    if question.ask.make is not None:
        return "generate"
    return question.default or ("none" if question.is_optional else None)


def _how_to_give(question: Question) -> str:
    if question.ask.variable is None:
        return f"--set {question.key}=…"
    option = (
        "--token-from-env " if question.key == "token" else f"--secret-from-env {question.key}="
    )
    return f"set {question.ask.variable}, or name another variable with {option}VARIABLE"


def ask(label: str) -> str:
    """Return a stripped line from the terminal.

    Raises:
        KeyboardInterrupt: the input has ended.
    """
    sys.stderr.write(label)
    sys.stderr.flush()
    line = sys.stdin.readline()
    if not line:
        raise KeyboardInterrupt
    return line.strip()


def ask_hidden(label: str) -> str:
    """Return a line that is typed without echo.

    Raises:
        KeyboardInterrupt: the input has ended.
    """
    try:
        return getpass.getpass(label, stream=sys.stderr).strip()
    except EOFError:
        raise KeyboardInterrupt from None
