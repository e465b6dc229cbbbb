"""Programs that fork while a store is open, and check both sides."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import hermes_sessions
from hermes_sessions.errors import StoreUnavailable
from hermes_sessions.storage.repositories import messages
from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions.storage.sqlite import fork_safety, shared_engines
from tests.storage.sqlite.programs import open_store

EACH = 10


def fork(body: Callable[[], None]) -> int:
    """Run *body* in a forked child, which ends without any cleaning up; return its process id."""
    pid = os.fork()
    if pid:
        return pid
    signal.alarm(100)  # A child that waits for a lock for ever must not outlive the test.
    code = 0
    try:
        body()
    except BaseException:  # noqa: BLE001 - it is reported by the exit code
        traceback.print_exc()
        code = 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def require_success(pid: int) -> None:
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0, f"the child ended with {status}"


def append(db: SessionDB, who: str, count: int = EACH) -> None:
    for number in range(count):
        db.append_message(
            "s", role="user", content=f"{who} {number}", external_id=f"{who} {number}"
        )


def require_fork_named(error: StoreUnavailable) -> None:
    assert "fork" in str(error), error


def require_refusal(action: Callable[[], Any]) -> None:
    try:
        action()
    except StoreUnavailable as error:
        require_fork_named(error)
    else:
        raise AssertionError("the child used the store")


def require_all_refused(db: SessionDB, path: str) -> None:
    """No way leads to the store in this child, not even a new handle."""
    require_refusal(lambda: append(db, "child", 1))
    require_refusal(lambda: db.get_messages("s"))
    require_refusal(lambda: SessionDB(path))
    db.close()
    require_refusal(lambda: SessionDB(path))
    require_refusal(lambda: SessionDB(path, read_only=True))


@contextmanager
def elsewhere(occupy: Callable[[threading.Event, threading.Event], None]) -> Iterator[None]:
    """Keep a thread busy during the block: it sets the first event and waits for the second."""
    begun, release = threading.Event(), threading.Event()
    failures: list[BaseException] = []

    def run() -> None:
        try:
            occupy(begun, release)
        except BaseException as error:  # noqa: BLE001 - the other thread reports it
            failures.append(error)
            begun.set()

    thread = threading.Thread(target=run)
    thread.start()
    begun.wait()
    try:
        yield
    finally:
        release.set()
        thread.join()
    assert not failures, failures


def opened(path: str) -> SessionDB:
    db = open_store(path)
    db.create_session("s", source="test")
    append(db, "before", 3)
    assert len(db.get_messages("s")) == 3
    return db


# ── idle ──────────────────────────────────────────────────────────────────────────────────────────


def both_write(path: str) -> None:
    with opened(path) as db:
        child = fork(lambda: append(db, "child"))
        append(db, "parent")
        require_success(child)
        assert len(db.get_messages("s")) == 3 + 2 * EACH


def generations_write(path: str) -> None:
    """A child's child is as good as a child."""
    with opened(path) as db:

        def child() -> None:
            append(db, "child")
            require_success(fork(lambda: append(db, "grandchild")))
            append(db, "child again")

        require_success(fork(child))
        assert len(db.get_messages("s")) == 3 + 3 * EACH


def child_ends_like_any_program(path: str) -> None:
    """A child that closes its handle, and runs every clean-up of the interpreter."""
    db = opened(path)
    pid = os.fork()
    if not pid:
        signal.alarm(100)
        append(db, "child")
        db.close()
        sys.exit(0)
    append(db, "parent")
    require_success(pid)
    append(db, "parent again")
    assert len(db.get_messages("s")) == 3 + 3 * EACH
    db.close()


def parent_closes(path: str) -> None:
    """The parent closes its last connection; the child writes on."""
    db = opened(path)
    to_child, to_parent = os.pipe(), os.pipe()

    def child() -> None:
        append(db, "child")
        os.write(to_parent[1], b"x")
        os.read(to_child[0], 1)
        append(db, "child again")

    pid = fork(child)
    append(db, "parent")
    os.read(to_parent[0], 1)
    db.close()
    os.write(to_child[1], b"x")
    require_success(pid)
    with open_store(path) as again:
        assert len(again.get_messages("s")) == 3 + 3 * EACH


_pool_store: SessionDB | None = None


def _append_in_pool(number: int) -> int:
    assert _pool_store is not None
    append(_pool_store, f"worker {number}", 5)
    return len(_pool_store.get_messages("s"))


