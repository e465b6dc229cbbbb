"""Many processes on one server."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hermes_sessions import SessionDB
from tests.servers.stores import Place

ROOT = Path(__file__).parents[2]


def start(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.servers.programs", *arguments],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
@pytest.mark.fault("Sixteen processes write at once", "None lost, each one's order kept")
def test_sixteen_writers(place: Place, long_run: bool) -> None:
    """None lost, and each one's order kept: half of them share a session."""
    number = 400 if long_run else 15
    with SessionDB.from_url(place.url()) as db:
        db.create_session("shared", "cli")
        for writer in range(8):
            db.create_session(f"own {writer}", "cli")
        sessions = ["shared"] * 8 + [f"own {writer}" for writer in range(8)]
        writers = [
            start("append", place.url(), session, f"w{index}", str(number))
            for index, session in enumerate(sessions)
        ]
        for writer in writers:
            said, complaints = writer.communicate()
            assert writer.returncode == 0, complaints
            assert said.split() == [str(n) for n in range(number)]
        for index, session in enumerate(sessions):
            messages = db.get_messages(session)
            assert [message["ordinal"] for message in messages] == list(range(1, len(messages) + 1))
            mine = [m["content"] for m in messages if m["content"].startswith(f"w{index} ")]
            assert mine == [f"w{index} {n}" for n in range(number)]
        assert db.message_count() == 16 * number
        assert db.search("w3").report.total == number


@pytest.mark.slow
def test_twenty_first_openers(place: Place) -> None:
    url = place.new_url()
    openers = [start("open_first", url) for _ in range(20)]
    for opener in openers:
        assert opener.stdin is not None
        opener.stdin.write("go\n")
        opener.stdin.flush()
    for opener in openers:
        said, complaints = opener.communicate()
        assert opener.returncode == 0, complaints
        assert said.split() == ["0"]
    with SessionDB.from_url(url) as db, db.provider.read() as tx:
        assert tx.one("SELECT COUNT(*) FROM state_meta") == (20,)


@pytest.mark.slow
@pytest.mark.fault(
    "A process that writes is killed", "Every acknowledged message is there once, in order"
)
def test_writers_that_are_killed(place: Place, long_run: bool) -> None:
    """What they had acknowledged is there, once and in order, and nothing holds the others up."""
    with SessionDB.from_url(place.url()) as db:
        for round_ in range(20 if long_run else 2):
            session = f"s{round_}"
            db.create_session(session, "cli")
            writers = [start("append", place.url(), session, f"w{n}", "100000") for n in range(3)]
            outputs = [writer.stdout for writer in writers if writer.stdout is not None]
            said = [
                [output.readline().strip() for _ in range(5 + 7 * number)]
                for number, output in enumerate(outputs)
            ]
            for writer in writers:
                writer.kill()
            for number, output in enumerate(outputs):
                said[number] += output.read().split()
                with writers[number]:
                    pass  # Ended, and its pipes closed.
            messages = db.get_messages(session)
            assert [m["ordinal"] for m in messages] == list(range(1, len(messages) + 1))
            for number in range(3):
                mine = [m["content"] for m in messages if m["content"].startswith(f"w{number} ")]
                # One more may be stored whose acknowledgement was never printed.
                assert len(mine) - len(said[number]) in (0, 1)
                assert mine == [f"w{number} {n}" for n in range(len(mine))]
            db.append_message(session, "user", "afterwards")
