"""Session entries, and their form in ``sessions.json``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import FrozenInstanceError, fields, replace
from datetime import UTC, datetime
from typing import Any

import pytest

from hermes_sessions.errors import InvalidInput
from hermes_sessions.lifecycle.session_entry import SessionEntry
from hermes_sessions.model.source import Platform
from tests.lifecycle.senders import ANN, ANNS_KEY
from tests.timezones import host_in

CREATED = datetime(2025, 7, 15, 12, 0, 0, 123456, tzinfo=UTC)
ENTRY = SessionEntry(
    ANNS_KEY,
    "20250715_120000_0123abcd",
    CREATED,
    datetime(2025, 12, 1, 8, 30, tzinfo=UTC),
    origin=ANN,
    display_name="Ann",
    platform=Platform.TELEGRAM,
    input_tokens=1,
    output_tokens=2,
    cache_read_tokens=3,
    cache_write_tokens=4,
    total_tokens=10,
    estimated_cost_usd=0.25,
    cost_status="estimated",
    last_prompt_tokens=5,
    was_auto_reset=True,
    auto_reset_reason="idle",
    reset_had_activity=True,
    expiry_finalized=True,
    resume_pending=True,
    resume_reason="restart_timeout",
    last_resume_marked_at=CREATED,
)


@pytest.fixture(autouse=True)
def _in_new_york() -> Iterator[None]:
    with host_in("America/New_York"):
        yield


def test_the_documented_form() -> None:
    values = ENTRY.to_dict()
    assert (values["created_at"], values["updated_at"]) == (
        "2025-07-15T08:00:00.123456",
        "2025-12-01T03:30:00",
    )
    assert values["platform"] == "telegram"
    assert values["origin"] == ANN.to_dict()
    documented = {field.name for field in fields(SessionEntry)}
    assert set(values) == documented
    assert "origin" not in replace(ENTRY, origin=None).to_dict()


def test_there_and_back() -> None:
    assert SessionEntry.from_dict(json.loads(json.dumps(ENTRY.to_dict()))) == ENTRY


def test_what_may_be_missing() -> None:
    required = {name: ENTRY.to_dict()[name] for name in ("session_key", "session_id")}
    required |= dict.fromkeys(("created_at", "updated_at"), "2025-07-15T08:00:00.123456")
    assert SessionEntry.from_dict(required) == SessionEntry(
        ENTRY.session_key, ENTRY.session_id, CREATED, CREATED
    )


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"platform": "of a plug-in"}, {"platform": None}),
        ({"last_resume_marked_at": "yesterday"}, {"last_resume_marked_at": None}),
        ({"last_resume_marked_at": None}, {"last_resume_marked_at": None}),
        ({"input_tokens": None}, {"input_tokens": 0}),
        ({"created_at": "2025-07-15T12:00:00.123456+00:00"}, {}),
        ({"later": "version"}, {}),
    ],
)
def test_what_is_forgiven(change: dict[str, Any], expected: dict[str, Any]) -> None:
    assert SessionEntry.from_dict(ENTRY.to_dict() | change) == replace(ENTRY, **expected)


def test_the_older_name_of_finalized() -> None:
    values = ENTRY.to_dict()
    del values["expiry_finalized"]
    assert SessionEntry.from_dict(values | {"memory_flushed": True}).expiry_finalized
    assert not SessionEntry.from_dict(values).expiry_finalized


@pytest.mark.parametrize(
    "change",
    [
        {"session_key": None},
        {"session_id": ""},
        {"session_id": 7},
        {"created_at": "yesterday"},
        {"updated_at": 5},
        {"origin": {"platform": "of a plug-in", "chat_id": "1"}},
        {"origin": []},
        {"updated_at": "9999-12-31T23:59:59+00:00"},
        {"input_tokens": "many"},
        {"input_tokens": float("nan")},
        {"input_tokens": -1},
        {"total_tokens": 1e300},
        {"estimated_cost_usd": "much"},
        {"estimated_cost_usd": 10**400},
        {"display_name": ["Ann"]},
    ],
)
def test_what_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        SessionEntry.from_dict(ENTRY.to_dict() | change)


@pytest.mark.parametrize("value", [True, None, "entry", []])
def test_an_invalid_entry(value: Any) -> None:
    with pytest.raises(InvalidInput):
        SessionEntry.from_dict(value)


def test_an_entry_does_not_change() -> None:
    with pytest.raises(FrozenInstanceError):
        ENTRY.suspended = True  # type: ignore[misc]
