"""Blobs: bytes that are stored once, under the digest of their content.

References say who needs a blob. A sweep removes blobs without any, and recognises references of
messages and documents that are gone. To add a reference and to remove a blob, a transaction locks
the row of the blob first, so that neither misses the other. See docs/decisions/0024-blobs.md.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property, partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hermes_sessions.errors import BlobDamaged, InvalidInput, NotFound
from hermes_sessions.model.ids import require_bounded, require_id
from hermes_sessions.storage.provider import ReadTransaction, WriteTransaction, placeholders
from hermes_sessions.storage.store_context import StoreContext
from hermes_sessions.storage.tables import BLOB_REFERENCES, BLOBS, Table

if TYPE_CHECKING:
    from hermes_sessions.storage.records import BlobReference, BlobSweep

STEP: Final = "0009_integrations"
#: Bytes of one part.
PART_BYTES: Final = 256 * 1024
#: Bytes of the largest blob: it is written in one transaction.
_MAX_BYTES: Final = 1024**3
#: How long a blob without references is kept after `put_blob`, in seconds.
KEPT_SECONDS: Final = 86400.0
_COMPRESSION: Final = "zlib"
#: A blob is compressed if its first part becomes smaller than this share.
_WORTHWHILE: Final = 0.9
_DIGEST: Final = re.compile("[0-9a-f]{64}")
_PAGE: Final = 100
_IDS_PER_QUERY: Final = 500

MESSAGE: Final = "message"
NAMESPACE: Final = "namespace"
_STATE: Final = "state:"


class Reference(NamedTuple):
    """What needs a blob; see the columns of ``blob_references``."""

    kind: str
    owner: str
    item: str


def digest_of(data: bytes) -> str:
    """Return the digest that names these bytes."""
    return blake2b(data, digest_size=32).hexdigest()


class NewBlob:
    """Bytes to store; compressed when a transaction first needs their parts."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.digest = digest_of(data)

    @cached_property
    def compression(self) -> str:
        """How the parts are compressed; empty if that saves nothing."""
        first = self.data[:PART_BYTES]
        return _COMPRESSION if len(zlib.compress(first)) < _WORTHWHILE * len(first) else ""

    @cached_property
    def parts(self) -> list[bytes]:
        """The stored parts, in order; at least one."""
        plain = [
            self.data[start : start + PART_BYTES]
            for start in range(0, max(1, len(self.data)), PART_BYTES)
        ]
        return [zlib.compress(part) for part in plain] if self.compression else plain


# In an open transaction


def store_blob(
    tx: WriteTransaction, store: StoreContext, blob: NewBlob, *, kept_until: float = 0.0
) -> None:
    """Store a blob unless it is there, and lock it until the end of the transaction.

    Parts that were lost are stored again.
    """
    dialect = store.provider.dialect
    names = _names(BLOBS)
    # The update changes nothing, but locks the row that is there, or waits for its removal.
    tx.run(
        dialect.upsert("blobs", names, BLOBS.key, BLOBS.key),
        (
            blob.digest,
            len(blob.data),
            len(blob.parts),
            blob.compression,
            store.clock(),
            kept_until,
        ),
    )
    tx.run(
        "UPDATE blobs SET kept_until = ? WHERE digest = ? AND kept_until < ?",
        (kept_until, blob.digest, kept_until),
    )
    found = tx.one(
        "SELECT parts, compression, (SELECT COUNT(*) FROM blob_parts WHERE digest = ?) "
        "FROM blobs WHERE digest = ?",
        (blob.digest, blob.digest),
    )
    if found != (len(blob.parts), blob.compression, len(blob.parts)):
        _write_parts(tx, blob)


def _write_parts(tx: WriteTransaction, blob: NewBlob) -> None:
    tx.run("DELETE FROM blob_parts WHERE digest = ?", (blob.digest,))
    tx.run(
        "UPDATE blobs SET size = ?, parts = ?, compression = ? WHERE digest = ?",
        (len(blob.data), len(blob.parts), blob.compression, blob.digest),
    )
    insert = "INSERT INTO blob_parts (digest, part, data) VALUES (?, ?, ?)"
    for number, part in enumerate(blob.parts):
        tx.run(insert, (blob.digest, number, part))


def add_references(
    tx: WriteTransaction, store: StoreContext, references: Iterable[tuple[Reference, str]]
) -> None:
    """Store references to blobs that the transaction has locked."""
    upsert = store.provider.dialect.upsert(
        "blob_references", _names(BLOB_REFERENCES), BLOB_REFERENCES.key, ("digest",)
    )
    tx.run_many(upsert, [(*reference, digest) for reference, digest in references])