def pool_writes(path: str) -> None:
    global _pool_store  # noqa: PLW0603 - the workers inherit it
    _pool_store = opened(path)
    with multiprocessing.get_context("fork").Pool(4) as pool:
        assert len(pool.map(_append_in_pool, range(12))) == 12
        append(_pool_store, "parent")
        pool.map(_append_in_pool, range(12, 16))
    assert len(_pool_store.get_messages("s")) == 3 + 16 * 5 + EACH
    _pool_store.close()


def long_log(path: str) -> None:
    """The thread that copies the log is not in the way, and the parent gets a new one."""
    with open_store(path, durability="normal") as db:
        db.create_session("s", source="test")
        big = [{"role": "user", "content": "x" * 6_000_000}] * 2
        for _ in range(2):
            db.append_messages("s", big)
            child = fork(lambda: db.append_messages("s", big) and None)
            db.append_messages("s", big)
            require_success(child)
        assert len(db.get_messages("s")) == 2 * 3 * 2
    assert not Path(f"{path}-wal").exists()


def in_memory(_path: str) -> None:
    """The child has a copy of its own."""
    with opened(":memory:") as db:

        def child() -> None:
            append(db, "child")
            assert len(db.get_messages("s")) == 3 + EACH

        require_success(fork(child))
        assert len(db.get_messages("s")) == 3


def among_short_reads(path: str) -> None:
    """A fork waits for reads to end, so busy readers do not make every child useless."""
    with opened(path) as db:
        stop = threading.Event()

        def read() -> None:
            while not stop.is_set():
                db.get_messages("s")

        threads = [threading.Thread(target=read) for _ in range(3)]
        for thread in threads:
            thread.start()
        for turn in range(5):
            require_success(fork(lambda: append(db, f"child {turn}", 2)))  # noqa: B023
        stop.set()
        for thread in threads:
            thread.join()
        assert len(db.get_messages("s")) == 3 + 5 * 2


def while_a_thread_uses_a_handle_first(path: str) -> None:
    """What a handle makes when it is first used, a child can make again."""
    with opened(path), SessionDB(path) as fresh, SessionDB(path) as other:
        make = messages.Messages.__init__

        def occupy(begun: threading.Event, release: threading.Event) -> None:
            def make_slowly(*args: Any, **options: Any) -> None:
                make(*args, **options)
                if threading.current_thread() is not threading.main_thread():
                    begun.set()
                    release.wait()

            messages.Messages.__init__ = make_slowly  # type: ignore[method-assign]
            append(other, "thread", 1)

        with elsewhere(occupy):
            require_success(fork(lambda: append(fresh, "child", 1)))
        assert len(fresh.get_messages("s")) == 3 + 2


def while_a_thread_imports(path: str) -> None:
    """A fork waits until it has: the child would never get that module."""
    folder = Path(path).parent / "more"
    folder.mkdir()
    (folder / "slow.py").write_text(
        "import threading\nthreading.begun.set()\nthreading.go_on.wait()"
    )
    hermes_sessions.__path__.append(str(folder))
    with opened(path) as db:

        def occupy(begun: threading.Event, release: threading.Event) -> None:
            def wait_a_moment(seconds: float) -> None:
                release.set()
                time.sleep(seconds)

            fork_safety.time = SimpleNamespace(  # type: ignore[assignment]
                monotonic=time.monotonic, sleep=wait_a_moment
            )
            vars(threading).update(begun=begun, go_on=release)
            import_module("hermes_sessions.slow")

        def child() -> None:
            import_module("hermes_sessions.slow")
            append(db, "child", 1)

        with elsewhere(occupy):
            require_success(fork(child))


# ── in use ────────────────────────────────────────────────────────────────────────────────────────


def while_a_thread_writes(path: str) -> None:
    shared_engines.FORK_PATIENCE = 0.05  # type: ignore[misc]
    with opened(path) as db:

        def occupy(begun: threading.Event, release: threading.Event) -> None:
            def work(tx: Any) -> None:
                tx.run("UPDATE sessions SET user_id = ? WHERE id = ?", ("written", "s"))
                begun.set()
                release.wait()

            db.provider.write(work)

        with elsewhere(occupy):
            require_success(fork(lambda: require_all_refused(db, path)))
        assert db.get_session("s")["user_id"] == "written"  # type: ignore[index]
        append(db, "parent")
        # Nothing is in use any more.
        require_success(fork(lambda: append(db, "child")))
        assert len(db.get_messages("s")) == 3 + 2 * EACH


