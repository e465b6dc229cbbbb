"""Parts of a store that are imported and made when a verb first needs them.

A process uses few of the verbs: one that lists sessions does not wait for what rewinds them.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Part(Generic[T]):
    """An attribute of `SessionDB` that holds a repository; *module* and *name* say which."""

    def __init__(self, module: str, name: str) -> None:
        self._module = f"hermes_sessions.storage.repositories.{module}"
        self._name = name

    def __set_name__(self, _owner: type, attribute: str) -> None:
        self._attribute = attribute

    def __get__(self, db: Any, _owner: type) -> T:
        part: T = getattr(import_module(self._module), self._name)(db._store)
        # Found there from now on, before anybody asks for it here.
        db.__dict__[self._attribute] = part
        return part
