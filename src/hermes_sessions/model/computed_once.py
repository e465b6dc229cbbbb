"""A property that is computed on first access and then cached."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

T = TypeVar("T")


class computed_once(Generic[T]):  # noqa: N801 - it is used like `property`
    """Cache a computed attribute, like `functools.cached_property` from Python 3.12 on.

    In Python 3.11 that holds one lock for all objects of a class while it computes. A process
    forked meanwhile would wait for it forever, because the thread that holds it does not exist
    there. Here two threads may compute at the same time; both get the value stored first.
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
        # From now on Python finds the instance attribute before this descriptor.
        kept: T = instance.__dict__.setdefault(self._name, self._compute(instance))
        return kept
