"""Recovering the write-ahead log of a crashed program."""

from __future__ import annotations

import random
import struct
import tracemalloc
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import NamedTuple

import apsw
import pytest

from hermes_sessions.storage.sqlite.wal_checksums import (
    Order,
    Sums,
    count_valid_frames,
    frame_sums,
    plain_sums,
)
from hermes_sessions.storage.sqlite.wal_files import apply_wal, inspect_wal

HEADER = 32
FRAME_HEADER = 24
MAGIC: dict[Order, int] = {"<": 0x377F0682, ">": 0x377F0683}
SALTS = (0x12345678, 0x9ABCDEF0)
OLDER = (0x12345677, 0x11111111)


class Found(NamedTuple):
    """What counts of the state of a log."""

    frames: int
    committed: int
    drops_commits: bool
    is_damaged: bool
    is_header_damaged: bool


def found_in(path: Path) -> Found:
    state = inspect_wal(path)
    return Found(
        state.frames,
        state.committed,
        state.drops_commits,
        state.is_damaged,
        state.is_header_damaged,
    )


# ── logs of our making, and the plainest way to read them ─────────────────────────────────────


def summed(order: Order, data: bytes, sums: Sums) -> Sums:
    """The checksum as SQLite's file format describes it."""
    first, second = sums
    for one, two in struct.iter_unpack(f"{order}2I", data):
        first = (first + one + second) % 2**32
        second = (second + two + first) % 2**32
    return first, second


def made_log(
    order: Order,
    page_size: int,
    ends: list[bool],
    chance: random.Random,
    *,
    pages_from: int = 2,
    older: int = 0,
) -> bytes:
    """Return a log with a frame for each of *ends*, which says whether a transaction ends there;
    with *older* frames of an earlier round behind them.
    """
    head = struct.pack(">6I", MAGIC[order], 3007000, page_size, 0, *SALTS)
    sums = summed(order, head, (0, 0))
    log = head + struct.pack(">2I", *sums)
    for is_end in [*ends, *[True] * older]:
        is_older = len(log) >= HEADER + len(ends) * (FRAME_HEADER + page_size)
        start = struct.pack(">2I", chance.randrange(pages_from, 60), 60 if is_end else 0)
        page = chance.randbytes(page_size)
        sums = summed(order, start + page, sums)
        log += start + struct.pack(">4I", *(OLDER if is_older else SALTS), *sums) + page
    return log


def plainly(log: bytes, order: Order, page_size: int) -> Found:
    """Return what the log holds, whose header is sound: frame by frame, word by word."""
    step = FRAME_HEADER + page_size
    frames = [log[at : at + step] for at in range(HEADER, len(log) - step + 1, step)]
    heads = [struct.unpack_from(">6I", frame) for frame in frames]
    while heads and (heads[-1][2:4] != SALTS or heads[-1][0] == 0):
        heads.pop()
    seed = struct.unpack_from(">2I", log, 24)
    damaged, ends = [], [0]
    for number, (head, frame) in enumerate(zip(heads, frames, strict=False), start=1):
        sums = summed(order, frame[:8] + frame[FRAME_HEADER:], (seed[0], seed[1]))
        is_sound = head[0] != 0 and sums == head[4:]
        if is_sound and head[1]:
            ends.append(number)
        if not is_sound or head[2:4] != SALTS:
            damaged.append(number)
        seed = head[4:]
    before = ends[-2] if len(ends) > 1 else 0
    return Found(
        len(heads),
        ends[-1],
        any(number <= before for number in damaged),
        any(number <= ends[-1] for number in damaged),
        False,
    )


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("order", ["<", ">"], ids=["little", "big"])
def test_damage_is_found_wherever_it_is(order: Order, seed: int, tmp_path: Path) -> None:
    """In pages, marks, numbers and sums, at the ends of transactions and between them, with the
    pages of a database or others, and with frames of an earlier round behind them.
    """
    chance = random.Random(seed)
    size = chance.choice([512, 1024, 4096])
    ends = [chance.random() < 0.4 for _ in range(chance.randrange(1, 30))]
    log = bytearray(
        made_log(
            order, size, ends, chance, pages_from=chance.choice([1, 2]), older=chance.choice([0, 5])
        )
    )
    path = tmp_path / "left-wal"
    path.write_bytes(log)
    step = FRAME_HEADER + size
    last_end = max((number for number, is_end in enumerate(ends, 1) if is_end), default=0)
    assert found_in(path) == (len(ends), last_end, False, False, False)
    for _ in range(chance.randrange(1, 4)):
        frame = HEADER + chance.randrange(len(ends)) * step
        place = chance.choice(
            [chance.randrange(8), 8 + chance.randrange(8), 16 + chance.randrange(8), 24, step - 1]
        )
        log[frame + place] ^= chance.randrange(1, 256)
        if chance.random() < 0.2:
            log[frame : frame + step] = bytes(step)
    if chance.random() < 0.3:
        del log[-chance.randrange(1, step) :]
    path.write_bytes(log)
    assert found_in(path) == plainly(bytes(log), order, size)


