"""Any content with any base64 in it comes back deep-equal, and the row keeps none of it."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes_sessions.storage.attachment_texts import lift, placeholder, restore
from hermes_sessions.storage.repositories.blobs import digest_of
from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions.storage.store_context import AttachmentLimits

THRESHOLD = 64
encoded = st.binary(min_size=0, max_size=200).map(lambda data: b64encode(data).decode())
urls = st.builds(
    lambda kind, end, data: f"data:{kind};base64,{data}{end}",
    st.sampled_from(["image/png", "image/svg+xml", "", "text/plain;charset=utf-8"]),
    st.sampled_from(["", ")", '"', " and more", "\n", "=", "\\", "/"]),
    encoded,
)
quoted = st.binary(min_size=48, max_size=60).map(lambda data: placeholder(digest_of(data)))
texts = st.one_of(
    st.text(max_size=80), urls, encoded, quoted, st.lists(urls, max_size=3).map("![x](".join)
)
keys = st.sampled_from(["data", "type", "url", "media_type", "text", "name", "b64_json"])
values = st.recursive(
    st.one_of(
        texts,
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(allow_nan=False, allow_infinity=False),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.one_of(keys, st.text(max_size=5)), inner, max_size=4),
        inner.map(lambda value: json.dumps({"data": value})),
    ),
    max_leaves=12,
)


@pytest.fixture(scope="module")
def db() -> Iterator[SessionDB]:
    with SessionDB(":memory:", attachments=AttachmentLimits(THRESHOLD, 10_000)) as opened:
        yield opened


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(text=st.one_of(texts, values.map(json.dumps), st.lists(texts).map("".join)))
def test_lifting_is_reversed(text: str) -> None:
    lifted = lift(text, THRESHOLD)
    back = {d: b64encode(data).decode() for d, data in lifted.attachments.items()}
    assert restore(lifted.text, back) == text
    assert all(digest_of(data) == digest for digest, data in lifted.attachments.items())
    assert all(placeholder(digest) in lifted.text for digest in lifted.attachments)


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    content=st.one_of(
        st.lists(values, max_size=4),
        st.dictionaries(keys, values, max_size=4),
        st.binary(max_size=300),
        texts,
    ),
    payload=values,
)
def test_messages_come_back(db: SessionDB, content: Any, payload: Any) -> None:
    session_id = db.create_session(source="cli")
    try:
        message = {"role": "user", "content": content, "payload": payload}
        db.append_messages(session_id, [message])
        [read] = db.get_messages(session_id)
        assert read["content"] == content
        assert read["payload"] == payload
        for attachment in db.list_attachments(session_id):
            data = db.get_attachment(attachment["id"])["data"]
            assert len(data) == attachment["size"]
    finally:
        db.delete_session(session_id)
    with db.provider.read() as tx:
        assert tx.one("SELECT COUNT(*) FROM blobs") == (0,)


@pytest.mark.parametrize("end", ['"', "'", ")", " ", "\n", ">", ""])
def test_where_base64_may_end(end: str) -> None:
    data = bytes(range(90))
    lifted = lift(f"data:image/png;base64,{b64encode(data).decode()}{end}", THRESHOLD)
    assert list(lifted.attachments.values()) == [data]


def test_hostile_text_takes_no_time() -> None:
    """Long runs that end in the wrong place are scanned once."""
    for text in (
        ";base64," + "A" * 3_000_000 + "!",
        (";base64," + "A" * 70 + "!") * 30_000,
        '"data": "' * 300_000,
        "A" * 3_000_000,
    ):
        assert lift(text, THRESHOLD).attachments == {}
