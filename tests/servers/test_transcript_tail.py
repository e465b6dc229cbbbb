"""The end of a transcript, changed by several processes, some of which are killed."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_sessions import SessionDB
from hermes_sessions_testing.conformance.helpers import assert_summary_is_true
from tests.servers.stores import mysql_place, mysql_store, postgresql_place, postgresql_store
from tests.servers.test_many_processes import start

pytestmark = pytest.mark.slow

PROCESSES = 8
_SERVERS = {
    "postgresql": (postgresql_place, postgresql_store),
    "mariadb": (mysql_place, mysql_store),
}


@pytest.fixture(params=["sqlite", *_SERVERS])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/state.db"
        return
    place_of, store_of = _SERVERS[request.param]
    server = request.getfixturevalue(request.param)
    with store_of(server, "tail"):
        yield place_of(server, "tail").url()


def results_of(processes: list[subprocess.Popen[str]]) -> list[list[str]]:
    """Start all at once when each is ready; return what each said."""
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "ready"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    said = []
    for process in processes:
        out, complaints = process.communicate()
        assert process.returncode == 0, complaints
        said.append(out.split())
    return said


def test_every_message_is_popped_once(url: str) -> None:
    with SessionDB.from_url(url) as db:
        db.create_session("s", "cli")
        added = db.append_messages("s", [{"role": "user", "content": "x"}] * 120)
        said = results_of([start("pop", url, "s") for _ in range(PROCESSES)])
        popped = [int(number) for each in said for number in each]
        assert sorted(popped) == added
        session = db.get_session("s")
        assert session is not None
        assert session["revision"] == 2 * len(added)
        assert_summary_is_true(db, "s")


def test_one_of_those_that_replace_the_end_succeeds(url: str) -> None:
    with SessionDB.from_url(url) as db:
        db.create_session("s", "cli")
        db.append_messages("s", [{"role": "user", "content": "kept"}] * 4)
        session = db.get_session("s")
        assert session is not None
        revision = str(session["revision"])
        said = results_of(
            [start("replace_end", url, "s", revision, f"p{n}") for n in range(PROCESSES)]
        )
        assert sorted(said) == [["lost"]] * (PROCESSES - 1) + [["won"]]
        winner = said.index(["won"])
        assert [m["content"] for m in db.get_messages("s")] == [
            "kept",
            *(f"p{winner} {number}" for number in range(3)),
        ]
        assert_summary_is_true(db, "s")


@pytest.mark.fault(
    "A process that replaces the end of a transcript is killed",
    "The end is that of one round, complete, and the revision shows which",
)
def test_a_process_that_is_killed_while_it_replaces_the_end(url: str, long_run: bool) -> None:
    """The end is that of one round, whole, and the revision tells whether it took place."""
    with SessionDB.from_url(url) as db:
        db.create_session("s", "cli")
        db.append_message("s", "user", "kept", payload="kept")
        first = 0
        for kill in range(40 if long_run else 4):
            writer = start("rewrite_for_ever", url, "s", str(first))
            assert writer.stdout is not None
            for _ in range(3 + kill * 5 % 7):
                done = int(writer.stdout.readline())
            writer.kill()
            done = max([done, *map(int, writer.stdout.read().split())])
            with writer:
                pass  # Ended, and its pipes closed.
            # Waits for a commit that the killed process had sent.
            db.append_message("s", "user", "after the kill")
            db.pop_message("s")
            payloads = db.get_payloads("s")
            last = payloads[-1]
            assert payloads == ["kept", last, last, last]
            assert last in (done, done + 1)
            state = db.get_state("session", "s", "round")
            assert state is not None
            assert state["value"] in {done, last}
            assert_summary_is_true(db, "s")
            first = last + 1
        session = db.get_session("s")
        assert session is not None
        # Three messages and one rewind each round, one document each round, two changes each kill.
        rounds = first
        documents = state["revision"]
        kills = kill + 1
        assert session["revision"] == 1 + 3 * rounds + (rounds - 1) + documents + 2 * kills