@pytest.mark.parametrize(
    ("ends", "pages", "marks", "expected"),
    [
        # Only what was never finished, or never acknowledged, is missing.
        ("..E..E...", [8], [], (9, 6, False, False, False)),
        ("..E..E", [6], [], (6, 3, False, False, False)),
        ("..E..E", [4], [], (6, 6, False, True, False)),
        ("..E..E..E...", [7], [], (12, 9, False, True, False)),
        # Transactions that were finished come after what is damaged.
        ("..E..E..E", [4], [], (9, 9, True, True, False)),
        ("..E..E..E", [1], [], (9, 9, True, True, False)),
        ("..E..E..E...", [6, 12], [], (12, 9, False, True, False)),
        # One that does not say to which round it belongs still ends a transaction.
        ("EEE", [], [2], (3, 3, True, True, False)),
        ("..E..E..E.", [4], [9], (10, 9, True, True, False)),
    ],
)
def test_what_damage_costs(
    ends: str, pages: list[int], marks: list[int], expected: tuple[object, ...], tmp_path: Path
) -> None:
    log = bytearray(made_log("<", 512, [sign == "E" for sign in ends], random.Random(1)))
    for number in pages:
        log[HEADER + (number - 1) * (FRAME_HEADER + 512) + 300] ^= 1
    for number in marks:
        log[HEADER + (number - 1) * (FRAME_HEADER + 512) + 8] ^= 1
    path = tmp_path / "left-wal"
    path.write_bytes(log)
    assert found_in(path) == expected
    assert plainly(bytes(log), "<", 512) == expected


@pytest.mark.parametrize("has_header", [True, False], ids=["header", "no header"])
def test_what_is_sound_is_copied_into_its_place(has_header: bool, tmp_path: Path) -> None:
    log = bytearray(made_log("<", 512, [True] * 6, random.Random(1)))
    step = FRAME_HEADER + 512
    frames = [bytes(log[at : at + step]) for at in range(HEADER, len(log), step)]
    # The checksum of zeros after zeros is right.
    log[HEADER + 2 * step : HEADER + 4 * step] = bytes(2 * step)
    path, database = tmp_path / "left-wal", tmp_path / "left"
    path.write_bytes(log if has_header else bytes(HEADER) + log[HEADER:])
    database.write_bytes(b"?" * 512 * 70)
    state = apply_wal(path, database)
    assert (state.frames, state.committed, state.damaged[:2]) == (6, 6, (3, 4))
    expected = [b"?" * 512] * 60
    for frame in (frames[0], frames[1], frames[5]):
        expected[struct.unpack_from(">I", frame)[0] - 1] = frame[FRAME_HEADER:]
    assert database.read_bytes() == b"".join(expected)


def test_a_log_without_its_header(tmp_path: Path) -> None:
    path = tmp_path / "left-wal"
    log = made_log(">", 1024, [True] * 4, random.Random(1))
    path.write_bytes(bytes(HEADER) + log[HEADER:])
    assert found_in(path) == (4, 4, True, True, True)


