"""Messages that arrive without a database are on disk, in order, and counted once."""

from __future__ import annotations

import multiprocessing
import os
import signal
from pathlib import Path

import pytest

from hermes_sessions.gateway.events import Attachment, Inbound, Part
from hermes_sessions.gateway.inbound_spool import Spool
from hermes_sessions.model.source import Platform, SessionSource


def message(text: str, message_id: str | None = "1") -> Inbound:
    source = SessionSource(Platform.TELEGRAM, "12", user_id="u", is_bot=True)
    return Inbound(source, text, message_id)


def replayed(spool: Spool) -> list[str]:
    found: list[Inbound] = []
    spool.replay(found.append)
    return [inbound.text for inbound in found]


def test_messages_come_back_unchanged_and_in_order(tmp_path: Path) -> None:
    photo = Attachment("photo", "file-1", "é.jpg", "image/jpeg", 3)
    sent = [
        Inbound(
            message("").source,
            "lone \ud800 \x00\n",
            "9",
            1.5,
            (photo,),
            "8",
            {"update": [1, None]},
            ("role",),
            parts=(Part("9", "lone", (photo,), 9.0), Part("10", "")),
        ),
        message("two", "10"),
    ]
    spool = Spool(tmp_path / "spool")
    for inbound in sent:
        spool.append(inbound)
    assert spool.waiting == 2
    found: list[Inbound] = []
    assert spool.replay(found.append) == 2
    assert found == sent
    assert spool.waiting == 0
    assert list((tmp_path / "spool").iterdir()) == []


def test_what_fails_stays_with_all_after_it(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    for number in range(4):
        spool.append(message(str(number), str(number)))
    taken = []

    def store(inbound: Inbound) -> None:
        if inbound.text == "2":
            raise ConnectionError
        taken.append(inbound.text)

    with pytest.raises(ConnectionError):
        spool.replay(store)
    assert (taken, spool.waiting) == (["0", "1"], 2)
    assert replayed(spool) == ["2", "3"]


def test_a_message_without_an_id_gets_one_that_stays(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.append(message("x", None))
    seen: list[Inbound] = []

    def refuse(inbound: Inbound) -> None:
        seen.append(inbound)
        raise ConnectionError

    for _ in range(2):
        with pytest.raises(ConnectionError):
            spool.replay(refuse)
    first, second = (inbound.message_id for inbound in seen)
    assert first is not None
    assert first == second


def test_the_next_process_takes_over_what_a_dead_one_left(tmp_path: Path) -> None:
    def die() -> None:
        spool = Spool(tmp_path)
        spool.append(message("one", "1"))
        spool.append(message("two", "2"))
        spool.replay(lambda inbound: None if inbound.text == "one" else _die())

    def _die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    child = multiprocessing.get_context("fork").Process(target=die)
    child.start()
    child.join()
    assert child.exitcode == -signal.SIGKILL
    spool = Spool(tmp_path)
    assert spool.adopt() == 1
    spool.append(message("three", "3"))
    assert replayed(spool) == ["two", "three"]
    assert list(tmp_path.iterdir()) == []


def test_the_file_of_a_living_process_is_left_alone(tmp_path: Path) -> None:
    living, other = Spool(tmp_path), Spool(tmp_path)
    living.append(message("mine"))
    assert other.adopt() == 0
    assert replayed(living) == ["mine"]


def test_closing_keeps_what_waits(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.append(message("kept"))
    spool.close()
    after = Spool(tmp_path)
    assert after.adopt() == 1
    assert replayed(after) == ["kept"]


def test_damage_costs_the_damaged_line_only(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    for number in range(3):
        spool.append(message(str(number), str(number)))
    spool.close()
    (path,) = tmp_path.glob("*.spool")
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + b"{broken\n" + lines[2] + b'{"cut sho')
    after = Spool(tmp_path)
    assert after.adopt() == 2
    assert replayed(after) == ["0", "2"]
    (aside,) = tmp_path.glob("*.unreadable")
    assert aside.read_bytes() == b"{broken\n"


def test_files_are_for_the_owner_alone(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "new" / "spool")
    spool.append(message("x"))
    (path,) = (tmp_path / "new" / "spool").iterdir()
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_a_full_disk_refuses_and_leaves_no_half_line(tmp_path: Path) -> None:
    import resource

    spool = Spool(tmp_path)
    spool.append(message("one", "1"))
    (path,) = tmp_path.glob("*.spool")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 20, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            spool.append(message("two", "2"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    spool.append(message("three", "3"))
    assert replayed(spool) == ["one", "three"]
