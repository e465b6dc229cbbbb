"""Hermes Sessions: the session layer for AI agents.

>>> from hermes_sessions import SessionDB
>>> db = SessionDB(":memory:")
>>> db.create_session("s1", source="cli")
's1'
>>> db.append_message("s1", role="user", content="Hello") > 0
True
"""

from __future__ import annotations

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
from hermes_sessions.storage.provider import SessionDBProvider
from hermes_sessions.storage.sessiondb import SessionDB

__all__ = [
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
