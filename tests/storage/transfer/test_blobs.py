"""Blobs reach every database unchanged, and stay as long as something there needs them."""

from __future__ import annotations

import itertools

import pytest

from hermes_sessions.errors import NotFound
from hermes_sessions.storage.provider_registry import open_url
from tests.storage.transfer.stores import KINDS, NewStore, compared, move, opened

LARGE = bytes(range(256)) * 4096
PAIRS = list(itertools.product(KINDS, repeat=2))


def filled(url: str) -> str:
    with opened(url) as db:
        db.create_session("s", "cli")
        db.append_message("s", "user", "hello")
        db.put_blob(LARGE, namespace="checkpoints", key="t/1")
        db.put_blob(b"\x00'\\", namespace="checkpoints", key="t/2")
    return url


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_they_are_copied(new_store: NewStore, first: str, second: str) -> None:
    source, target = filled(new_store(first)), new_store(second)
    assert move(source, target).differences == []
    comparison = compared(source, target)
    assert comparison.differences == []
    assert (comparison.beside["blobs"], comparison.beside["blob_references"]) == (2, 2)
    with opened(target) as db:
        references = db.list_blob_references("checkpoints")
        assert [db.get_blob(row["digest"]) for row in references] == [LARGE, b"\x00'\\"]
        assert db.sweep_blobs()["removed"] == 0


def test_again_copies_what_changed(new_store: NewStore) -> None:
    source, target = filled(new_store("sqlite")), new_store("sqlite")
    move(source, target)
    with opened(source) as db:
        db.remove_blob_references("checkpoints", "t/1")
        db.sweep_blobs()
        new = db.put_blob(b"new", namespace="checkpoints", key="t/3")
    assert move(source, target).differences == []
    with opened(target, clock=lambda: 4e9) as db:
        keys = [row["key"] for row in db.list_blob_references("checkpoints")]
        assert keys == ["t/2", "t/3"]
        assert db.sweep_blobs() == {"removed": 1, "bytes": len(LARGE)}
        assert db.get_blob(new) == b"new"
    assert compared(source, target).differences == []


def test_a_comparison_finds_what_differs(new_store: NewStore) -> None:
    source, target = filled(new_store("sqlite")), new_store("sqlite")
    move(source, target)
    with opened(target) as db:
        extra = db.put_blob(b"only there", namespace="checkpoints", key="t/9")
        [large, small, _] = db.list_blob_references("checkpoints")
    provider = open_url(target)
    try:
        provider.write(
            lambda tx: [
                tx.run("UPDATE blob_parts SET data = ? WHERE part = ?", (b"x", 1)),
                tx.run("DELETE FROM blobs WHERE digest = ?", (small["digest"],)),
            ]
        )
    finally:
        provider.close()
    found = {d.id: d.what for d in compared(source, target).differences}
    assert found[f"blobs {large['digest']}"] == "is damaged in the second"
    assert found[f"blobs {small['digest']}"] == "only in the first"
    assert found[f"blobs {extra}"] == "only in the second"


def test_a_damaged_one_stays_behind(new_store: NewStore) -> None:
    source, target = filled(new_store("sqlite")), new_store("sqlite")
    with opened(source) as db:
        [large, small] = db.list_blob_references("checkpoints")
        db.provider.write(
            lambda tx: tx.run(
                "UPDATE blob_parts SET data = ? WHERE digest = ?", (b"", large["digest"])
            )
        )
    [difference] = move(source, target).differences
    assert difference.id == f"blobs {large['digest']}"
    assert "doctor" in difference.what
    with opened(target) as db:
        assert db.get_blob(small["digest"]) == b"\x00'\\"
        with pytest.raises(NotFound):
            db.get_blob(large["digest"])