def lock_blob(tx: WriteTransaction, store: StoreContext, digest: str) -> bool:
    """Keep a blob from being removed until the end of the transaction; return whether it exists."""
    for_update = store.provider.dialect.for_update
    return tx.one(f"SELECT size FROM blobs WHERE digest = ?{for_update}", (digest,)) is not None


def read_blobs(tx: ReadTransaction, digests: Collection[str]) -> dict[str, bytes]:
    """Return the bytes of the blobs that exist and are intact, by digest."""
    found = {}
    for digest in digests:
        try:
            found[digest] = read_blob(tx, digest)
        except (BlobDamaged, NotFound):
            continue
    return found


def read_blob(tx: ReadTransaction, digest: str) -> bytes:
    """Return the bytes of a blob, compared with its digest.

    Raises:
        NotFound: there is no such blob.
        BlobDamaged: its bytes are not those that were stored.
    """
    compression = _header(tx, digest).compression
    parts = tx.all("SELECT data FROM blob_parts WHERE digest = ? ORDER BY part", (digest,))
    data = b"".join([_plain(digest, part, compression) for (part,) in parts])
    if digest_of(data) != digest:
        raise BlobDamaged(digest)
    return data


class _Header(NamedTuple):
    size: int
    parts: int
    compression: str


def _header(tx: ReadTransaction, digest: str) -> _Header:
    row = tx.one("SELECT size, parts, compression FROM blobs WHERE digest = ?", (digest,))
    if row is None:
        raise NotFound(
            f"There is no blob {digest}. It was never stored here, or removed because nothing "
            f"referred to it: store it again with put_blob()."
        )
    return _Header(*row)


def _plain(digest: str, part: Any, compression: str) -> bytes:
    if not isinstance(part, bytes) or compression not in ("", _COMPRESSION):
        raise BlobDamaged(digest)
    if not compression:
        return part
    reader = zlib.decompressobj()
    try:
        # No more than one part: damaged bytes must not fill the memory.
        data = reader.decompress(part, PART_BYTES)
    except zlib.error as error:
        raise BlobDamaged(digest) from error
    if not reader.eof:
        raise BlobDamaged(digest)
    return data


def _names(table: Table) -> list[str]:
    return [column.name for column in table.columns]


