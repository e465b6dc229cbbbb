"""Connections and ``fork``: a child goes on with its own, and leaves the parent's alone."""

from __future__ import annotations

import os
import weakref
from typing import Any, Final, Protocol


class StartsOver(Protocol):
    """What is told about a fork."""

    def start_over_in_child(self) -> None:
        """Go on in a forked process without what was inherited, which belongs to the parent."""


#: Kept as long as the process lives: closing them would end the parent's sessions.
_inherited: Final[list[Any]] = []


def leave_to_parent(connections: Any) -> None:
    """Never close what a forked process inherited."""
    _inherited.append(connections)


class _Forking:
    def __init__(self) -> None:
        self._all: weakref.WeakSet[StartsOver] = weakref.WeakSet()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._tell)

    def watch(self, connections: StartsOver) -> None:
        self._all.add(connections)

    def _tell(self) -> None:
        for connections in list(self._all):
            connections.start_over_in_child()


_forking: Final = _Forking()
#: Tell these connections when the process was forked, as long as they live.
watch: Final = _forking.watch
