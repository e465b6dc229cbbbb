"""System calls that fail or kill the process, at every position."""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

from tests.faults.assertions import require_stored_once
from tests.storage.sqlite.other_process import start

pytestmark = pytest.mark.slow

COUNT = 6
TAILS = ("", "-wal", "-shm", "-journal")
#: What the caller is told, by what the system answers.
EXPECTED = {"EIO": {"StoreIOError"}, "ENOSPC": {"DiskFull"}, "EDQUOT": {"DiskFull"}}


def traced(path: Path, log: Path, *inject: str) -> list[str]:
    """A command line that watches writing calls on the store's files, and may interfere."""
    watched = [str(path) + tail for tail in TAILS] + [str(path.parent)]
    return [
        *("strace", "-f", "-qq", "-y", "-o", str(log)),
        *("-e", "trace=pwrite64,fdatasync,fsync,ftruncate"),
        *(argument for one in watched for argument in ("-P", one)),
        *inject,
    ]


@dataclass
class Course:
    """What a process that appends said about each message."""

    stored: list[int] = field(default_factory=list)
    failed: dict[int, str] = field(default_factory=dict)

    def read(self, lines: Iterator[str] | list[str]) -> Course:
        for line in lines:
            verb, number, *kind = line.split()
            if verb == "stored":
                self.stored.append(int(number))
            else:
                self.failed[int(number)] = kind[0]
        return self


def run(path: Path, journal: str, prefix: list[str]) -> tuple[Course, int]:
    with start("append_through", path, journal, "full", COUNT, prefix=prefix) as process:
        course = Course().read(process.all_it_says())
        return course, process.ended()


def positions(total: int, every: bool, wanted: int) -> list[int]:
    """All positions, or some of them spread over the whole run."""
    if every or total <= wanted:
        return list(range(1, total + 1))
    return sorted({1 + round(index * (total - 1) / (wanted - 1)) for index in range(wanted)})


@cache
def calls_of_a_run(journal: str) -> Counter[str]:
    """How often each call is made when nothing fails."""
    with tempfile.TemporaryDirectory() as directory:
        path, log = Path(directory) / "state.db", Path(directory) / "log"
        course, code = run(path, journal, traced(path, log))
        assert (code, course.failed) == (0, {})
        return Counter(re.findall(r"^\d+ +(\w+)\(", log.read_text(), re.MULTILINE))


@pytest.mark.parametrize("journal", ["wal", "delete"])
@pytest.mark.parametrize("call", ["pwrite64", "fdatasync"])
@pytest.mark.parametrize("fault", ["EIO", "ENOSPC", "KILL"])
@pytest.mark.fault(
    "One write or sync fails (I/O error, full disk, killed there)",
    "The message is refused or stored whole; the next ones are stored",
    on="sqlite",
)
def test_one_call_fails(
    fault: str, call: str, journal: str, tmp_path: Path, long_run: bool
) -> None:
    """The message is refused, or the process dies; the next ones are stored."""
    total = calls_of_a_run(journal)[call]
    assert total > COUNT
    told: set[str] = set()
    unknown: Iterable[int]
    for number in positions(total, long_run, 2 if fault == "KILL" else 3):
        directory = tmp_path / str(number)
        directory.mkdir()
        path = directory / "state.db"
        what = f"signal={fault}" if fault == "KILL" else f"error={fault}"
        inject = ("-e", f"inject={call}:{what}:when={number}")
        course, code = run(path, journal, traced(path, directory / "log", *inject))
        if fault == "KILL":
            assert code != 0
            unknown = [len(course.stored)]
        else:
            assert code == 0
            # With a rollback journal the very last step can fail, when the write is done.
            unknown = course.failed if (journal, call) == ("delete", "fdatasync") else ()
            assert len(course.failed) <= 1, "a call that failed once disturbed twice"
            told.update(course.failed.values())
        require_stored_once(path, course.stored, also=unknown)
    if fault != "KILL":
        # SQLite does not always pass on why a call failed.
        assert told <= {"StoreIOError", *EXPECTED[fault]}
        assert "StoreIOError" in told if call == "fdatasync" else told >= EXPECTED[fault]


@pytest.mark.parametrize("journal", ["wal", "delete"])
@pytest.mark.parametrize(
    ("call", "fault"), [("pwrite64", "ENOSPC"), ("pwrite64", "EDQUOT"), ("fdatasync", "EIO")]
)
@pytest.mark.fault(
    "A disk fails for good",
    "Nothing acknowledged before is lost, nothing is acknowledged after",
    on="sqlite",
)
def test_all_calls_fail_from_some_point_on(
    call: str, fault: str, journal: str, tmp_path: Path, long_run: bool
) -> None:
    """Nothing that was acknowledged before is lost, and nothing is acknowledged after."""
    total = calls_of_a_run(journal)[call]
    for number in positions(total, long_run, 2):
        directory = tmp_path / str(number)
        directory.mkdir()
        path = directory / "state.db"
        inject = ("-e", f"inject={call}:error={fault}:when={number}+")
        course, code = run(path, journal, traced(path, directory / "log", *inject))
        assert code == 0
        assert set(course.failed.values()) <= {"StoreIOError", *EXPECTED[fault]}
        assert course.stored == list(range(len(course.stored)))
        # A commit whose last step failed may be found by the next process that opens the file.
        require_stored_once(path, course.stored, also=course.failed)