class Blobs:
    """The rows of ``blobs``, ``blob_parts`` and ``blob_references``."""

    def __init__(self, store: StoreContext) -> None:
        self._store = store

    # ── writing ───────────────────────────────────────────────────────────────────────────────

    def put(self, data: Any, namespace: str | None, key: str) -> str:
        """See `SessionDB.put_blob`."""
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise InvalidInput(f"A blob is bytes, not {type(data).__name__}.")
        if len(data) > _MAX_BYTES:
            raise InvalidInput(
                f"The blob is {len(data):,} bytes; at most {_MAX_BYTES:,} are allowed. Store it in "
                f"pieces."
            )
        reference = None if namespace is None else _in_namespace(namespace, key)
        blob = NewBlob(bytes(data))
        kept_until = 0.0 if reference else self._store.clock() + KEPT_SECONDS

        def work(tx: WriteTransaction) -> None:
            store_blob(tx, self._store, blob, kept_until=kept_until)
            if reference is not None:
                add_references(tx, self._store, [(reference, blob.digest)])

        self._store.provider.write(work, isolated=False)
        return blob.digest

    def refer(self, digest: str, namespace: str, key: str) -> None:
        """See `SessionDB.add_blob_reference`."""
        reference = _in_namespace(namespace, key)
        _require_digest(digest)

        def work(tx: WriteTransaction) -> None:
            if not lock_blob(tx, self._store, digest):
                _header(tx, digest)
            add_references(tx, self._store, [(reference, digest)])

        self._store.provider.write(work, isolated=False)

    def remove_references(self, namespace: str, key: str | None) -> int:
        """See `SessionDB.remove_blob_references`."""
        condition, params = _of_namespace(namespace, key)
        sql = f"DELETE FROM blob_references WHERE {condition}"
        return self._store.provider.write(lambda tx: tx.run(sql, params), isolated=False)

    # ── reading ───────────────────────────────────────────────────────────────────────────────

    def get(self, digest: str) -> bytes:
        """See `SessionDB.get_blob`."""
        _require_digest(digest)
        with self._store.provider.read() as tx:
            _require_blobs(self._store, digest)
            return read_blob(tx, digest)

    def size(self, digest: str) -> int | None:
        """See `SessionDB.get_blob_size`."""
        _require_digest(digest)
        if not has_blobs(self._store):
            return None
        with self._store.provider.read() as tx:
            row = tx.one("SELECT size FROM blobs WHERE digest = ?", (digest,))
        return int(row[0]) if row else None

    def iterate(self, digest: str) -> Iterator[bytes]:
        """See `SessionDB.iter_blob`."""
        _require_digest(digest)
        _require_blobs(self._store, digest)
        with self._store.provider.read() as tx:
            header = _header(tx, digest)
        seen = blake2b(digest_size=32)
        for number in range(header.parts):
            with self._store.provider.read() as tx:
                row = tx.one(
                    "SELECT data FROM blob_parts WHERE digest = ? AND part = ?", (digest, number)
                )
            if row is None:
                raise BlobDamaged(digest)
            part = _plain(digest, row[0], header.compression)
            seen.update(part)
            yield part
        if seen.hexdigest() != digest:
            raise BlobDamaged(digest)

    def references(self, namespace: str, key: str | None) -> list[BlobReference]:
        """See `SessionDB.list_blob_references`."""
        condition, params = _of_namespace(namespace, key)
        if not has_blobs(self._store):
            return []
        with self._store.provider.read() as tx:
            rows = tx.all(
                f"SELECT owner, item, digest FROM blob_references WHERE {condition} "
                f"ORDER BY item, digest",
                params,
            )
        return [{"namespace": row[0], "key": row[1], "digest": row[2]} for row in rows]

    # ── sweeping ──────────────────────────────────────────────────────────────────────────────

    def sweep(self) -> BlobSweep:
        """See `SessionDB.sweep_blobs`."""
        swept: BlobSweep = {"removed": 0, "bytes": 0}
        after = ""
        while True:
            with self._store.provider.read() as tx:
                rows = tx.all(
                    "SELECT digest FROM blobs WHERE digest > ? ORDER BY digest LIMIT ?",
                    (after, _PAGE),
                )
                page = [row[0] for row in rows]
                waiting = _unneeded(tx, page)
            if not page:
                return swept
            after = page[-1]
            self._sweep_these(waiting, swept, at_once=False)

    def sweep_sessions(self, session_ids: Sequence[str], *, at_once: bool = False) -> BlobSweep:
        """Remove the blobs that only deleted messages and documents of these sessions needed.

        With *at_once* also those that a writer stored within the last day and may yet refer to.
        """
        swept: BlobSweep = {"removed": 0, "bytes": 0}
        kinds = (MESSAGE, f"{_STATE}session")
        for start in range(0, len(session_ids), _IDS_PER_QUERY):
            owners = session_ids[start : start + _IDS_PER_QUERY]
            with self._store.provider.read() as tx:
                rows = tx.all(
                    f"SELECT DISTINCT digest FROM blob_references WHERE kind IN (?, ?) "
                    f"AND owner IN ({placeholders(len(owners))}) ORDER BY digest",
                    (*kinds, *owners),
                )
            self._sweep_these([row[0] for row in rows], swept, at_once=at_once)
        return swept

    def _sweep_these(self, digests: Iterable[str], swept: BlobSweep, *, at_once: bool) -> None:
        now = float("inf") if at_once else self._store.clock()
        for digest in digests:
            freed = self._store.provider.write(
                partial(_remove_unneeded, store=self._store, digest=digest, now=now), isolated=False
            )
            if freed is not None:
                swept["removed"] += 1
                swept["bytes"] += freed


def _remove_unneeded(
    tx: WriteTransaction, store: StoreContext, digest: str, now: float
) -> int | None:
    """Remove references of what is gone, and the blob if none is left; return its size if so."""
    row = tx.one(
        f"SELECT size, kept_until FROM blobs WHERE digest = ?{store.provider.dialect.for_update}",
        (digest,),
    )
    references = _references_to(tx, [digest])
    gone = references - _existing(tx, references)
    if gone and tx.one("SELECT 1 FROM stale_sessions LIMIT 1") is not None:
        # Another program may have moved the messages; `derived_columns.settle` finds out.
        return None
    tx.run_many(
        "DELETE FROM blob_references WHERE kind = ? AND owner = ? AND item = ? AND digest = ?",
        [(*reference, digest) for reference, _ in gone],
    )
    if row is None or len(gone) < len(references) or row[1] >= now:
        return None
    tx.run("DELETE FROM blob_parts WHERE digest = ?", (digest,))
    tx.run("DELETE FROM blobs WHERE digest = ?", (digest,))
    return int(row[0])


