"""From the file and the environment to a value for every key, or to one error with every problem.

Kept apart from ``loading`` because most of it is needed only when something is configured.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hermes_sessions.config.document import Node, Scalar, Section, read_document
from hermes_sessions.config.keys import KEY_AT, KEYS, SECTIONS, SHORT_FORMS, Key
from hermes_sessions.config.kinds import Choice, NotAllowed, Surroundings
from hermes_sessions.config.substitution import SubstitutionError, VariableUnset, substitute
from hermes_sessions.config.unknown import warning_about
from hermes_sessions.config.wording import closest, is_secret, shown
from hermes_sessions.errors import ConfigError


@dataclass(slots=True)
class Findings:
    """What the file holds for us: the node of each declared key, and what is wrong or odd."""

    at: dict[str, tuple[int, Node]] = field(default_factory=dict)
    problems: list[tuple[int, str]] = field(default_factory=list)
    warnings: list[tuple[int, str]] = field(default_factory=list)


def resolve(path: Path, surroundings: Surroundings) -> tuple[dict[str, object], tuple[str, ...]]:
    """Return the value of every key as configured in the file ``path``, and the warnings about it.

    Raises ConfigError with every problem, each with its place, key, value and remedy.
    """
    document = read_document(path)
    findings = Findings() if document is None else find_keys(document)
    values, problems = resolve_values(KEYS, findings.at, surroundings)
    problems = sorted(findings.problems + problems)
    if problems:
        listed = "".join(f"\n  {_place(line)}: {problem}" for line, problem in problems)
        raise ConfigError(f"The configuration cannot be used. Correct {path}:{listed}")
    warnings = tuple(f"{path}, line {line}: {text}" for line, text in sorted(findings.warnings))
    return values, warnings


def find_keys(document: Section) -> Findings:
    """Return where the declared keys are in ``document``, and what else was found beside them."""
    findings = Findings()
    _search("", document, findings)
    return findings


def _search(prefix: str, section: Section, findings: Findings) -> None:
    first_lines: dict[str, int] = {}
    for key, node in section.entries():
        path = f"{prefix}.{key.text}" if prefix else key.text
        if "." in key.text or (path not in KEY_AT and path not in SECTIONS):
            warning = warning_about(prefix, key.text)
            if warning is not None:
                findings.warnings.append((key.line, warning))
        elif path in first_lines:
            first = first_lines[path]
            problem = f"{path} is there twice, first in line {first}. Keep one of them."
            findings.problems.append((key.line, problem))
        else:
            first_lines[path] = key.line
            if path in KEY_AT:
                findings.at[path] = (key.line, node)
            elif isinstance(node, Section):
                _search(path, node, findings)
            elif isinstance(node, Scalar) and path in SHORT_FORMS:
                findings.at[SHORT_FORMS[path]] = (key.line, node)
            elif not (isinstance(node, Scalar) and node.is_null):
                findings.problems.append((key.line, _not_a_section(path, node)))


def resolve_values(
    keys: Iterable[Key], found: Mapping[str, tuple[int, Node]], surroundings: Surroundings
) -> tuple[dict[str, object], list[tuple[int, str]]]:
    """Return the value of every key, and the line and problem of those that have none.

    An environment variable of the key wins over the file, the file over the default. A problem
    outside the file has line 0.
    """
    values: dict[str, object] = {}
    problems: list[tuple[int, str]] = []
    for key in keys:
        variable = next((name for name in key.environment if surroundings.environ.get(name)), None)
        line = 0
        try:
            if variable is not None:
                text = surroundings.environ[variable]
                values[key.path] = _parse(key, text, (variable,), surroundings)
            elif key.path in found:
                line, node = found[key.path]
                values[key.path] = _value_of(key, node, surroundings)
            else:
                values[key.path] = key.default_value(surroundings.home)
        except ConfigError as error:
            problems.append((line, str(error)))
    return values, problems


def _place(line: int) -> str:
    return f"line {line}" if line else "environment"


def _value_of(key: Key, node: Node, surroundings: Surroundings) -> object:
    if not isinstance(node, Scalar):
        shape = "a section" if isinstance(node, Section) else "a list"
        raise ConfigError(f"{key.path} is {shape}; {_remedy(key)}")
    if node.is_null:
        return key.default_value(surroundings.home)
    try:
        text, variables = substitute(node.text, surroundings.environ)
    except SubstitutionError as error:
        if isinstance(error, VariableUnset) and key.may_be_unset:
            return key.default_value(surroundings.home)
        raise ConfigError(f"{key.path} {error}.") from None
    return _parse(key, text, variables, surroundings)


def _parse(key: Key, text: str, variables: tuple[str, ...], surroundings: Surroundings) -> object:
    try:
        return key.kind.parse(text, surroundings)
    except NotAllowed:
        pass
    except ConfigError as error:
        raise ConfigError(f"{key.path}: {error}") from error
    hidden = is_secret(key.path) or any(is_secret(name) for name in variables)
    value = "(hidden)" if hidden else f'"{shown(text)}"'
    origin = f" (from {', '.join(variables)})" if variables else ""
    guess = None
    if isinstance(key.kind, Choice) and not hidden:
        guess = closest(text, list(key.kind.options), at_least=0.6)
    raise ConfigError(f"{key.path} is {value}{origin}; {_remedy(key, guess)}")


def _remedy(key: Key, guess: str | None = None) -> str:
    question = f"Did you mean {guess}? " if guess else ""
    return (
        f"allowed: {key.kind.allowed}. {question}"
        f"Change it, or remove the key to get the default ({key.default_text})."
    )


def _not_a_section(path: str, node: Node) -> str:
    shape = "a single value" if isinstance(node, Scalar) else "a list"
    example = next(key.path for key in KEYS if key.path.startswith(f"{path}."))
    return (
        f"{path} is {shape}, but it is a section with keys of its own, like {example}. "
        f"Write the keys below it, indented."
    )
