"""Checks of blobs: missing and damaged ones, and those that nothing needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from hermes_sessions.errors import BlobDamaged, NotFound
from hermes_sessions.storage.care.doctor.check_runner import Check, ExaminedStore
from hermes_sessions.storage.care.doctor.report import Finding, Note, OpenStore
from hermes_sessions.storage.provider import ReadTransaction
from hermes_sessions.storage.repositories.blobs import MESSAGE, STEP, find_lost, read_blob

#: Unneeded bytes that maintenance may leave for a while.
_MUCH: Final = 64 * 1024**2
_PAGE: Final = 100
#: What of the message's attachments is told in one line.
_SHOWN: Final = 3


def _blobs(subject: ExaminedStore) -> Iterable[Finding | Note]:
    if subject.opened is None or STEP in subject.opened.steps().waiting:
        return
    with subject.read() as tx:
        lost = find_lost(tx)
    if subject.is_thorough:
        lost += [digest for digest in _damaged(subject) if digest not in lost]
    if lost:
        with subject.read() as tx:
            yield Finding.of("damaged-blob", _where(tx, lost))
    with subject.read() as tx:
        row = tx.one(
            "SELECT COUNT(*), SUM(size) FROM blobs WHERE kept_until < ? AND NOT EXISTS "
            "(SELECT 1 FROM blob_references r WHERE r.digest = blobs.digest)",
            (subject.clock(),),
        )
    if row is not None and (row[1] or 0) > _MUCH:
        words = f"{row[0]:,} blobs with {row[1]:,} bytes are not needed."
        yield Finding.of("unneeded-blobs", words, _sweep)


def _damaged(subject: ExaminedStore) -> Iterator[str]:
    """Yield the blobs whose bytes are not those that were stored; reads all of them."""
    after = ""
    while True:
        with subject.read() as tx:
            page = tx.all(
                "SELECT digest FROM blobs WHERE digest > ? ORDER BY digest LIMIT ?", (after, _PAGE)
            )
        if not page:
            return
        after = page[-1][0]
        for (digest,) in page:
            try:
                with subject.read() as tx:
                    read_blob(tx, digest)
            except BlobDamaged:
                yield digest
            except NotFound:
                continue  # Removed meanwhile.


def _where(tx: ReadTransaction, lost: list[str]) -> str:
    places = []
    for digest in lost[:_SHOWN]:
        row = tx.one(
            "SELECT kind, owner, item FROM blob_references WHERE digest = ? "
            "ORDER BY kind, owner, item LIMIT 1",
            (digest,),
        )
        kind, owner, item = row or ("nothing", "", "")
        place = f"message {item} of session {owner}" if kind == MESSAGE else f"{owner} {item}"
        places.append(f"{digest[:12]}… in {place.strip()}" if row else f"{digest[:12]}…")
    more = f" and {len(lost) - _SHOWN} more" if len(lost) > _SHOWN else ""
    return f"Missing or damaged: {', '.join(places)}{more}."


def _sweep(open_store: OpenStore) -> str:
    with open_store() as db:
        done = db.sweep_blobs()
    return f"Removed {done['removed']:,} blobs with {done['bytes']:,} bytes."


BLOBS: Final = (Check(("damaged-blob", "unneeded-blobs"), _blobs),)