def _unneeded(tx: ReadTransaction, digests: Sequence[str]) -> list[str]:
    """Return the blobs without references, or with one of something that is gone."""
    references = _references_to(tx, digests)
    existing = _existing(tx, references)
    needed = {digest for _, digest in references}
    stale = {digest for _, digest in references - existing}
    return [digest for digest in digests if digest not in needed or digest in stale]


def find_lost(tx: ReadTransaction) -> list[str]:
    """Return the blobs that something refers to and that are not there, or not with all parts."""
    rows = tx.all(
        "SELECT DISTINCT r.digest FROM blob_references r LEFT JOIN blobs b ON b.digest = r.digest "
        "WHERE b.digest IS NULL OR b.parts <> "
        "(SELECT COUNT(*) FROM blob_parts p WHERE p.digest = b.digest) ORDER BY r.digest"
    )
    lost = [row[0] for row in rows]
    needed = set[str]()
    for start in range(0, len(lost), _IDS_PER_QUERY):
        references = _references_to(tx, lost[start : start + _IDS_PER_QUERY])
        needed |= {digest for _, digest in _existing(tx, references)}
    return [digest for digest in lost if digest in needed]


_Referred = tuple[Reference, str]


def _references_to(tx: ReadTransaction, digests: Sequence[str]) -> set[_Referred]:
    if not digests:
        return set()
    rows = tx.all(
        f"SELECT kind, owner, item, digest FROM blob_references "
        f"WHERE digest IN ({placeholders(len(digests))})",
        digests,
    )
    return {(Reference(*row[:3]), row[3]) for row in rows}


def _existing(tx: ReadTransaction, referred: Collection[_Referred]) -> set[_Referred]:
    """Return the references whose message or document exists, and all others."""
    by_owner: dict[tuple[str, str], list[str]] = {}
    for reference, _ in referred:
        by_owner.setdefault(reference[:2], []).append(reference.item)
    existing = set[Reference]()
    for (kind, owner), items in by_owner.items():
        for start in range(0, len(items), _IDS_PER_QUERY):
            some = items[start : start + _IDS_PER_QUERY]
            existing |= {Reference(kind, owner, item) for item in _items(tx, kind, owner, some)}
    return {(reference, digest) for reference, digest in referred if reference in existing}


def _items(tx: ReadTransaction, kind: str, owner: str, items: Sequence[str]) -> Iterable[str]:
    marks = placeholders(len(items))
    if kind == MESSAGE:
        ordinals = [int(item) for item in items]
        rows = tx.all(
            f"SELECT ordinal FROM messages WHERE session_id = ? AND ordinal IN ({marks})",
            (owner, *ordinals),
        )
        return [str(row[0]) for row in rows]
    if kind.startswith(_STATE):
        rows = tx.all(
            f"SELECT name FROM state_documents WHERE scope = ? AND owner = ? AND name IN ({marks})",
            (kind.removeprefix(_STATE), owner, *items),
        )
        return [row[0] for row in rows]
    return items


def has_blobs(store: StoreContext) -> bool:
    """Return whether the store has the tables; a read-only one may wait for their migration."""
    return not (store.provider.read_only and STEP in store.provider.steps().waiting)


def _require_blobs(store: StoreContext, digest: str) -> None:
    if not has_blobs(store):
        raise NotFound(f"There is no blob {digest}: no version that wrote this store has blobs.")


def _require_digest(digest: object) -> None:
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise InvalidInput(f"A digest is 64 hexadecimal digits, as put_blob() returns: {digest!r}.")


def _in_namespace(namespace: str, key: str) -> Reference:
    if not isinstance(key, str):
        raise InvalidInput(f"A key must be text, not {type(key).__name__}.")
    return Reference(NAMESPACE, require_id(namespace, "namespace"), require_bounded(key, "key"))


def _of_namespace(namespace: str, key: str | None) -> tuple[str, list[str]]:
    require_id(namespace, "namespace")
    if key is None:
        return "kind = ? AND owner = ?", [NAMESPACE, namespace]
    return "kind = ? AND owner = ? AND item = ?", [*_in_namespace(namespace, key)]