def while_a_thread_reads(path: str) -> None:
    shared_engines.FORK_PATIENCE = 0.05  # type: ignore[misc]
    with opened(path) as db:
        seen: list[int] = []

        def occupy(begun: threading.Event, release: threading.Event) -> None:
            with db.provider.read() as tx:
                rows = tx.stream("SELECT id FROM messages ORDER BY id")
                seen.append(next(rows)[0])
                begun.set()
                release.wait()
                seen.extend(row[0] for row in rows)

        with elsewhere(occupy):
            require_success(fork(lambda: require_all_refused(db, path)))
            append(db, "parent")
        assert len(seen) == 3
        require_success(fork(lambda: append(db, "child")))
        assert len(db.get_messages("s")) == 3 + 2 * EACH


def while_a_closed_handle_reads(path: str) -> None:
    """What is still open counts, not what has a handle."""
    shared_engines.FORK_PATIENCE = 0.05  # type: ignore[misc]
    db = opened(path)

    def occupy(begun: threading.Event, release: threading.Event) -> None:
        with db.provider.read() as tx:
            tx.one("SELECT 1 FROM messages")
            begun.set()
            release.wait()

    with elsewhere(occupy):
        db.close()
        require_success(fork(lambda: require_refusal(lambda: SessionDB(path))))


def while_a_read_only_handle_reads(path: str) -> None:
    """SQLite keeps one book of locks per file, so the other handle cannot be used either."""
    shared_engines.FORK_PATIENCE = 0.05  # type: ignore[misc]
    with opened(path) as db, SessionDB(path, read_only=True) as reader:

        def occupy(begun: threading.Event, release: threading.Event) -> None:
            with reader.provider.read() as tx:
                tx.one("SELECT 1 FROM messages")
                begun.set()
                release.wait()

        with elsewhere(occupy):
            require_success(fork(lambda: require_all_refused(db, path)))
        append(db, "parent")


def while_a_thread_opens(path: str) -> None:
    """A store that is being opened is in use, too."""
    with opened(path) as first:
        with first.provider.read() as tx:
            tx.one("SELECT 1 FROM messages")
        link = f"{path}.link"
        Path(link).symlink_to(path)
        first.close()

        def occupy(begun: threading.Event, release: threading.Event) -> None:
            # A caller that has opened the file, and got no further.
            with shared_engines.shared_engines._one_opener(os.path.realpath(link), 1.0):
                begun.set()
                release.wait()

        with elsewhere(occupy):
            require_success(fork(lambda: require_refusal(lambda: SessionDB(path))))
        SessionDB(path).close()


def inside_its_own_write(path: str) -> None:
    """A child that continues inside the transaction cannot end it."""
    with opened(path) as db:

        def work(tx: Any) -> int:
            tx.run("UPDATE sessions SET user_id = ? WHERE id = ?", ("parent", "s"))
            pid = os.fork()
            if not pid:
                signal.alarm(100)
                tx.run("UPDATE sessions SET user_id = ? WHERE id = ?", ("child", "s"))
            require_success(pid)
            return pid

        try:
            db.provider.write(work)
        except StoreUnavailable as error:
            require_fork_named(error)
            require_all_refused(db, path)
            # Every clean-up of the interpreter, with the parent's connection still around.
            sys.exit(0)
        assert db.get_session("s")["user_id"] == "parent"  # type: ignore[index]
        append(db, "parent")


def inside_its_own_write_without_another_word(path: str) -> None:
    """Not even the commit alone gets through."""
    with opened(path) as db:

        def work(tx: Any) -> int:
            tx.run("UPDATE sessions SET user_id = ? WHERE id = ?", ("parent", "s"))
            pid = os.fork()
            if pid:
                require_success(pid)
                found = tx.one("SELECT user_id FROM sessions WHERE id = ?", ("s",))
                assert found == ("parent",), found
            return pid

        try:
            pid = db.provider.write(work)
        except StoreUnavailable as error:
            require_fork_named(error)
            sys.exit(0)
        assert pid
        append(db, "parent")


def inside_its_own_read(path: str) -> None:
    with opened(path) as db:
        try:
            with db.provider.read() as tx:
                rows = tx.stream("SELECT id FROM messages ORDER BY id")
                next(rows)
                pid = os.fork()
                if pid:
                    require_success(pid)
                rest = list(rows)
        except StoreUnavailable as error:
            require_fork_named(error)
            require_all_refused(db, path)
            sys.exit(0)
        assert pid
        assert len(rest) == 2
        append(db, "parent")
        assert len(db.get_messages("s")) == 3 + EACH
