"""Copies and compares blobs, which have the same digest in every store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from hermes_sessions.errors import BlobDamaged, NotFound
from hermes_sessions.storage.provider import SessionDBProvider, WriteTransaction, placeholders
from hermes_sessions.storage.repositories.blobs import (
    KEPT_SECONDS,
    NewBlob,
    read_blob,
    store_blob,
)
from hermes_sessions.storage.store_context import StoreContext
from hermes_sessions.storage.tables import BLOB_TABLES
from hermes_sessions.storage.transfer.side_rows import Difference, has_tables

_PAGE: Final = 100
_TABLE: Final = "blobs"
_TABLES: Final = [table.name for table in BLOB_TABLES]
_DAMAGED: Final = "is damaged in the source; see: hermes doctor --full"


def copy_blobs(
    source: SessionDBProvider, target: SessionDBProvider, now: float
) -> list[Difference]:
    """Copy the blobs that the target lacks; return the damaged ones, which stay behind.

    They are kept for a day, because their references follow later.
    """
    left: list[Difference] = []
    store = StoreContext(target, lambda: now)
    if not has_tables(_TABLES, source, target):
        return left
    for page in _pages(source):
        for digest in page - _among(target, page):
            try:
                with source.read() as tx:
                    blob = NewBlob(read_blob(tx, digest))
            except BlobDamaged:
                left.append(_difference(digest, _DAMAGED))
                continue
            except NotFound:
                continue  # Nothing refers to it any more.

            def work(tx: WriteTransaction, blob: NewBlob = blob) -> None:
                store_blob(tx, store, blob, kept_until=now + KEPT_SECONDS)

            target.write(work, isolated=False)
    return left


def compare_blobs(
    first: SessionDBProvider, second: SessionDBProvider, same: Counter[str]
) -> Iterator[Difference]:
    """Yield the blobs that are not in both stores, or damaged in the second; count the others."""
    if not has_tables(_TABLES, first, second):
        return
    for page in _pages(first):
        there = _among(second, page)
        yield from (_difference(d, "only in the first") for d in sorted(page - there))
        for digest in sorted(there):
            try:
                with second.read() as tx:
                    read_blob(tx, digest)
                same[_TABLE] += 1
            except BlobDamaged:
                yield _difference(digest, "is damaged in the second")
            except NotFound:
                yield _difference(digest, "only in the first")
    for page in _pages(second):
        gone = page - _among(first, page)
        yield from (_difference(digest, "only in the second") for digest in sorted(gone))


def _pages(provider: SessionDBProvider) -> Iterator[set[str]]:
    after = ""
    while True:
        with provider.read() as tx:
            rows = tx.all(
                "SELECT digest FROM blobs WHERE digest > ? ORDER BY digest LIMIT ?", (after, _PAGE)
            )
        if not rows:
            return
        after = rows[-1][0]
        yield {row[0] for row in rows}


def _among(provider: SessionDBProvider, digests: set[str]) -> set[str]:
    with provider.read() as tx:
        rows = tx.all(
            f"SELECT digest FROM blobs WHERE digest IN ({placeholders(len(digests))})",
            sorted(digests),
        )
    return {row[0] for row in rows}


def _difference(digest: str, what: str) -> Difference:
    return Difference(f"{_TABLE} {digest}", what)
