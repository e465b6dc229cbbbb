"""Assertions that hold after every fault."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from hermes_sessions.storage.sessiondb import SessionDB
from tests.storage.sqlite.integrity import require_sound


def require_stored_once(
    path: Path, acknowledged: Iterable[int], *, also: Iterable[int] = (), session: str = "s"
) -> None:
    """The file is sound, every acknowledged number is stored once, in order, and of the others
    only those that may be there; the store can be written again.
    """
    expected = set(acknowledged)
    with SessionDB(path) as db:
        with db.provider.read() as tx:
            rows = tx.all(
                "SELECT external_id FROM messages WHERE session_id = ? ORDER BY ordinal", (session,)
            )
        numbers = [int(row[0]) for row in rows]
        assert [number for number, times in Counter(numbers).items() if times > 1] == []
        assert sorted(expected - set(numbers)) == [], "acknowledged and lost"
        assert sorted(set(numbers) - expected - set(also)) == [], "stored and never sent"
        assert numbers == sorted(numbers)
        db.create_session("afterwards", source="test")
        db.append_message("afterwards", role="user", content="works again")
        db.delete_session("afterwards")
    require_sound(path)
