"""Blobs: bytes stored once, kept while something refers to them."""

from __future__ import annotations

import random

import pytest

from hermes_sessions.errors import BlobDamaged, InvalidInput, NotFound
from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions_testing.clock import FrozenClock
from hermes_sessions_testing.conformance.concurrency import at_once
from hermes_sessions_testing.conformance.fixtures import OpenStore

DAY = 86400.0
PART = 256 * 1024
_BYTES = random.Random(0).randbytes(3 * PART + 17)  # noqa: S311 - test data
SAMPLES = {
    "empty": b"",
    "one byte": b"\x00",
    "all bytes": bytes(range(256)),
    "quotes": b"'\\\"\x00\x1a'' ; --",
    "exactly one part": _BYTES[:PART],
    "one byte more": _BYTES[: PART + 1],
    "several parts": _BYTES,
    "compressible": b'{"role": "user"}' * 50_000,
}


def rows(db: SessionDB, table: str) -> int:
    """Return the number of rows of a table."""
    with db.provider.read() as tx:
        row = tx.one(f"SELECT COUNT(*) FROM {table}")
    return row[0] if row else 0


class TestBlobs:
    """Storing, reading and sweeping."""

    @pytest.mark.parametrize("name", SAMPLES)
    def test_a_blob_comes_back(self, db: SessionDB, open_another: OpenStore, name: str) -> None:
        """Any bytes are read back unchanged, whole or in parts, by every handle."""
        data = SAMPLES[name]
        digest = db.put_blob(data)
        other = open_another()
        assert other.get_blob(digest) == data
        assert b"".join(other.iter_blob(digest)) == data
        assert max(map(len, other.iter_blob(digest))) <= PART
        assert other.get_blob_size(digest) == len(data)

    def test_the_digest_names_the_content(self, db: SessionDB) -> None:
        """The digest is the BLAKE2b-256 of the bytes, on every database."""
        assert db.put_blob(b"hello") == (
            "324dcf027dd4a30a932c441f365a25e86b173defa4b8e58948253471b81b72cf"
        )

    def test_equal_bytes_are_stored_once(self, db: SessionDB) -> None:
        """Storing the same bytes again adds nothing."""
        first = db.put_blob(_BYTES)
        parts = rows(db, "blob_parts")
        assert db.put_blob(bytearray(_BYTES), namespace="n", key="k") == first
        assert db.put_blob(memoryview(_BYTES)) == first
        assert rows(db, "blobs") == 1
        assert rows(db, "blob_parts") == parts == 4

    def test_text_is_compressed(self, db: SessionDB) -> None:
        """What becomes smaller is stored compressed; what does not is stored as it is."""
        text = db.put_blob(SAMPLES["compressible"])
        noise = db.put_blob(_BYTES)
        with db.provider.read() as tx:
            stored = {
                digest: sum(len(row[0]) for row in tx.all(_PARTS, (digest,)))
                for digest in (text, noise)
            }
        assert stored[text] < len(SAMPLES["compressible"]) / 10
        assert stored[noise] == len(_BYTES)

    def test_what_does_not_exist(self, db: SessionDB) -> None:
        """Unknown digests have no size; reading or keeping them is refused."""
        unknown = "0" * 64
        assert db.get_blob_size(unknown) is None
        with pytest.raises(NotFound, match="put_blob"):
            db.get_blob(unknown)
        with pytest.raises(NotFound):
            list(db.iter_blob(unknown))
        with pytest.raises(NotFound):
            db.add_blob_reference(unknown, "n")
        assert db.list_blob_references("n") == []

    @pytest.mark.parametrize("digest", ["", "abc", "G" * 64, "0" * 63, None, 5])
    def test_a_digest_that_is_none(self, db: SessionDB, digest: str) -> None:
        """What cannot be a digest is refused with words."""
        with pytest.raises(InvalidInput, match="64 hexadecimal digits"):
            db.get_blob(digest)

    def test_only_bytes(self, db: SessionDB) -> None:
        """Text is not stored as bytes by guessing an encoding."""
        with pytest.raises(InvalidInput, match="bytes, not str"):
            db.put_blob("text")  # type: ignore[arg-type]

    def test_references_are_listed_and_removed(self, db: SessionDB) -> None:
        """Each key of a namespace has its own references."""
        one, two = db.put_blob(b"1", namespace="n", key="a"), db.put_blob(b"2")
        db.add_blob_reference(two, "n", "a")
        db.add_blob_reference(two, "n", "b")
        db.add_blob_reference(two, "n", "b")
        db.add_blob_reference(two, "other")
        listed = db.list_blob_references("n")
        assert sorted((row["key"], row["digest"]) for row in listed) == sorted(
            [("a", one), ("a", two), ("b", two)]
        )
        assert db.list_blob_references("n", "b") == [{"namespace": "n", "key": "b", "digest": two}]
        assert db.remove_blob_references("n", "b") == 1
        assert db.remove_blob_references("n") == 2
        assert db.remove_blob_references("n") == 0
        assert [row["digest"] for row in db.list_blob_references("other")] == [two]

    def test_a_sweep_removes_what_nothing_refers_to(self, db: SessionDB) -> None:
        """A blob stays while one reference is left."""
        digest = db.put_blob(_BYTES, namespace="n", key="a")
        db.add_blob_reference(digest, "n", "b")
        db.remove_blob_references("n", "a")
        assert db.sweep_blobs() == {"removed": 0, "bytes": 0}
        db.remove_blob_references("n", "b")
        assert db.get_blob(digest) == _BYTES
        assert db.sweep_blobs() == {"removed": 1, "bytes": len(_BYTES)}
        assert db.get_blob_size(digest) is None
        assert rows(db, "blob_parts") == 0

    def test_there_is_a_day_to_refer_to_a_blob(self, db: SessionDB, clock: FrozenClock) -> None:
        """A sweep leaves what a writer has just stored, also if it was there before."""
        digest = db.put_blob(b"x")
        clock.advance(DAY - 1)
        db.put_blob(b"x")
        clock.advance(DAY - 1)
        assert db.sweep_blobs()["removed"] == 0
        clock.advance(2)
        assert db.sweep_blobs()["removed"] == 1
        assert db.get_blob_size(digest) is None

    def test_maintenance_sweeps(self, db: SessionDB, clock: FrozenClock) -> None:
        """Automatic maintenance removes what nothing needs."""
        digest = db.put_blob(b"x")
        clock.advance(2 * DAY)
        db.maybe_auto_prune_and_vacuum()
        assert db.get_blob_size(digest) is None

    def test_damage_is_noticed_and_healed(self, db: SessionDB) -> None:
        """Bytes that differ are never returned; storing the right ones again heals lost parts."""
        digest = db.put_blob(_BYTES)
        other = db.put_blob(SAMPLES["compressible"])
        change = "UPDATE blob_parts SET data = ? WHERE digest = ? AND part = ?"
        lose = "DELETE FROM blob_parts WHERE digest = ? AND part = ?"
        db.provider.write(lambda tx: tx.run(change, (b"broken", other, 0)))
        db.provider.write(lambda tx: tx.run(lose, (digest, 1)))
        for damaged in (digest, other):
            with pytest.raises(BlobDamaged, match="hermes doctor"):
                db.get_blob(damaged)
            with pytest.raises(BlobDamaged):
                list(db.iter_blob(damaged))
        db.put_blob(_BYTES)
        assert db.get_blob(digest) == _BYTES

    def test_writers_and_sweeps_at_once(self, db: SessionDB, open_another: OpenStore) -> None:
        """A blob that a writer refers to is there, whatever sweeps run meanwhile."""
        handles = [open_another() for _ in range(4)]
        kept = [_BYTES[number : number + 1000] for number in range(6)]

        def work(number: int) -> None:
            mine = handles[number]
            for step in range(12):
                data = kept[step % len(kept)]
                if number == 0:
                    mine.sweep_blobs()
                    continue
                digest = mine.put_blob(data, namespace=f"n{number}", key=str(step))
                assert mine.get_blob(digest) == data
                if step % 3:
                    mine.remove_blob_references(f"n{number}", str(step))

        at_once(work, threads=4)
        for number in range(1, 4):
            for row in db.list_blob_references(f"n{number}"):
                assert db.get_blob(row["digest"]) in kept
        db.sweep_blobs()
        referred = {row["digest"] for n in range(1, 4) for row in db.list_blob_references(f"n{n}")}
        assert rows(db, "blobs") == len(referred)


_PARTS = "SELECT data FROM blob_parts WHERE digest = ? ORDER BY part"
