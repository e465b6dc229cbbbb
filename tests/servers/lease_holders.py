"""Lease holders in other processes: ``python -m tests.servers.lease_holders VERB …``."""

from __future__ import annotations

import sys

from hermes_sessions import SessionDB, StaleFence


def wait(url: str, session_id: str) -> None:
    """Take the lease, say its token, wait for a word, then write under it."""
    with SessionDB.from_url(url) as db:
        lease = db.take_lease(session_id, "a holder that sleeps", ttl=3600)
        print(lease.token, flush=True)
        for text in sys.stdin:
            try:
                db.append_message(session_id, "user", text.strip(), fence=lease.token)
                print("written", flush=True)
            except StaleFence:
                print("refused", flush=True)


def write(url: str, session_id: str) -> None:
    """Take the lease and write under it until that is refused; say what was acknowledged."""
    with SessionDB.from_url(url) as db:
        lease = db.take_lease(session_id, "a holder that writes", ttl=3600)
        number = 0
        while True:
            try:
                db.append_message(session_id, "user", f"old {number}", fence=lease.token)
            except StaleFence:
                print("refused", flush=True)
                return
            print(number, flush=True)
            number += 1


if __name__ == "__main__":
    {"wait": wait, "write": write}[sys.argv[1]](*sys.argv[2:])
