"""Hermes Sessions: the session layer for AI agents.

>>> from hermes_sessions import SessionDB
>>> db = SessionDB(":memory:")
>>> db.create_session("s1", source="cli")
's1'
>>> db.append_message("s1", role="user", content="Hello") > 0
True
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hermes_sessions.errors import (
    ConfigError,
    ConstraintViolated,
    DiskFull,
    HermesSessionsError,
    ImportRefused,
    InvalidInput,
    InvalidTitle,
    MessageTooLarge,
    NotADatabase,
    NotFound,
    SchemaRefused,
    StaleFence,
    StatementRefused,
    StoreClosed,
    StoreCorrupt,
    StoreError,
    StoreIOError,
    StoreLocked,
    StoreReadOnly,
    StoreUnavailable,
    StoreUnreachable,
    TitleTaken,
    UnknownSession,
    UnsafeStore,
)
from hermes_sessions.model.scope import Scope
from hermes_sessions.storage.provider import SessionDBProvider
from hermes_sessions.storage.sessiondb import SessionDB

if TYPE_CHECKING:
    from hermes_sessions.storage.async_db import AsyncSessionDB
    from hermes_sessions.text.query.filters import Conditions

__all__ = [
    "AsyncSessionDB",
    "Conditions",
    "ConfigError",
    "ConstraintViolated",
    "DiskFull",
    "HermesSessionsError",
    "ImportRefused",
    "InvalidInput",
    "InvalidTitle",
    "MessageTooLarge",
    "NotADatabase",
    "NotFound",
    "SchemaRefused",
    "Scope",
    "SessionDB",
    "SessionDBProvider",
    "StaleFence",
    "StatementRefused",
    "StoreClosed",
    "StoreCorrupt",
    "StoreError",
    "StoreIOError",
    "StoreLocked",
    "StoreReadOnly",
    "StoreUnavailable",
    "StoreUnreachable",
    "TitleTaken",
    "UnknownSession",
    "UnsafeStore",
]


def __getattr__(name: str) -> Any:
    # Loaded when first asked for: most uses of a store do not search, or have no event loop.
    if name == "Conditions":
        from hermes_sessions.text.query.filters import Conditions

        globals()[name] = Conditions
        return Conditions
    if name == "AsyncSessionDB":
        from hermes_sessions.storage.async_db import AsyncSessionDB

        globals()[name] = AsyncSessionDB
        return AsyncSessionDB
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
