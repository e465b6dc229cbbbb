"""What a section of the settings is: named values that never change, and that hide secrets.

A data class would do, but defining one takes ten times as long, and every start defines them all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NoReturn, TypeVar, dataclass_transform

from hermes_sessions.config.error_text import is_secret

V_co = TypeVar("V_co", covariant=True)


@dataclass_transform(frozen_default=True, kw_only_default=True)
class SettingsSection:
    """One value for each annotation of the class, all given by name.

    Hashable; equal to a section of the same class with equal values.
    """

    def __init__(self, **values: object) -> None:
        names = type(self).__annotations__
        if values.keys() != names.keys():
            wrong = ", ".join(sorted(values.keys() ^ names.keys()))
            raise TypeError(f"{type(self).__name__}: missing or unknown: {wrong}")
        self.__dict__.update({name: values[name] for name in names})

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


class NamedValues(Mapping[str, V_co]):
    """Values under names of the user's choice. Never changes, is hashable, and hides secrets."""

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
