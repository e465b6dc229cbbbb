"""The answers to a platform's questions: given, known already, or asked for on the terminal."""

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
    """What was answered, and what becomes of it."""

    #: By key; a secret as it is.
    values: dict[str, str] = field(default_factory=dict)
    #: What the file says: secrets as ``${VAR}``. What is not in it stays as it is.
    written: dict[str, Value] = field(default_factory=dict)
    #: Secrets that nobody keeps yet, by variable.
    secrets: dict[str, str] = field(default_factory=dict)

    def refer(self, key: str, variable: str, value: str) -> None:
        """Take a secret that is in a variable."""
        self.values[key] = value
        self.written[key] = f"${{{variable}}}"

    def keep(self, key: str, variable: str, value: str) -> None:
        """Take a secret that is to be kept under a variable."""
        self.refer(key, variable, value)
        self.secrets[variable] = value


@dataclass(frozen=True, slots=True)
class GivenAnswers:
    """What the command was started with."""

    #: By key.
    values: Mapping[str, str]
    #: Variables that hold secrets, by key.
    variables: Mapping[str, str]

    @property
    def everything(self) -> dict[str, str]:
        """What is given, by key, whatever it is."""
        return {**self.values, **self.variables}


def read_given_answers(
    spec: PlatformSpec[Any], pairs: tuple[str, ...], secrets: tuple[str, ...], token: str | None
) -> GivenAnswers:
    """Return what options say.

    Raises:
        click.UsageError: one says nothing, or has a secret where everybody could see it.
    """
    of_secrets = {question.key for question in spec.questions if question.is_secret}
    values = dict(_pair(pair, "--set", "KEY=VALUE") for pair in pairs)
    for key in values:
        if key in of_secrets or is_secret(key):
            raise click.UsageError(
                f"{key} is a secret, and whoever uses this machine could see it in the command. "
                f"Put it into a variable: --secret-from-env {key}=VARIABLE"
            )
        if "." in key:
            raise click.UsageError(f"--set {key}: only keys of the section itself can be set here.")
    variables = dict(_pair(pair, "--secret-from-env", "KEY=VARIABLE") for pair in secrets)
    if token is not None:
        variables["token"] = token
    for key in variables:
        if key not in of_secrets:
            known = ", ".join(sorted(of_secrets)) or "none"
            raise click.UsageError(f"{spec.title} has no secret {key!r}. Known: {known}.")
    return GivenAnswers(values, variables)


def _pair(text: str, option: str, form: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not (key and equals and value):
        raise click.UsageError(f"{option} takes {form}.")
    return key, value


class SetupQuestionnaire:
    """Finds an answer to every question: what was given, what is there, or by asking."""

    def __init__(
        self,
        console: Console,
        spec: PlatformSpec[Any],
        given: GivenAnswers,
        environ: Mapping[str, str],
        *,
        asks: bool,
    ) -> None:
        """*environ* has the variables that hold; with *asks*, somebody sits at a terminal."""
        self._console = console
        self._spec = spec
        self._given = given
        self._environ = environ
        self._asks = asks

    def answers(self, known: Mapping[str, str]) -> SetupAnswers:
        """Return all answers; *known* are those of before.

        Raises:
            click.UsageError: one is missing, and nobody can be asked.
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
            raise click.UsageError(f"Nobody can be asked here, and something is missing:{wanted}")
        answers.written.update(self._given.values)
        return answers

    def _instead(self, missing: Sequence[Question], answers: SetupAnswers) -> Iterator[str]:
        """Yield what may be given in the place of something that is missing."""
        said = {**self._given.everything, **answers.values}
        for other in self._spec.questions:
            if not other.is_optional or said.get(other.key):
                continue
            # Any answer would do: it is only looked at whether there is one.
            spared = [each.name for each in missing if not each.ask.when({**said, other.key: "…"})]
            if spared:
                names = " and ".join(spared)
                yield f"\n  or instead of {names}, {other.name}: {_how_to_give(other)}"

    def _answer(self, question: Question, known: str | None, answers: SetupAnswers) -> bool:
        key = question.key
        if key in self._given.variables:
            variable = self._given.variables[key]
            if not self._environ.get(variable):
                raise click.UsageError(
                    f"The variable {variable} is not set. Set it, and try again."
                )
            answers.refer(key, variable, self._environ[variable])
        elif key in self._given.values:
            answers.values[key] = self._given.values[key]
        elif question.ask.variable and not known and self._environ.get(question.ask.variable):
            self._console.tell(f"{question.name}: taken from {question.ask.variable}.")
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
        otherwise = _otherwise(question, known)
        label = f"{question.name} [{otherwise}]: " if otherwise else f"{question.name}: "
        while True:
            text = ask_hidden(label) if question.is_secret else ask(label)
            if text:
                self._keep(question, text, answers)
            elif known:
                answers.values[question.key] = known
            elif question.ask.make is not None:
                self._keep(question, question.ask.make(), answers)
            elif question.default is None and not question.is_optional:
                self._console.tell("It is needed. Ctrl-C leaves; nothing is written then.")
                continue
            return

    def _keep(self, question: Question, value: str, answers: SetupAnswers) -> None:
        if question.ask.variable is not None:
            answers.keep(question.key, question.ask.variable, value)
        else:
            answers.values[question.key] = value
            is_default = value == question.default
            answers.written[question.key] = None if is_default else value


def _otherwise(question: Question, known: str | None) -> str | None:
    """Return what happens without an answer, in words."""
    if known:
        return "as it is" if question.is_secret else known
    if question.ask.make is not None:
        return "make one"
    return question.default or ("none" if question.is_optional else None)


def _how_to_give(question: Question) -> str:
    if question.ask.variable is None:
        return f"--set {question.key}=…"
    option = (
        "--token-from-env " if question.key == "token" else f"--secret-from-env {question.key}="
    )
    return f"set {question.ask.variable}, or name another variable with {option}VARIABLE"


def ask(label: str) -> str:
    """Return a line from the terminal, without the spaces around it.

    Raises:
        KeyboardInterrupt: there are no more lines.
    """
    sys.stderr.write(label)
    sys.stderr.flush()
    line = sys.stdin.readline()
    if not line:
        raise KeyboardInterrupt
    return line.strip()


def ask_hidden(label: str) -> str:
    """Return a line from the terminal that nobody sees.

    Raises:
        KeyboardInterrupt: there are no more lines.
    """
    try:
        return getpass.getpass(label, stream=sys.stderr).strip()
    except EOFError:
        raise KeyboardInterrupt from None
