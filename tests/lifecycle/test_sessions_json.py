"""``sessions.json``: when it is written, how, and its contents."""

from __future__ import annotations

import errno
import json
import logging
import os
import shutil
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hermes_sessions import SessionDB
from hermes_sessions.config.gateway_config import GatewayConfig
from hermes_sessions.lifecycle.host_files import SessionsJsonFile, write_atomically
from hermes_sessions.lifecycle.session_entry import SessionEntry
from hermes_sessions.lifecycle.session_store import SessionStore
from hermes_sessions_testing.clock import FrozenClock
from tests.lifecycle.senders import ANN, ANNS_KEY, ann
from tests.servers.stores import OpenStore


class Pauses:
    """Waiting, as a test controls it: the writer waits until it is let go."""

    def __init__(self) -> None:
        self.asked: list[float] = []
        self.began = threading.Semaphore(0)
        self._go = threading.Semaphore(0)

    def __call__(self, seconds: float) -> None:
        self.asked.append(seconds)
        self.began.release()
        self._go.acquire()

    def let_go(self) -> None:
        self._go.release()


def index_of(path: Path, document: dict[str, Any], **options: Any) -> SessionsJsonFile:
    return SessionsJsonFile(path, lambda: document, **options)


def wait_until_idle(index: SessionsJsonFile) -> None:
    while (thread := index._thread) is not None:
        thread.join()


def test_changes_are_collected(tmp_path: Path) -> None:
    path, document, pauses = tmp_path / "sessions.json", dict[str, Any](), Pauses()
    index = index_of(path, document, pause=pauses, interval=2.0)
    for number in range(1000):
        document["n"] = number
        index.changed()
    pauses.began.acquire()
    assert not path.exists()
    pauses.let_go()
    wait_until_idle(index)
    assert json.loads(path.read_text()) == {"n": 999}
    assert pauses.asked == [2.0]
    index.close()
    assert len(list(tmp_path.iterdir())) == 1


def test_a_slow_file_is_written_less_often(tmp_path: Path) -> None:
    pauses, ticks = Pauses(), iter([0.0, 10.0, 20.0, 21.0])
    index = SessionsJsonFile(
        tmp_path / "sessions.json",
        lambda: index.changed() or {},  # type: ignore[func-returns-value]
        pause=pauses,
        stopwatch=lambda: next(ticks),
    )
    index.changed()
    for _ in range(2):
        pauses.began.acquire()
        pauses.let_go()
    pauses.began.acquire()
    assert pauses.asked == [2.0, 200.0, 20.0]
    index._stopped.set()
    pauses.let_go()


def test_closing_writes_what_is_left(tmp_path: Path) -> None:
    path, document = tmp_path / "sessions.json", {"a": 1}
    index = index_of(path, document)
    index.close()
    assert not path.exists()
    index = index_of(path, document)
    index.changed()
    index.close()
    assert json.loads(path.read_text()) == {"a": 1}
    document["a"] = 2
    index.close()
    assert json.loads(path.read_text()) == {"a": 1}


