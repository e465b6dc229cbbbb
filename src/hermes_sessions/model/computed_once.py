"""A property that is computed when first asked for, and kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

T = TypeVar("T")


class computed_once(Generic[T]):  # noqa: N801 - it is used like `property`
    """What `functools.cached_property` is from Python 3.12 on.

    That of 3.11 holds a lock while it computes, one for all objects of a class. Whoever is forked
    meanwhile would wait for it for ever: the thread that holds it is not there. Here two threads
    may compute at the same time; everybody gets the value that was first.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self._name = ""
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: object | None, owner: type) -> Self | T:
        if instance is None:
            return self
        # From now on the attribute is found before this property is asked.
        kept: T = instance.__dict__.setdefault(self._name, self._compute(instance))
        return kept
