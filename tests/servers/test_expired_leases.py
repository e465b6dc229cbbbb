"""A holder that was stopped, and wakes up when another has taken over, on every database.

Its process knows nothing of that: it is the database that refuses its writes. That its lease has
expired is true by the clock of the process that takes over.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hermes_sessions import ConversationHeld, SessionDB
from tests.storage.transfer.stores import KINDS, NewStore, stores_in

ROOT = Path(__file__).parents[2]

every_database = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture
def new_store(tmp_path: Path, request: pytest.FixtureRequest) -> NewStore:
    return stores_in(tmp_path, request)


def hours_later() -> float:
    return time.time() + 7200


class Holder:
    """Another process, which holds a conversation."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def told(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def tell(self, word: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()


@contextmanager
def holder(verb: str, url: str) -> Iterator[Holder]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.servers.lease_holders", verb, url, "s"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield Holder(process)
        finally:
            process.kill()


@every_database
def test_a_holder_that_was_stopped(new_store: NewStore, kind: str) -> None:
    url = new_store(kind)
    with (
        SessionDB.from_url(url) as db,
        SessionDB.from_url(url, clock=hours_later) as later,
    ):
        db.create_session("s", "cli")
        with holder("wait", url) as old:
            token = int(old.told())
            old.tell("mine")
            assert old.told() == "written"
            with pytest.raises(ConversationHeld, match="a holder that sleeps"):
                db.take_lease("s", "another")
            old.process.send_signal(signal.SIGSTOP)
            lease = later.take_lease("s", "the next one")
            assert lease.token > token
            later.append_message("s", "user", "taken over", fence=lease.token)
            old.process.send_signal(signal.SIGCONT)
            old.tell("late")
            assert old.told() == "refused"
            later.release_lease(lease)
            old.tell("too late, also when the lease is free")
            assert old.told() == "refused"
        assert [m["content"] for m in db.get_messages("s")] == ["mine", "taken over"]


@every_database
def test_a_holder_that_others_wrote_over(new_store: NewStore, kind: str) -> None:
    """A writer without a token removes the expired lease, too."""
    url = new_store(kind)
    with (
        SessionDB.from_url(url) as db,
        SessionDB.from_url(url, clock=hours_later) as later,
    ):
        db.create_session("s", "cli")
        with holder("wait", url) as old:
            old.told()
            with pytest.raises(ConversationHeld):
                db.append_message("s", "user", "too early")
            later.append_message("s", "user", "between")
            old.tell("late")
            assert old.told() == "refused"
        assert [m["content"] for m in db.get_messages("s")] == ["between"]


@every_database
def test_a_holder_in_the_middle_of_writing(new_store: NewStore, kind: str, long_run: bool) -> None:
    """Nothing it writes is accepted once the next holder can see that it has taken over."""
    url = new_store(kind)
    with SessionDB.from_url(url, clock=hours_later) as db:
        for _ in range(20 if long_run else 2):
            db.create_session("s", "cli")
            with holder("write", url) as old:
                said = [old.told() for _ in range(20)]
                lease = db.take_lease("s", "the next one")
                seen = [m["content"] for m in db.get_messages("s")]
                while said[-1] != "refused":
                    said.append(old.told())
            acknowledged = [f"old {number}" for number in said[:-1]]
            assert seen == acknowledged
            db.append_message("s", "user", "mine", fence=lease.token)
            assert [m["content"] for m in db.get_messages("s")] == [*seen, "mine"]
            db.release_lease(lease)
            db.delete_session("s")


@pytest.mark.parametrize("kind", ["postgresql", "mysql"])
def test_appending_after_a_unit_that_was_rolled_back(new_store: NewStore, kind: str) -> None:
    """Statements that are prepared for appending can be gone then; callers do not notice."""
    with SessionDB.from_url(new_store(kind)) as db:
        db.create_session("s", "cli")
        for number in range(3):
            db.append_message("s", "user", f"m{number}")
            rows = [("s", n, "user", "x", 0.0) for n in range(100, 110)]

            def fail(tx: object, rows: list[tuple[object, ...]] = rows) -> None:
                columns = "(session_id, ordinal, role, content, timestamp)"
                insert = f"INSERT INTO messages {columns} VALUES (?, ?, ?, ?, ?)"
                tx.run_many(insert, rows)  # type: ignore[attr-defined]
                raise KeyError("changed my mind")

            with pytest.raises(KeyError):
                db.provider.write(fail)
        assert [m["content"] for m in db.get_messages("s")] == ["m0", "m1", "m2"]
