"""Restore a backup: verify it, prepare the store separately, and put it in place in one step.

A SQLite store is built as a file beside the old one, compared with the backup there, and replaces
it in one transaction; the replaced one is kept. A store on a server must be empty: it is filled in
a single transaction, and the previously used database stays.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hermes_sessions.errors import BackupRefused, InvalidInput, StoreLocked
from hermes_sessions.storage.care.backups.backup_directory import (
    UNFINISHED,
    Backup,
    described,
    explained,
    require_free_space,
)
from hermes_sessions.storage.care.backups.container import Container, opened
from hermes_sessions.storage.care.backups.creation import Progress, silent
from hermes_sessions.storage.care.backups.portable_format import (
    counts_of,
    present,
    read_rows,
    read_store,
    read_sums,
)
from hermes_sessions.storage.care.backups.verification import (
    SESSIONS,
    check_unpacked,
    compare_sums,
    sums_of,
    unpack_image,
    unpacked_image,
    verify_backup,
)
from hermes_sessions.storage.fsync import sync_file
from hermes_sessions.storage.provider import ReadTransaction, SessionDBProvider, WriteTransaction
from hermes_sessions.storage.provider_registry import file_care, open_url
from hermes_sessions.storage.repositories.stale_sessions import note_all
from hermes_sessions.storage.session_copy.reader import Piece, SideRows, batches, count_rows
from hermes_sessions.storage.session_copy.writer import Edge, edges_of, insert_rows, link_parents

if TYPE_CHECKING:
    from hermes_sessions.storage.sessiondb import SessionDB

#: Seconds to wait for a store that is just being closed.
PATIENCE: Final = 2.0
#: A process with a heartbeat within this many seconds may still be running.
_STILL_ALIVE: Final = 120.0
_RESTORING: Final = ".restoring"
#: Called with the number of messages done.
Advance = Callable[[int], None]
#: Examines the result, given the number of rows that were written, by table.
Check = Callable[[ReadTransaction, Counter[str]], None]
_Read = Callable[[], Iterable[Piece | SideRows]]
_Run = Callable[[Callable[[WriteTransaction], Any]], Any]


class RestoreResult(NamedTuple):
    """The result of a restore."""

    backup: Backup
    #: Never a secret.
    store: str
    #: Where the previous store is kept; None if there was none.
    kept: Path | None = None


def restore_backup(
    path: str | Path,
    into: str | Path | SessionDB | SessionDBProvider,
    *,
    on_progress: Progress = silent,
    now: Callable[[], float] = time.time,
) -> RestoreResult:
    """Restore a backup into *into*: a path or URL of a SQLite file, or an empty store.

    See `restore_file` and `restore_into`, also for the errors.
    """
    if not isinstance(into, str | Path):
        provider = into if isinstance(into, SessionDBProvider) else into.provider
        return restore_into(path, provider, on_progress=on_progress, now=now)
    text = str(into)
    if "://" not in text or text.lower().startswith(f"{file_care().provider}:"):
        return restore_file(path, _file_of(text), on_progress=on_progress, now=now)
    provider = open_url(text)
    try:
        return restore_into(path, provider, on_progress=on_progress, now=now)
    finally:
        provider.close()


def _file_of(text: str) -> str:
    from urllib.parse import unquote

    place = text.partition("://")[2] if "://" in text else f"/{text}"
    if not place.startswith("/") or place in ("/", "/:memory:"):
        raise InvalidInput(
            f"{text!r} is not a file. A SQLite URL looks like sqlite:////tmp/file.db."
        )
    return unquote(place[1:]) if "://" in text else place[1:]


# A SQLite file


def restore_file(
    path: str | Path,
    target: str | Path,
    *,
    on_progress: Progress = silent,
    now: Callable[[], float] = time.time,
    patience: float = PATIENCE,
) -> RestoreResult:
    """Restore a backup of any kind as the SQLite store at *target*.

    An existing store is kept beside it as ``NAME.replaced-DATE``. Until the last step, one
    transaction, the old store stays in place. So after any failure or crash there is a complete
    store, the old or the new one. The next restore removes the unfinished files of a killed one.

    Raises:
        BackupDamaged, BackupRefused: the backup cannot be used.
        StoreLocked: the store is in use; the message names the program.
        DiskFull: there is no space for the store and the one that is kept.
        StoreError: the target cannot be used.
    """
    real = Path(os.path.realpath(target))
    with opened(Path(path)) as container, _alone(real):
        backup = described(container)
        file_care().require_unused(real)
        new = real.with_name(real.name + _RESTORING)
        try:
            if backup.kind == "image":
                _unpack(container, backup, new, on_progress)
            else:
                _fill_file(container, backup, new, on_progress)
            kept = _replace(real, new, now(), patience)
        finally:
            _remove(new)
    return RestoreResult(backup, f"{file_care().provider}:///{real}", kept)


def _unpack(container: Container, backup: Backup, new: Path, on_progress: Progress) -> None:
    require_free_space(new.parent, container.require("image").raw_length)
    unpack_image(container, new)
    check_unpacked(
        container, backup, new, lambda done, total: on_progress("Verifying", done, total)
    )
    file_care().prepare_image(new)


def _fill_file(container: Container, backup: Backup, new: Path, on_progress: Progress) -> None:
    require_free_space(new.parent, container.require("rows").raw_length)
    provider = file_care().open_working_copy(new)
    try:
        container.check_digests()
        read: _Read = partial(read_rows, container)
        _fill(provider, container, backup, read, at_once=False, on_progress=on_progress)
    finally:
        provider.close()
    with explained(new):
        sync_file(new)


def _replace(real: Path, new: Path, now: float, patience: float) -> Path | None:
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
    kept = real.with_name(f"{real.name}.replaced-{stamp}")
    number = 1
    while os.path.lexists(kept):
        number += 1
        kept = real.with_name(f"{real.name}.replaced-{stamp}-{number}")
    if real.exists():
        # For the copy that is kept, and for the journal of the last step.
        require_free_space(real.parent, 2 * real.stat().st_size)
    with explained(real):
        return file_care().replace_store(real, new, kept, patience)


@contextmanager
def _alone(real: Path) -> Iterator[None]:
    """Let one process at a time restore a file, and remove the remains of a killed one."""
    import fcntl

    file_care().prepare_directory(real)
    lock = real.with_name(f"{real.name}.restore-lock")
    with explained(lock):
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_ours = os.path.samestat(os.fstat(descriptor), lock.stat())
        except (BlockingIOError, FileNotFoundError):
            is_ours = False
        if not is_ours:
            raise StoreLocked(
                f"Another process is restoring {real}. Wait until it is done, then try again."
            )
        _remove(real.with_name(real.name + _RESTORING))
        for left in real.parent.iterdir():
            if left.name.startswith(f"{real.name}.replaced-") and left.name.endswith(UNFINISHED):
                left.unlink(missing_ok=True)
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)
    finally:
        os.close(descriptor)


def _remove(new: Path) -> None:
    for suffix in ("", "-wal", "-shm", "-journal", ".gate"):
        new.with_name(new.name + suffix).unlink(missing_ok=True)


# A server, or any other store


def restore_into(
    path: str | Path,
    target: SessionDBProvider,
    *,
    on_progress: Progress = silent,
    now: Callable[[], float] = time.time,
) -> RestoreResult:
    """Restore a backup of any kind into an empty store, in one transaction.

    Raises:
        BackupDamaged: the backup cannot be used; nothing was written.
        BackupRefused: the store is not empty, or the backup cannot be read.
        StoreLocked: a process that uses the store is running; the message says which.
        StoreError: the store cannot be written; nothing was written.
    """
    from hermes_sessions.storage.transfer.copy_ledger import identity

    require_no_running_process(target, now())
    with opened(Path(path)) as container:
        backup = described(container)
        if backup.kind == "portable":
            verify_backup(path, lambda done, total: on_progress("Verifying", done, total))
            read: _Read = partial(read_rows, container)
            _fill(target, container, backup, read, at_once=True, on_progress=on_progress)
        else:
            _fill_from_image(target, container, backup, on_progress)
    return RestoreResult(backup, identity(target))


def _fill_from_image(
    target: SessionDBProvider, container: Container, backup: Backup, on_progress: Progress
) -> None:
    care = file_care()
    with unpacked_image(container, container.path.parent) as image:
        check_unpacked(
            container, backup, image, lambda done, total: on_progress("Verifying", done, total)
        )
        with care.read_image(image) as tx:
            read: _Read = partial(read_store, tx, present(tx, care.tables_query))
            _fill(target, container, backup, read, at_once=True, on_progress=on_progress)


def require_no_running_process(target: SessionDBProvider, now: float) -> None:
    """Refuse a store in which a living process is registered.

    Raises:
        StoreLocked: the message names the process.
    """
    with target.read() as tx:
        running = tx.all(
            "SELECT kind, host, pid FROM processes WHERE ended_at IS NULL AND heartbeat_at > ? "
            "ORDER BY heartbeat_at DESC",
            (now - _STILL_ALIVE,),
        )
    if running:
        who = ", ".join(f"{kind} (process {pid} on {host})" for kind, host, pid in running[:3])
        raise StoreLocked(
            f"The store is in use by {who}; nothing was changed. Stop it first, then try again."
        )


def _fill(
    target: SessionDBProvider,
    container: Container,
    backup: Backup,
    read: _Read,
    *,
    at_once: bool,
    on_progress: Progress,
) -> None:
    done = 0

    def advance(messages: int) -> None:
        nonlocal done
        done += messages
        on_progress("Restoring", done, backup.messages)

    def check(tx: ReadTransaction, written: Counter[str]) -> None:
        # An image also counts rows that belong to no session.
        expected = backup.counts if backup.kind == "portable" else written
        for table, rows in expected.items():
            stored = count_rows(tx, table)
            if stored != rows:
                raise BackupRefused(
                    f"{table} has {stored} rows after the restore, but {rows} in the backup. "
                    f"Nothing was changed; try again while no other process uses the store."
                )
        compare_sums(
            container,
            sums_of(tx),
            read_sums(container, SESSIONS),
            backup,
            lambda done, total: on_progress("Comparing", done, total),
        )

    fill_store(target, read, at_once=at_once, check=check, advance=advance)


# Writing rows. On a server this is one transaction: no other process sees a part of it, and a lost
# connection leaves nothing behind. A SQLite file under construction has no final name yet, so many
# short transactions are enough.


def fill_store(
    target: SessionDBProvider,
    read: _Read,
    *,
    at_once: bool,
    check: Check = lambda _tx, _written: None,
    advance: Advance = lambda _: None,
) -> None:
    """Write all that *read* yields into an empty store; with *at_once* in a single transaction.

    *check* examines the result before a single transaction is committed.

    Raises:
        BackupRefused: the store is not empty; nothing was written.
        BackupDamaged: the backup is damaged. With *at_once*, nothing was written.
    """
    if at_once:
        target.write(lambda tx: check(tx, _write_all(target, read, advance, lambda step: step(tx))))
        return
    written = _write_all(target, read, advance, target.write)
    with target.read() as tx:
        check(tx, written)


def _write_all(
    target: SessionDBProvider,
    read: _Read,
    advance: Advance,
    run: _Run,
) -> Counter[str]:
    run(lambda tx: _require_empty(tx, target.dialect.tables_query))
    written = Counter[str]()
    #: Edges by the parent that is not stored yet.
    waiting: dict[str, list[Edge]] = {}
    for batch in batches(read()):
        edges = edges_of(batch)
        for part in batch:
            if isinstance(part, Piece) and part.session is not None:
                edges += waiting.pop(part.session_id, ())

        def work(
            tx: WriteTransaction,
            batch: list[Piece | SideRows] = batch,
            edges: list[Edge] = edges,
        ) -> list[Edge]:
            insert_rows(tx, target, batch)
            return link_parents(tx, edges)

        for edge in run(work):
            waiting.setdefault(edge[1], []).append(edge)
        for part in batch:
            written.update({table.name: len(rows) for table, rows in part.rows()})
            advance(len(part.messages) if isinstance(part, Piece) else 0)
    run(note_all)
    return written


def _require_empty(tx: WriteTransaction, tables_query: str | None) -> None:
    """Refuse a store that is not empty.

    Raises:
        BackupRefused: the message says what it contains, and what to do.
    """
    held = {name: rows for name, rows in counts_of(tx, tables_query).items() if rows}
    if held:
        some = ", ".join(f"{number} in {name}" for name, number in list(held.items())[:3])
        raise BackupRefused(
            f"The store is not empty (rows: {some}); nothing was changed. On a server, a backup "
            f"can only be restored into an empty database or schema: create one, restore into it "
            f"with --into, and point sessiondb in config.yaml to it. The old one stays."
        )