def test_only_the_owner_may_read_it(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "sessions.json"
    write_atomically(path, "{}")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    real, link = tmp_path / "elsewhere" / "real.json", tmp_path / "sessions.json"
    real.parent.mkdir()
    real.write_text("old")
    link.symlink_to(real)
    write_atomically(link, "new")
    assert (link.is_symlink(), real.read_text()) == (True, "new")
    assert list(real.parent.iterdir()) == [real]


@pytest.mark.parametrize("number", [errno.EXDEV, errno.EBUSY])
def test_a_file_that_cannot_be_replaced_is_filled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    path = tmp_path / "sessions.json"
    path.write_text("old")

    def refuses(self: Path, target: Path) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, "replace", refuses)
    write_atomically(path, "new")
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_write_that_fails_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path, document = tmp_path / "sessions.json", {"a": 1}
    write_atomically(path, "old")
    index = index_of(path, document, pause=lambda _: None)

    def fails(_number: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as full:
        full.setattr(os, "fsync", fails)
        with caplog.at_level(logging.WARNING):
            index._is_dirty = True
            index._flush_or_warn()
    assert "No space left" in caplog.text
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
    # It is still to be written, and not tried over and over again.
    index.changed()
    wait_until_idle(index)
    assert json.loads(path.read_text()) == {"a": 1}


def test_a_store_that_is_closed_first(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    db = SessionDB(tmp_path / "state.db")
    sessions = SessionStore(tmp_path, db=db)
    sessions.get_or_create_session(ANN)
    db.close()
    with caplog.at_level(logging.WARNING):
        sessions.close()
    assert caplog.text.count("was not written") == 1


def test_flushing(tmp_path: Path) -> None:
    path, document = tmp_path / "sessions.json", {"a": 1}
    index = index_of(path, document, pause=lambda _: index._stopped.wait())
    index.changed()
    index.flush()
    assert json.loads(path.read_text()) == {"a": 1}
    index.close()


def test_a_store_writes_it(tmp_path: Path, clock: FrozenClock) -> None:
    with SessionDB(tmp_path / "state.db", clock=clock) as db:
        with SessionStore(tmp_path, db=db) as sessions:
            entry = sessions.get_or_create_session(ANN)
            sessions.flush()
            [(key, written)] = json.loads((tmp_path / "sessions.json").read_text()).items()
            assert (key, SessionEntry.from_dict(written)) == (ANNS_KEY, entry)
            sessions.suspend_session(ANNS_KEY)
            sessions.get_or_create_session(ann(chat_id="2"))
        found = json.loads((tmp_path / "sessions.json").read_text())
        assert [values["suspended"] for values in found.values()] == [False, True]
        assert db.session_count() == 2


def test_every_change_has_it_written(tmp_path: Path, clock: FrozenClock) -> None:
    verbs: list[Callable[[SessionStore], object]] = [
        lambda store: store.get_or_create_session(ANN),
        lambda store: store.update_session(ANNS_KEY, 7),
        lambda store: store.mark_resume_pending(ANNS_KEY),
        lambda store: store.clear_resume_pending(ANNS_KEY),
        lambda store: store.suspend_recently_active(),
        lambda store: store.suspend_session(ANNS_KEY),
        lambda store: store.reset_session(ANNS_KEY),
        lambda store: store.take_notice(ANNS_KEY),
        lambda store: store.switch_session(ANNS_KEY, "other"),
        lambda store: store.prune_old_entries(1) if clock.advance(days=2) else None,
    ]
    with (
        SessionDB(tmp_path / "state.db", clock=clock) as db,
        SessionStore(tmp_path, GatewayConfig(session_store_max_age_days=1), db=db) as store,
    ):
        db.create_session("other", "cli")
        seen = [""]
        for verb in verbs:
            clock.advance(1)
            verb(store)
            store.flush()
            seen.append((tmp_path / "sessions.json").read_text())
        assert [seen[n] for n in range(len(verbs)) if seen[n] == seen[n + 1]] == []
        assert json.loads(seen[-1]) == {}


def test_what_a_process_that_died_had_not_written(tmp_path: Path) -> None:
    with SessionDB(tmp_path / "state.db") as db:
        with SessionStore(tmp_path, db=db) as sessions:
            sessions.get_or_create_session(ANN)
        other = GatewayConfig(write_sessions_json=False)
        with SessionStore(tmp_path, other, db=db) as sessions:
            entry = sessions.reset_session(ANNS_KEY)
        assert entry is not None
        with SessionStore(tmp_path, db=db):
            pass
    [written] = json.loads((tmp_path / "sessions.json").read_text()).values()
    assert written["session_id"] == entry.session_id


@pytest.mark.parametrize("wanted", [None, True, False])
def test_where_it_is_written(
    open_store: OpenStore, tmp_path: Path, wanted: bool | None, clock: FrozenClock
) -> None:
    """By default, where the store is a file on this machine."""
    with open_store(clock=clock) as db:
        config = GatewayConfig(write_sessions_json=wanted)
        with SessionStore(tmp_path / "sessions", config, db=db) as sessions:
            sessions.get_or_create_session(ANN)
        is_file = db.provider.name == "sqlite"
    assert (tmp_path / "sessions" / "sessions.json").exists() == (
        wanted is not False and (is_file or wanted is True)
    )


def test_a_read_only_store_writes_nothing(tmp_path: Path) -> None:
    with SessionDB(tmp_path / "state.db") as db, SessionStore(tmp_path / "one", db=db) as sessions:
        entry = sessions.get_or_create_session(ANN)
    shutil.rmtree(tmp_path / "one")
    with (
        SessionDB(tmp_path / "state.db", read_only=True) as db,
        SessionStore(tmp_path / "one", db=db) as sessions,
    ):
        assert sessions.peek(ANN) is not None
        assert sessions.lookup_by_session_id(entry.session_id) is not None
    assert not (tmp_path / "one").exists()
