"""Find the declared keys in the file, and report the others."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field
from typing import get_args

from hermes_sessions.config.derived_keys import (
    FREE_SECTIONS,
    KEY_AT,
    KEYS,
    NAMED_SECTIONS,
    RESERVED,
    SECTIONS,
    SHARED_SECTIONS,
    SHORT_FORMS,
    declared_path,
)
from hermes_sessions.config.error_text import closest_match, shown
from hermes_sessions.config.gateway_settings import PLATFORM_ENTRY_POINTS, ChatType
from hermes_sessions.config.key_types import NO_CONTEXT, Key, Name, NotAllowed
from hermes_sessions.config.yaml_document import Node, Scalar, Section

# Undeclared keys: which ones are reported, and which key was probably meant.

# In our own sections every unknown key is reported, and a weak match is suggested. In shared ones
# only a strong match is reported, because other programs keep hundreds of keys there.
_BOLD = 0.6


_CAREFUL = 0.82


def unknown_key_warning(section: str, name: str, *, at: str | None = None) -> str | None:
    """Return the warning about the undeclared key ``name`` in ``section``, or None.

    ``at`` is the section's path in the file, where the user chose its name.
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
    meant = closest_match(name, _names_in(section), at_least=at_least)
    if meant is None:
        return None
    return f"{here}.{meant}" if here else meant


def _elsewhere(section: str, name: str) -> str | None:
    """Return the key of that name under another section of the same family, if there is one."""
    family = section.partition(".")[0] + "."
    names = {path.rpartition(".")[2]: path for path in KEY_AT if path.startswith(family)}
    meant = closest_match(name, list(names), at_least=_CAREFUL)
    return names[meant] if meant else None


@dataclass(slots=True)
class FoundKeys:
    """The declared keys in the file, by path, and problems and warnings, by line."""

    #: The node of each declared key.
    at: dict[str, tuple[int, Node]] = field(default_factory=dict)
    #: The keys of sections that the user named.
    keys: list[Key] = field(default_factory=list)
    #: Undeclared keys of sections that keep them.
    free: dict[str, dict[str, tuple[int, Node]]] = field(default_factory=dict)
    problems: list[tuple[int, str]] = field(default_factory=list)
    warnings: list[tuple[int, str]] = field(default_factory=list)


def find_keys(document: Section) -> FoundKeys:
    """Return where the declared keys are in ``document``, and what is wrong or unknown."""
    findings = FoundKeys()
    _search("", document, findings)
    return findings


def _search(prefix: str, section: Section, findings: FoundKeys) -> None:
    first_lines: dict[str, int] = {}
    declared_prefix = declared_path(prefix) if prefix else ""
    is_named = declared_prefix in NAMED_SECTIONS
    for key, node in section.entries():
        name = key.text.strip().lower() if is_named else key.text
        path = f"{prefix}.{name}" if prefix else name
        if is_named and not _is_name(prefix, key, findings):
            continue
        if not is_named and not _is_declared(declared_prefix, name):
            _note_unknown(prefix, declared_prefix, key, node, findings)
        elif path in first_lines:
            first = first_lines[path]
            problem = f"{path} appears twice, first on line {first}. Remove one of them."
            findings.problems.append((key.line, problem))
        else:
            first_lines[path] = key.line
            _note(path, key.line, node, findings)


def _note(path: str, line: int, node: Node, findings: FoundKeys) -> None:
    """Record the key or section at ``path``."""
    declared = declared_path(path)
    if declared in KEY_AT:
        findings.at[path] = (line, node)
        return
    if declared.endswith(">"):
        _declare(path, declared, findings)
    if isinstance(node, Section):
        _search(path, node, findings)
    elif isinstance(node, Scalar) and declared in SHORT_FORMS:
        findings.at[path + SHORT_FORMS[declared].removeprefix(declared)] = (line, node)
    elif not (isinstance(node, Scalar) and node.is_null):
        findings.problems.append((line, _not_a_section(path, declared, node)))


def _is_declared(declared_prefix: str, name: str) -> bool:
    declared = f"{declared_prefix}.{name}" if declared_prefix else name
    return "." not in name and (declared in KEY_AT or declared in SECTIONS)


def _note_unknown(
    prefix: str, declared_prefix: str, key: Scalar, node: Node, findings: FoundKeys
) -> None:
    warning = unknown_key_warning(declared_prefix, key.text, at=prefix)
    if warning is not None:
        findings.warnings.append((key.line, warning))
    elif declared_prefix in FREE_SECTIONS:
        findings.free.setdefault(prefix, {})[key.text] = (key.line, node)


# ── sections that the user names ──────────────────────────────────────────────────────────────


def _declare(path: str, declared: str, findings: FoundKeys) -> None:
    """Add the keys of a named section, under the name it has."""
    findings.keys += [
        key._replace(path=path + key.path.removeprefix(declared))
        for key in KEYS
        if key.path.startswith(f"{declared}.")
    ]
    if declared in FREE_SECTIONS:
        findings.free.setdefault(path, {})


def _is_name(prefix: str, key: Scalar, findings: FoundKeys) -> bool:
    """Tell whether a section may have this name, and record a warning about it."""
    if prefix == "platforms":
        return _is_platform(key, findings)
    options = list(get_args(ChatType))
    if key.text.strip().lower() in options:
        return True
    guess = closest_match(key.text, options, at_least=0.6)
    hint = (
        f"did you mean {prefix}.{guess}?" if guess else f"known in {prefix}: {', '.join(options)}"
    )
    text = f"{shown(f'{prefix}.{key.text}')} is not a known key and is ignored; {hint}"
    findings.warnings.append((key.line, text))
    return False


def _is_platform(key: Scalar, findings: FoundKeys) -> bool:
    path = shown(f"platforms.{key.text}")
    try:
        name = Name().parse(key.text, NO_CONTEXT)
    except NotAllowed:
        text = f"{path} is ignored because it is not a valid name; allowed: {Name.allowed}"
        findings.warnings.append((key.line, text))
        return False
    from hermes_sessions.model.source import Platform

    known = list(Platform.known())
    # Packages add platforms, so that only a likely misspelling is mentioned.
    guess = None if name in known else closest_match(name, [*known], at_least=0.82)
    if guess is not None and name not in _added_platforms():
        text = f"{path} is not a known platform; did you mean platforms.{guess}?"
        findings.warnings.append((key.line, text))
    return True


def _added_platforms() -> Container[str]:
    """Return the names of the platforms that installed packages add."""
    from importlib.metadata import entry_points  # slow, and hardly ever needed

    return entry_points(group=PLATFORM_ENTRY_POINTS).names


def _not_a_section(path: str, declared: str, node: Node) -> str:
    shape = "a single value" if isinstance(node, Scalar) else "a list"
    example = next(key.path for key in KEYS if key.path.startswith(f"{declared}."))
    return (
        f"{path} is {shape}, but it must be a section with keys, like "
        f"{example.replace(declared, path, 1)}. Write the keys below it, indented."
    )
