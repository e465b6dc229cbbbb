"""How settings are declared: one class per section, one field per key.

A field states the default, the kind of value, the environment variables and one line of
documentation. ``derived_keys.py`` derives the table of keys from the fields, so nothing is written
twice:

    class StreamingSettings(SettingsSection):
        enabled: bool = setting(True, kind=YesNo(), doc="Whether a reply is shown …")
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from pathlib import Path
from typing import (
    Any,
    ClassVar,
    NoReturn,
    TypeVar,
    cast,
    dataclass_transform,
)

from hermes_sessions.config.error_text import is_secret
from hermes_sessions.config.key_types import REQUIRED, HomeDefault, Key, Kind

V_co = TypeVar("V_co", covariant=True)


class Subsection:
    """A field that holds another section, or several under names that the user chooses."""

    __slots__ = ("is_optional", "placeholder", "section", "words")

    def __init__(
        self,
        section: type[SettingsSection],
        placeholder: str | None,
        words: Mapping[str, str],
        *,
        is_optional: bool = False,
    ) -> None:
        self.section = section
        #: Stands for a chosen name in paths, as in ``platforms.<name>``; None: one section.
        self.placeholder = placeholder
        #: Values for ``{…}`` in the docs of the fields.
        self.words = words
        #: Whether it is None when the file does not have it.
        self.is_optional = is_optional


Field = Key | Subsection | None


def setting(
    default: object,
    *,
    kind: Kind,
    doc: str,
    env: tuple[str, ...] = (),
    may_be_unset: bool = False,
    invalid_means_default: bool = False,
    ask: object = None,
) -> Any:
    """Declare one key of a section; its name is the name of the field.

    *env* are environment variables that override the file. With *may_be_unset*, a ``${VAR}`` that
    is not set means the default. With *invalid_means_default*, so does a value that is not allowed,
    with a warning. *ask* is for settings of platforms: how ``hermes gateway setup`` asks for it.
    """
    return Key("", kind, default, doc, env, may_be_unset, invalid_means_default, ask)


def section(section_class: type[S], /, **words: str) -> S:
    """Declare a section inside a section. *words* replace ``{…}`` in the docs of its fields."""
    return cast("S", Subsection(section_class, None, words))


def optional_section(section_class: type[S], /, **words: str) -> S | None:
    """Declare a section inside a section that is None when the file does not have it."""
    return cast("S | None", Subsection(section_class, None, words, is_optional=True))


def named_sections(placeholder: str, section_class: type[S], /, **words: str) -> NamedValues[S]:
    """Declare sections whose names the user chooses; *placeholder* stands for a name in paths."""
    return cast("NamedValues[S]", Subsection(section_class, placeholder, words))


def default_of(section_class: type[SettingsSection], name: str) -> Any:
    """Return the default of a setting."""
    return key_of(section_class, name).default


def key_of(section_class: type[SettingsSection], name: str) -> Key:
    """Return the declaration of the setting *name*, with an empty path.

    Raises:
        KeyError: the section has no setting of this name.
    """
    field = section_class.fields[name]
    if not isinstance(field, Key):
        raise KeyError(name)
    return field


def default_section(section_class: type[S], home: Path, /, **given: object) -> S:
    """Return a section with the defaults of a home directory, except for what is *given*."""
    return section_class(**_defaults(section_class.fields, given, home), **given)


@dataclass_transform(frozen_default=True, kw_only_default=True)
class SettingsSection:
    """Named values that never change, and that hide secrets.

    Values are given by name; a setting that is not given has its default. Hashable; equal to a
    section of the same class with equal values.

    A data class would do, but defining one takes ten times as long, and every start defines them
    all.
    """

    #: Every field of the class and its bases, in order; None for one that is not in the file.
    fields: ClassVar[Mapping[str, Field]] = {}
    #: Whether other programs keep keys of their own here: an unknown key is reported only when it
    #: looks like a misspelling.
    is_shared: ClassVar[bool] = False
    #: Whether unknown keys are kept, in a field named ``extra``.
    keeps_unknown_keys: ClassVar[bool] = False
    #: The key that a single value written in place of the section is for.
    short_form: ClassVar[str | None] = None

    def __init_subclass__(
        cls,
        *,
        shared: bool = False,
        keeps_unknown_keys: bool = False,
        short_form: str | None = None,
    ) -> None:
        own = {
            name: vars(cls).get(name)
            for name in vars(cls).get("__annotations__", ())
            if name != "fields"
        }
        cls.fields = {**cls.fields, **own}
        cls.is_shared = shared
        cls.keeps_unknown_keys = keeps_unknown_keys
        cls.short_form = short_form

    def __init__(self, **values: object) -> None:
        fields = type(self).fields
        if values.keys() != fields.keys():
            values = {**_defaults(fields, values.keys()), **values}
        if values.keys() != fields.keys():
            wrong = ", ".join(sorted(values.keys() ^ fields.keys()))
            raise TypeError(f"{type(self).__name__}: missing or unknown: {wrong}")
        self.__dict__.update({name: values[name] for name in fields})

    def __setattr__(self, name: str, _value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__}.{name} cannot be changed")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{type(self).__name__}.{name} cannot be removed")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash((type(self), *self.__dict__.values()))

    def __repr__(self) -> str:
        shown = {name: value for name, value in self.__dict__.items() if not is_secret(name)}
        return f"{type(self).__name__}({', '.join(f'{n}={v!r}' for n, v in shown.items())})"


S = TypeVar("S", bound=SettingsSection)


def _defaults(
    fields: Mapping[str, Field], given: Container[str], home: Path | None = None
) -> dict[str, object]:
    """Return the defaults of fields that are not *given*; some have none without a home."""
    found: dict[str, object] = {}
    for name, field in fields.items():
        if name in given or field is None:
            continue
        if isinstance(field, Subsection):
            if field.is_optional:
                found[name] = None
            elif field.placeholder:
                found[name] = NamedValues({})
            else:
                inner = field.section
                found[name] = default_section(inner, home) if home else inner()
        elif field.default is REQUIRED:
            continue
        elif not isinstance(field.default, HomeDefault):
            found[name] = field.default
        elif home is not None:
            found[name] = field.default.value(home)
    return found


class NamedValues(Mapping[str, V_co]):
    """Values under names that the user chose. Never changes, is hashable, and hides secrets."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, V_co]) -> None:
        self._values = dict(values)

    def __getitem__(self, name: str) -> V_co:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __hash__(self) -> int:
        return hash(frozenset(self._values.items()))

    def __repr__(self) -> str:
        shown = {name: value for name, value in self._values.items() if not is_secret(name)}
        return f"{type(self).__name__}({shown!r})"
