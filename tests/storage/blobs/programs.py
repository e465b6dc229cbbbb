"""Processes that store blobs and sweep them: ``python -m tests.storage.blobs.programs``."""

from __future__ import annotations

import sys
from itertools import count

from hermes_sessions import SessionDB

#: Few blobs for many writers, so that they meet; the last one has several parts.
CONTENTS = [bytes([number]) * 3000 for number in range(5)] + [bytes(range(256)) * 3000]


def refer(db: SessionDB, writer: str) -> None:
    """Store, check and release blobs; say each reference that stays, once it is stored."""
    for step in count():
        data = CONTENTS[step % len(CONTENTS)]
        digest = db.put_blob(data, namespace=writer, key=str(step))
        if db.get_blob(digest) != data:
            print("wrong bytes", flush=True)
        if step % 4:
            db.remove_blob_references(writer, str(step))
        else:
            print(f"{step} {digest}", flush=True)


def attach(db: SessionDB, session_id: str) -> None:
    """Append messages with attachments, new and known ones in turn."""
    db.ensure_session(session_id, source="test")
    for step in count():
        db.append_message(session_id, "user", (step // 2).to_bytes(4, "big") * 7500)
        print(step, flush=True)


def sweep(db: SessionDB, _: str) -> None:
    """Sweep without pause."""
    for step in count():
        db.sweep_blobs()
        print(f"{step} swept", flush=True)


if __name__ == "__main__":
    with SessionDB.from_url(sys.argv[2]) as db:
        {"attach": attach, "refer": refer, "sweep": sweep}[sys.argv[1]](db, sys.argv[3])
