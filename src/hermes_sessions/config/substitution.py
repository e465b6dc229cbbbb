"""``${VAR}`` in values of the configuration file.

The language is small on purpose: ``${NAME}`` is the variable, ``${NAME:-text}`` is the variable or
the text if it is unset or empty, ``$${`` is a literal ``${``. What a variable holds is inserted as
it is and never searched again, so a secret that contains ``${`` stays intact.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

_REFERENCE = re.compile(
    r"""
      (?P<escaped> \$\$\{ )
    | \$\{ (?P<name> [A-Za-z_][A-Za-z0-9_]* ) (?: :- (?P<default> [^{}]* ) )? \}
    | (?P<malformed> \$\{ )
    """,
    re.VERBOSE,
)


class Substituted(NamedTuple):
    """The text after substitution, and the variables that were asked for, in order."""

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
