"""Every key of the configuration file, derived from the fields of `Settings`.

Validation, error messages, suggestions and the reference in ``docs/configuration.md`` read these
tables. In a path, a part like ``<name>`` stands for any name.
"""

from __future__ import annotations

from hermes_sessions.config.key_types import Key
from hermes_sessions.config.sections import SettingsSection, Subsection
from hermes_sessions.config.settings import Settings


def derive_keys(
    section: type[SettingsSection], path: str = "", **words: str
) -> tuple[list[Key], dict[str, type[SettingsSection]]]:
    """Return the keys in *section* and below, and the class of each section by its path.

    Keys are in the order of the fields, outer sections come before inner ones. *words* replace
    ``{…}`` in docs.
    """
    keys: list[Key] = []
    classes = {path: section}
    for name, field in section.fields.items():
        at = f"{path}.{name}" if path else name
        if isinstance(field, Subsection):
            inner = f"{at}.<{field.placeholder}>" if field.placeholder else at
            inner_keys, inner_classes = derive_keys(field.section, inner, **field.words)
            keys += inner_keys
            classes |= inner_classes
        elif field is not None:
            doc = field.doc
            for word, text in words.items():
                doc = doc.replace(f"{{{word}}}", text)
            keys.append(Key(at, field.kind, field.default, doc, *field[4:]))
    return keys, classes


KEYS, SECTION_CLASSES = derive_keys(Settings)
"""All keys, and the class of every section. A section of named sections is a `NamedValues`."""

FIXED_KEYS: tuple[Key, ...] = tuple(key for key in KEYS if "<" not in key.path)
"""The keys whose whole path is known."""

KEY_AT: dict[str, Key] = {key.path: key for key in KEYS}

NAMED_SECTIONS: dict[str, str] = {
    path.rpartition(".")[0]: path.rpartition(".")[2] for path in SECTION_CLASSES if path[-1:] == ">"
}
"""Sections that hold further sections under names that the user chooses, and the placeholder."""

SECTIONS: frozenset[str] = frozenset((*SECTION_CLASSES, *NAMED_SECTIONS)) - {""}
"""Every path that leads to a key and must hold further keys."""


def declared_path(path: str) -> str:
    """Return the path under which a key or section is declared, with placeholders for names."""
    declared = ""
    for part in path.split("."):
        found = NAMED_SECTIONS.get(declared, part)
        declared = f"{declared}.{found}" if declared else found
    return declared


SHORT_FORMS: dict[str, str] = {
    path: f"{path}.{section.short_form}"
    for path, section in SECTION_CLASSES.items()
    if section.short_form
}
"""Sections that may be written as a single value, and the key that value is for."""

SHARED_SECTIONS: frozenset[str] = frozenset(
    path for path, section in SECTION_CLASSES.items() if section.is_shared
)
"""Where other programs that read the same file keep keys of their own ("" is the top level): an
unknown key is mentioned only when it looks like a misspelling of ours."""

FREE_SECTIONS: frozenset[str] = frozenset(
    path for path, section in SECTION_CLASSES.items() if section.keeps_unknown_keys
)
"""Sections whose unknown keys are kept."""

RESERVED: frozenset[str] = frozenset(
    {
        "approvals",
        "compression",
        "max_concurrent_sessions",
        "sessions.min_interval_hours",
        "sessions.vacuum_after_prune",
        "sessions.write_json_snapshots",
    }
)
"""Names that belong to other parts and programs: neither read nor warned about."""
