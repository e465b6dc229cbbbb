"""Fills a store with many messages, in the version that is first on the path.

python bulk.py URL MESSAGES
"""

from __future__ import annotations

import sys

from hermes_sessions import SessionDB

_SESSIONS = 50
_BATCH = 5_000


def fill(url: str, messages: int) -> None:
    with SessionDB.from_url(url) as db:
        for number in range(_SESSIONS):
            db.create_session(f"s{number}", "cli")
        each = messages // _SESSIONS
        rows = [
            (f"s{number}", ordinal, "user", f"message {ordinal} of many words to carry", 1.5)
            for number in range(_SESSIONS)
            for ordinal in range(1, each + 1)
        ]
        insert = (
            "INSERT INTO messages (session_id, ordinal, role, content, timestamp) "
            "VALUES (?, ?, ?, ?, ?)"
        )
        for start in range(0, len(rows), _BATCH):
            batch = rows[start : start + _BATCH]
            db.provider.write(lambda tx, batch=batch: tx.run_many(insert, batch))
        db.provider.write(
            lambda tx: tx.run(
                "UPDATE sessions SET next_ordinal = ?, message_count = ?", (each + 1, each)
            )
        )


if __name__ == "__main__":
    fill(sys.argv[1], int(sys.argv[2]))