@pytest.mark.parametrize("content", [b"", bytes(10), bytes(5 * 1024 * 1024)], ids=len)
def test_preallocated_space_is_not_a_log(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "left-wal"
    path.write_bytes(content)
    assert found_in(path) == (0, 0, False, False, False)
    path.unlink()
    assert found_in(path) == (0, 0, False, False, False)


@pytest.mark.parametrize("order", ["<", ">"], ids=["little", "big"])
@pytest.mark.parametrize(("page_size", "frames"), [(512, 1), (512, 700), (4096, 3), (65536, 2)])
def test_sums_side_by_side_are_those_of_each(order: Order, page_size: int, frames: int) -> None:
    chance = random.Random(page_size + frames)
    # The largest words, so that every sum runs over.
    pages = [b"\xff" * page_size, *(chance.randbytes(page_size) for _ in range(frames - 1))]
    heads = [b"\xff" * FRAME_HEADER, *(chance.randbytes(FRAME_HEADER) for _ in range(frames - 1))]
    seeds = [(2**32 - 1, 2**32 - 1), *((chance.randrange(2**32), 5) for _ in range(frames - 1))]
    block = b"".join(head + page for head, page in zip(heads, pages, strict=True))
    expected = [
        summed(order, head[:8] + page, seed)
        for head, page, seed in zip(heads, pages, seeds, strict=True)
    ]
    assert frame_sums(order, block, seeds) == expected
    assert plain_sums(order, heads[0][:8] + pages[0], seeds[0]) == expected[0]


# ── logs of SQLite's making ───────────────────────────────────────────────────────────────────


def left_behind(
    directory: Path,
    writes: int,
    *,
    bytes_each: int = 3000,
    page_size: int = 4096,
    unfinished: int = 0,
) -> Path:
    """Return the log that a program leaves which writes so often, and dies."""
    directory.mkdir()
    busy = directory / "busy.db"
    left = directory / "left.db"
    connection = apsw.Connection(str(busy))
    try:
        connection.pragma("page_size", page_size)
        connection.pragma("journal_mode", "wal")
        connection.pragma("wal_autocheckpoint", 0)
        connection.pragma("cache_size", 5)
        connection.execute("CREATE TABLE t (x)")
        for _ in range(writes):
            connection.execute("INSERT INTO t VALUES (zeroblob(?))", (bytes_each,))
        if unfinished:
            connection.execute("BEGIN")
            connection.execute("INSERT INTO t VALUES (zeroblob(?))", (unfinished,))
            connection.execute("UPDATE t SET x = NULL WHERE rowid = 1")
        for suffix in ("", "-wal"):
            Path(f"{left}{suffix}").write_bytes(Path(f"{busy}{suffix}").read_bytes())
    finally:
        connection.close(True)
    return Path(f"{left}-wal")


def accepted(log: Path, abort_check: Callable[[], None] = lambda: None) -> int:
    with log.open("rb", buffering=0) as file:
        return count_valid_frames(file, 4096, abort_check)


def test_sqlite_is_asked_and_nothing_is_changed(tmp_path: Path) -> None:
    log = left_behind(tmp_path / "files", 20)
    before = {entry.name: entry.read_bytes() for entry in log.parent.iterdir()}
    frames = (log.stat().st_size - HEADER) // (FRAME_HEADER + 4096)
    assert accepted(log) == frames
    assert found_in(log) == (frames, frames, False, False, False)
    assert {entry.name: entry.read_bytes() for entry in log.parent.iterdir()} == before


def test_what_sqlite_takes_is_not_summed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is the part of a transaction that was never finished, however long that is."""
    sizes: list[int] = []

    def counting(order: Order, block: bytes, seeds: list[Sums], abort_check: object) -> list[Sums]:
        sizes.append(len(seeds))
        return frame_sums(order, block, seeds)

    monkeypatch.setattr("hermes_sessions.storage.sqlite.wal_files.frame_sums", counting)
    log = left_behind(tmp_path / "files", 20, unfinished=2_000_000)
    state = inspect_wal(log)
    assert state.frames > state.committed + 400
    assert (state.committed, state.drops_commits) == (accepted(log), False)
    assert sizes == []
    with log.open("r+b") as file:
        # From the last but one on that was committed.
        file.seek(HEADER + (state.committed - 3) * (FRAME_HEADER + 4096) + 2000)
        file.write(b"x")
    assert inspect_wal(log).committed == state.committed
    assert 1 <= sum(sizes) <= 10


def test_it_ends_when_it_must(tmp_path: Path) -> None:
    """Before any frame, for each kind of reader, with the error that was raised."""
    log = left_behind(tmp_path / "files", 20)
    for most in (1, 7, 30):
        asked = count(1)

        def abort_check(asked: count[int] = asked, most: int = most) -> None:
            if next(asked) > most:
                raise TimeoutError(most)

        with pytest.raises(TimeoutError, match=str(most)):
            inspect_wal(log, abort_check)
        assert next(asked) == most + 2


def test_a_log_that_restarts_meanwhile_is_read_again(tmp_path: Path) -> None:
    """Half of one and half of another looks like damage."""
    one = left_behind(tmp_path / "one", 40)
    other = left_behind(tmp_path / "other", 30)
    asked = count()

    def abort_check() -> None:
        if next(asked) == 20:
            with one.open("r+b") as file:
                file.write(other.read_bytes())

    state = inspect_wal(one, abort_check)
    assert (state.committed, state.drops_commits) == (accepted(other), False)
    assert next(asked) > 20


@pytest.mark.parametrize("page_size", [4096, 65536])
def test_a_long_log_is_not_kept_in_memory(page_size: int, tmp_path: Path) -> None:
    log = left_behind(tmp_path / "files", 4, bytes_each=8 * 1024 * 1024, page_size=page_size)
    assert log.stat().st_size > 32 * 1024 * 1024
    damaged = tmp_path / "damaged-wal"
    content = bytearray(log.read_bytes())
    content[HEADER + FRAME_HEADER] ^= 1
    damaged.write_bytes(content)
    del content
    tracemalloc.start()
    try:
        assert not inspect_wal(log).drops_commits
        assert inspect_wal(damaged).drops_commits
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 12 * 1024 * 1024
