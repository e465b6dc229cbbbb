"""Keys that nobody declared: which ones deserve a word, and what they were probably meant to be."""

from __future__ import annotations

from hermes_sessions.config.error_text import closest, shown
from hermes_sessions.config.keys import (
    KEY_AT,
    RESERVED,
    SECTIONS,
    SHARED_SECTIONS,
    declared_path,
)

# In our own sections everything unknown is reported and a guess may be bold. Elsewhere the guess
# decides whether to speak at all, and hundreds of names of other programs must stay unmentioned.
_BOLD = 0.6
_CAREFUL = 0.82


def warning_about(section: str, name: str, *, at: str | None = None) -> str | None:
    """Return what to say about the undeclared key ``name`` in ``section``, or None for nothing.

    ``at`` is the section's path in the file, where it has a name of the user's choice.
    """
    path = f"{section}.{name}" if section else name
    if path in RESERVED and "." not in name:
        return None
    here = section if at is None else at
    path = f"{here}.{name}" if here else name
    if declared_path(path) in KEY_AT or declared_path(path) in SECTIONS:
        indented = " > ".join(path.split("."))
        return (
            f"{shown(path)} is ignored because its name is written with dots; nest it: {indented}"
        )
    shared = section in SHARED_SECTIONS
    meant = _sibling(section, name, here, at_least=_CAREFUL if shared else _BOLD)
    if meant is None and shared:
        return None
    meant = meant or _elsewhere(section, name)
    if meant is not None:
        return f"{shown(path)} is not a known key and is ignored; did you mean {meant}?"
    return (
        f"{shown(path)} is not a known key and is ignored; "
        f"known in {here}: {', '.join(_names_in(section))}"
    )


def _names_in(section: str) -> list[str]:
    """Return the names of the keys and sections directly in ``section``."""
    return [
        path.rpartition(".")[2]
        for path in sorted(KEY_AT.keys() | SECTIONS)
        if path.rpartition(".")[0] == section
    ]


def _sibling(section: str, name: str, here: str, *, at_least: float) -> str | None:
    meant = closest(name, _names_in(section), at_least=at_least)
    if meant is None:
        return None
    return f"{here}.{meant}" if here else meant


def _elsewhere(section: str, name: str) -> str | None:
    """Return the key of that name under another section of the same family, if there is one."""
    family = section.partition(".")[0] + "."
    names = {path.rpartition(".")[2]: path for path in KEY_AT if path.startswith(family)}
    meant = closest(name, list(names), at_least=_CAREFUL)
    return names[meant] if meant else None
