"""Resolve the file and the environment into `Settings`, or into one error with every problem.

Apart from ``loader`` because it is needed only when something is configured.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple, cast

from hermes_sessions.config.derived_keys import (
    FIXED_KEYS,
    NAMED_SECTIONS,
    SECTION_CLASSES,
    declared_path,
)
from hermes_sessions.config.error_text import closest_match, is_secret, shown
from hermes_sessions.config.key_lookup import FoundKeys, find_keys
from hermes_sessions.config.key_types import (
    Choice,
    Key,
    Kind,
    MapOf,
    NameList,
    NotAllowed,
    OptionalValue,
    ParseContext,
    TextList,
)
from hermes_sessions.config.sections import NamedValues
from hermes_sessions.config.settings import Settings
from hermes_sessions.config.yaml_document import Listing, Node, Scalar, Section, read_document
from hermes_sessions.errors import ConfigError

# ``${VAR}`` in values of the configuration file.
#
# The language is small on purpose: ``${NAME}`` is the variable, ``${NAME:-text}`` is the variable
# or the text if it is unset or empty, ``$${`` is a literal ``${``. The value of a variable is
# inserted unchanged and not substituted again, so a secret that contains ``${`` stays intact.


_REFERENCE = re.compile(
    r"""
      (?P<escaped> \$\$\{ )
    | \$\{ (?P<name> [A-Za-z_][A-Za-z0-9_]* ) (?: :- (?P<default> [^{}]* ) )? \}
    | (?P<malformed> \$\{ )
    """,
    re.VERBOSE,
)


class Substituted(NamedTuple):
    """The text after substitution, and the variables it refers to, in order."""

    text: str
    variables: tuple[str, ...]


class SubstitutionError(Exception):
    """A reference cannot be replaced; the message never contains the value of a variable."""


class VariableUnset(SubstitutionError):
    """A variable is not set and has no default."""


def substitute(text: str, environ: Mapping[str, str]) -> Substituted:
    """Return ``text`` with every reference replaced from ``environ``.

    Raises VariableUnset for a variable that is unset and has no default, and SubstitutionError
    for a ``${`` that does not begin a reference.
    """
    if "${" not in text:
        return Substituted(text, ())
    variables: list[str] = []
    unset: list[str] = []

    def replacement(match: re.Match[str]) -> str:
        if match["escaped"]:
            return "${"
        if match["malformed"]:
            raise SubstitutionError(
                "contains a ${ that is not a reference. Write ${NAME} or ${NAME:-default} "
                "without braces inside, or $${ for a literal ${"
            )
        name, default = match["name"], match["default"]
        variables.append(name)
        value = environ.get(name)
        if default is not None:
            return value or default
        if value is None:
            unset.append(name)
            return ""
        return value

    result = _REFERENCE.sub(replacement, text)
    if unset:
        names = ", ".join(dict.fromkeys(unset))
        raise VariableUnset(
            f"refers to {names}, not set in the environment. "
            f"Set it, or write a default, like ${{{unset[0]}:-default}}"
        )
    return Substituted(result, tuple(variables))


class Resolved(NamedTuple):
    """The value of every key that has one, and problems and warnings with their lines.

    Line 0 stands for the environment.
    """

    values: dict[str, object]
    problems: list[tuple[int, str]]
    warnings: list[tuple[int, str]]


def resolve(path: Path, context: ParseContext) -> Settings:
    """Return the settings as configured in the file ``path`` and in the environment.

    Raises:
        ConfigError: with every problem, each with its place, key, value and remedy.
    """
    document = read_document(path)
    findings = FoundKeys() if document is None else find_keys(document)
    resolved = resolve_values([*FIXED_KEYS, *findings.keys], findings.at, context)
    values = resolved.values
    problems = findings.problems + resolved.problems
    for section, entries in findings.free.items():
        values[f"{section}.extra"] = _extra(section, entries, context, problems)
    if problems:
        listed = "".join(f"\n  {_at_line(line)}: {problem}" for line, problem in sorted(problems))
        raise ConfigError(f"The configuration cannot be used. Correct {path}:{listed}")
    warnings = sorted(findings.warnings + resolved.warnings)
    lines = tuple(f"{_file_and_line(path, line)}: {text}" for line, text in warnings)
    return _build(values, context.home, lines)


def _build(values: Mapping[str, object], home: Path, warnings: tuple[str, ...]) -> Settings:
    """Return the settings with these values, by the paths of their keys."""
    always = (path for path in (*SECTION_CLASSES, *NAMED_SECTIONS) if "<" not in path)
    fields: dict[str, dict[str, object]] = {section: {} for section in always}
    fields[""].update(home=home, warnings=warnings)
    for path, value in values.items():
        section, _, name = path.rpartition(".")
        while section not in fields:
            fields[section] = {}
            section = section.rpartition(".")[0]
        fields[path.rpartition(".")[0]][name] = value
    # Inner sections first: an outer one holds the finished inner ones.
    for path in sorted(fields, key=lambda path: path.count("."), reverse=True):
        if path:
            outer, _, name = path.rpartition(".")
            fields[outer][name] = _section(path, fields[path])
    return cast("Settings", SECTION_CLASSES[""](**fields[""]))


def _section(path: str, fields: dict[str, object]) -> object:
    declared = declared_path(path)
    return (
        NamedValues(fields) if declared in NAMED_SECTIONS else SECTION_CLASSES[declared](**fields)
    )


def resolve_values(
    keys: Iterable[Key], found: Mapping[str, tuple[int, Node]], context: ParseContext
) -> Resolved:
    """Return the value of every key, and the line and problem of those that have none.

    An environment variable of the key wins over the file, the file over the default.
    """
    resolved = Resolved({}, [], [])
    for key in keys:
        line = 0
        try:
            variable = next((n for n in key.environment if context.environ.get(n)), None)
            if variable is not None:
                text = context.environ[variable]
                value = _parse(key, text, (variable,), context)
            elif key.path in found:
                line, node = found[key.path]
                value = _value_of(key, node, context)
            else:
                value = key.default_value(context.home)
        except ConfigError as error:
            if not key.invalid_means_default:
                resolved.problems.append((line, str(error)))
                continue
            resolved.warnings.append((line, f"{error} Until then, the default is used."))
            value = key.default_value(context.home)
        resolved.values[key.path] = value
    return resolved


def _file_and_line(path: Path, line: int) -> str:
    return f"{path}, line {line}" if line else "environment"


def _at_line(line: int) -> str:
    return f"line {line}" if line else "environment"


def _value_of(key: Key, node: Node, context: ParseContext) -> object:
    if isinstance(key.kind, MapOf) and isinstance(node, Section):
        return _entries(key, key.kind.kind, node, context)
    if isinstance(node, Listing) and isinstance(_inner(key.kind), (NameList, TextList)):
        return tuple(
            name
            for item in node.items
            for name in _list_of_names(key._replace(kind=_inner(key.kind)), item, context)
        )
    if not isinstance(node, Scalar):
        shape = "a section" if isinstance(node, Section) else "a list"
        raise ConfigError(f"{key.path} is {shape}; {_remedy(key)}")
    if node.is_null:
        return key.default_value(context.home)
    try:
        text, variables = substitute(node.text, context.variables)
    except SubstitutionError as error:
        if isinstance(error, VariableUnset) and key.may_be_unset:
            return key.default_value(context.home)
        raise ConfigError(f"{key.path} {error}.") from None
    return _parse(key, text, variables, context)


def _entries(
    key: Key, kind: Kind, section: Section, context: ParseContext
) -> tuple[tuple[str, object], ...]:
    """Return the entries of a section with free names, the last of each name."""
    values: dict[str, object] = {}
    for name, node in section.entries():
        entry = Key(f"{key.path}.{name.text}", kind, None, key.doc)
        values[name.text] = _value_of(entry, node, context)
    return tuple((name, value) for name, value in values.items() if value is not None)


def _inner(kind: Kind) -> Kind:
    return kind.kind if isinstance(kind, OptionalValue) else kind


def _list_of_names(key: Key, item: Node, context: ParseContext) -> Iterable[str]:
    value = _value_of(key._replace(default=()), item, context)
    return value if isinstance(value, tuple) else ()


def _extra(
    section: str,
    entries: Mapping[str, tuple[int, Node]],
    context: ParseContext,
    problems: list[tuple[int, str]],
) -> NamedValues[object]:
    """Return undeclared keys with `${VAR}` replaced; add a problem where that is not possible."""
    values: dict[str, object] = {}
    for name, (line, node) in entries.items():
        try:
            value = _free_value(f"{section}.{name}", node, context)
        except ConfigError as error:
            problems.append((line, str(error)))
            continue
        # Other programs keep an adapter's keys in a section of that name.
        if name == "extra" and isinstance(value, NamedValues):
            values = {**value, **values}
        elif value is not None:
            values[name] = value
    return NamedValues(values)


def _free_value(path: str, node: Node, context: ParseContext) -> object:
    """Return text as it is written, lists as tuples, sections by name; None for nothing."""
    if isinstance(node, Listing):
        return tuple(_free_value(path, item, context) for item in node.items)
    if isinstance(node, Section):
        return NamedValues(
            {
                key.text: _free_value(f"{path}.{key.text}", value, context)
                for key, value in node.entries()
            }
        )
    if node.is_null:
        return None
    try:
        return substitute(node.text, context.variables).text
    except VariableUnset:
        return None
    except SubstitutionError as error:
        raise ConfigError(f"{path} {error}.") from None


def _parse(key: Key, text: str, variables: tuple[str, ...], context: ParseContext) -> object:
    try:
        return key.kind.parse(text, context)
    except NotAllowed:
        pass
    except ConfigError as error:
        raise ConfigError(f"{key.path}: {error}") from error
    hidden = is_secret(key.path) or any(is_secret(name) for name in variables)
    value = "(hidden)" if hidden else f'"{shown(text)}"'
    origin = f" (from {', '.join(variables)})" if variables else ""
    guess = None
    kind = _inner(key.kind)
    if isinstance(kind, Choice) and not hidden:
        guess = closest_match(text, list(kind.options), at_least=0.6)
    raise ConfigError(f"{key.path} is {value}{origin}; {_remedy(key, guess)}")


def _remedy(key: Key, guess: str | None = None) -> str:
    question = f"Did you mean {guess}? " if guess else ""
    return (
        f"allowed: {key.kind.allowed}. {question}"
        f"Change it, or remove the key to get the default ({key.default_text})."
    )
