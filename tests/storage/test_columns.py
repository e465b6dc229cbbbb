"""Message columns are declared once; methods, checks and the table agree."""

from __future__ import annotations

import inspect

from hermes_sessions.storage.repositories.rows import (
    MESSAGE_COLUMNS,
    MESSAGE_FIELDS,
    MESSAGE_JSON,
    MESSAGE_TEXTS,
    MESSAGE_VALUES,
    STORED_FIELDS,
)
from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions.storage.tables import MESSAGES, given

#: Columns that only exports show, and the one that no record has.
INTERNAL = {"content_type", "rewind_id", "extra", "attachments"}


def test_every_column_of_the_table_has_a_reader() -> None:
    assert {column.name for column in MESSAGES.columns} == {*MESSAGE_COLUMNS, *INTERNAL}


def test_what_a_caller_says_is_what_append_takes() -> None:
    taken = set(inspect.signature(SessionDB.append_message).parameters)
    assert taken - {"self", "session_id", "fence", "expected_revision"} == set(MESSAGE_FIELDS)


def test_every_field_is_of_one_kind() -> None:
    others = ["content", "timestamp", "token_count", *given(MESSAGES, "flag")]
    assert sorted([*MESSAGE_TEXTS, *MESSAGE_JSON, *MESSAGE_VALUES, *others]) == sorted(
        MESSAGE_FIELDS
    )
    assert sorted(STORED_FIELDS) == sorted([*MESSAGE_FIELDS, "content_type"])
