"""The databases on which search is tried: what it finds must not depend on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from hermes_sessions import SessionDB

#: Opens a handle on one store; takes keyword arguments of `SessionDB`.
OpenStore = Callable[..., SessionDB]


@contextmanager
def sqlite_store(folder: Path) -> Iterator[OpenStore]:
    def open_handle(**options: Any) -> SessionDB:
        return SessionDB(folder / "state.db", durability="normal", **options)

    yield open_handle


#: By name: makes an empty store, gives what opens it, and removes it afterwards.
PROVIDERS: dict[str, Callable[[Path], AbstractContextManager[OpenStore]]] = {
    "sqlite": sqlite_store,
}
