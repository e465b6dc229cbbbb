"""Checks of the surroundings: other products, backups, file system, permissions, leftovers,
clocks.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import stat
import time
from collections.abc import Iterable, Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

from hermes_sessions.config.paths import config_file_path
from hermes_sessions.storage.care.backups.backup_directory import UNFINISHED, list_backups
from hermes_sessions.storage.care.doctor.check_runner import Check, ExaminedStore
from hermes_sessions.storage.care.doctor.report import Finding, OpenStore, utc_text
from hermes_sessions.storage.provider_registry import file_care
from hermes_sessions.storage.spool_file import COMING, DONE, SUFFIX

# ── other products of the same name ───────────────────────────────────────────────────────────

_MODULE: Final = "hermes_state"
_COMMAND: Final = "hermes"
#: Words that occur in this product's files and in no others.
_OURS: Final = (b"hermes_sessions", b"hermes_start", b"hermes-sessions")
#: How many bytes of a file are read.
_BEGINNING: Final = 64 * 1024


def _module(_subject: ExaminedStore) -> Iterable[Finding]:
    spec = find_spec(_MODULE)
    if spec is not None and spec.origin is not None and not _is_ours(Path(spec.origin)):
        yield Finding.of("shadowed-module", f"import {_MODULE} loads {spec.origin}.")


def _command(subject: ExaminedStore) -> Iterable[Finding]:
    found = shutil.which(_COMMAND, path=subject.environ.get("PATH", os.defpath))
    if found is not None and not _is_ours(Path(found)):
        yield Finding.of("shadowed-command", f"{_COMMAND} is {found}.")


def _is_ours(path: Path) -> bool:
    with path.open("rb") as file:
        beginning = file.read(_BEGINNING)
    return any(word in beginning for word in _OURS)


INSTALLATION_CHECKS: Final = (
    Check(("shadowed-module",), _module, needs="nothing"),
    Check(("shadowed-command",), _command, needs="nothing"),
)


# ── backups ───────────────────────────────────────────────────────────────────────────────────

#: Seconds that a store may exist without a backup, and that the newest backup may be old.
_WITHOUT: Final = 7 * 86_400.0
_OLD: Final = 30 * 86_400.0


class BackupSummary(NamedTuple):
    """How many backups there are, and how new they are."""

    directory: Path
    number: int
    #: When the newest one was made.
    newest: float | None


def summarize_backups(subject: ExaminedStore) -> BackupSummary:
    """Return the complete backups in the configured directory.

    Raises:
        BackupRefused: the directory cannot be read.
    """
    directory = subject.settings.backups.directory
    complete = [each for each in list_backups(directory) if each.state == "complete"]
    newest = max((each.created for each in complete), default=None)
    return BackupSummary(directory, len(complete), newest)


def _backups(subject: ExaminedStore) -> Iterable[Finding]:
    kept = summarize_backups(subject)
    now = subject.clock()
    with subject.read() as tx:
        row = tx.one("SELECT MIN(started_at), MAX(last_active) FROM sessions")
    first, last = row or (None, None)
    if kept.newest is None:
        if first is not None and now - float(first) > _WITHOUT:
            yield Finding.of("no-backup", f"No backup in {kept.directory}.")
    elif last is not None and float(last) > kept.newest and now - kept.newest > _OLD:
        date = time.strftime("%Y-%m-%d", time.gmtime(kept.newest))
        yield Finding.of("old-backup", f"The newest backup in {kept.directory} is from {date}.")


BACKUPS: Final = (Check(("no-backup", "old-backup"), _backups),)


# ── file system and permissions ───────────────────────────────────────────────────────────────

#: The disk is almost full below this many bytes, or below this fraction of the store's size.
_LEAST_FREE: Final = 64 * 1024 * 1024
_LEAST_PART: Final = 0.01
_LEAST_FILES: Final = 16
#: Seconds after which an unchanged temporary file is a leftover.
_LEFT_AFTER: Final = 3600.0

_OTHERS: Final = 0o077
_OTHERS_WRITE: Final = 0o022
#: A line of config.yaml with a secret in it, as opposed to the name of a variable.
_SECRET: Final = re.compile(
    r"^\s*[\w-]*(?:password|token|api_key|secret)[\w-]*\s*:\s*(?!['\"]?\$\{)['\"]?[^\s'\"#~]"
    r"|://[^/\s:@$]+:[^@\s$]+@",
    re.IGNORECASE | re.MULTILINE,
)
_LOGS: Final = ("-wal", "-shm", "-journal")


def _file_system(subject: ExaminedStore) -> Iterable[Finding]:
    kind = file_care().unsafe_file_system(Path(_real(subject)))
    if kind is not None:
        yield Finding.of("unsafe-file-system", f"{subject.path} is on a {kind} file system.")


def _real(subject: ExaminedStore) -> str:
    return os.path.realpath(subject.path)


def _writable(subject: ExaminedStore) -> Iterable[Finding]:
    real = Path(_real(subject))
    if real.exists() and not file_care().can_write(real):
        blocked = real.parent if os.access(real, os.W_OK) else real
        yield Finding.of("read-only-place", f"You cannot write to {blocked}.")


# ── privacy ───────────────────────────────────────────────────────────────────────────────────


def _rights(subject: ExaminedStore) -> Iterable[Finding]:
    home = subject.settings.home
    if subject.is_file:
        real = _real(subject)
        for path in (Path(real + suffix) for suffix in ("", *_LOGS, ".gate")):
            if path.is_file():
                yield from _private(path, _OTHERS, "The store")
        yield from _private(Path(real).parent, _OTHERS_WRITE, "The store's directory")
    if not subject.is_file or home != Path(_real(subject)).parent:
        yield from _private(home, _OTHERS_WRITE, "The home directory")
    for name in ("chat_history", "spool", "gateway/spool"):
        yield from _private(home / name, _OTHERS, "Message text")
    config = config_file_path(home)
    if config.exists() and _SECRET.search(config.read_text(encoding="utf-8", errors="replace")):
        yield from _private(config, _OTHERS, "A secret")


def _private(path: Path, unwanted: int, what: str) -> Iterator[Finding]:
    try:
        facts = path.stat()
    except FileNotFoundError:
        return
    mode = stat.S_IMODE(facts.st_mode)
    # In a sticky directory such as /tmp, other users cannot replace this user's files.
    if mode & unwanted and not (path.is_dir() and mode & stat.S_ISVTX):
        fix = partial(_take_rights, path, unwanted) if facts.st_uid == os.geteuid() else None
        yield Finding.of(
            "open-to-others", f"{what} is accessible to other users: {path} ({mode:04o}).", fix
        )


def _take_rights(path: Path, unwanted: int, _open_store: OpenStore) -> str:
    mode = stat.S_IMODE(path.stat().st_mode)
    path.chmod(mode & ~unwanted)
    return f"Removed access for other users: {path} ({mode:04o}, now {mode & ~unwanted:04o})."


# ── space ─────────────────────────────────────────────────────────────────────────────────────


def _space(subject: ExaminedStore) -> Iterable[Finding]:
    directory = Path(_real(subject)) if subject.is_file else subject.settings.home
    size = directory.stat().st_size if subject.is_file and directory.exists() else 0
    while not directory.is_dir():
        directory = directory.parent
    facts = os.statvfs(directory)
    free = facts.f_bavail * facts.f_frsize
    if free < max(_LEAST_FREE, size * _LEAST_PART):
        yield Finding.of("disk-nearly-full", f"{free / 1_000_000:.1f} MB free in {directory}.")
    elif facts.f_files and facts.f_favail < _LEAST_FILES:
        yield Finding.of("disk-nearly-full", f"No more files can be created in {directory}.")


# ── leftovers ─────────────────────────────────────────────────────────────────────────────────


def _left_behind(subject: ExaminedStore) -> Iterable[Finding]:
    directories = {subject.settings.home, subject.settings.backups.directory}
    if subject.is_file:
        directories.add(Path(_real(subject)).parent)
    for directory in sorted(directories):
        if directory.is_dir():
            yield from _left_in(directory, subject.clock())
    spools = (subject.settings.home / "spool", subject.settings.home / "gateway" / "spool")
    for spool in spools:
        for done in sorted(spool.rglob(f"*{DONE}")):
            if not done.with_suffix(SUFFIX).exists():
                yield _left(done)
        for coming in sorted(spool.rglob(f"*{COMING}")):
            # Its process died before it could lock the file, so it is empty.
            if subject.clock() - coming.stat().st_mtime > _LEFT_AFTER:
                yield _left(coming)


def _left_in(directory: Path, now: float) -> Iterator[Finding]:
    for path in sorted(directory.iterdir()):
        name = path.name
        suffix = next((each for each in _LOGS if name.endswith(each)), None)
        if suffix is not None and name.removesuffix(suffix).endswith((".db", ".sqlite")):
            if not path.with_name(name.removesuffix(suffix)).exists():
                if suffix != "-shm" and path.stat().st_size > 0:
                    yield Finding.of("orphaned-log", f"{path} has no database next to it.")
                else:
                    yield _left(path)
        elif _is_temporary(name) and path.is_file() and now - path.stat().st_mtime > _LEFT_AFTER:
            yield _left(path)


def _is_temporary(name: str) -> bool:
    """Return whether this product uses such names for files that it renames when complete."""
    return name.endswith((".bak.partial", UNFINISHED)) or (
        name.startswith(".sessions_") and name.endswith(".tmp")
    )


def _left(path: Path) -> Finding:
    return Finding.of("orphaned-files", f"{path} is no longer used.", partial(_remove, path))


def _remove(path: Path, _open_store: OpenStore) -> str:
    path.unlink(missing_ok=True)
    return f"Removed {path}."


ENVIRONMENT_CHECKS: Final = (
    Check(("unsafe-file-system",), _file_system, needs="nothing"),
    Check(("read-only-place",), _writable, needs="nothing"),
    Check(("open-to-others",), _rights, needs="nothing"),
    Check(("disk-nearly-full",), _space, needs="nothing"),
    Check(("orphaned-files", "orphaned-log"), _left_behind, needs="nothing"),
)


# ── clocks ────────────────────────────────────────────────────────────────────────────────────


#: Seconds by which clocks may differ without harm.
_SKEW: Final = 10.0
#: Seconds in the future that rounding cannot explain.
_JUMP: Final = 300.0
#: How many of the newest messages are checked.
_NEWEST: Final = 1000


def _jumps(subject: ExaminedStore) -> Iterable[Finding]:
    limit = subject.clock() + _JUMP
    with subject.read() as tx:
        sessions = tx.one(
            "SELECT COUNT(*), MAX(last_active) FROM sessions "
            "WHERE last_active > ? OR started_at > ?",
            (limit, limit),
        )
        newest = tx.one("SELECT MAX(id) FROM messages")
        messages = tx.one(
            "SELECT COUNT(*), MAX(timestamp) FROM messages WHERE id > ? AND timestamp > ?",
            (int((newest and newest[0]) or 0) - _NEWEST, limit),
        )
        # Only this machine's processes: they wrote with the clock they are compared to.
        processes = tx.one(
            "SELECT COUNT(*), MAX(heartbeat_at) FROM processes "
            "WHERE ended_at IS NULL AND heartbeat_at > ? AND host LIKE ?",
            (limit, f"{socket.gethostname()}%"),
        )
    found = {
        ("session", "sessions"): sessions,
        ("message", "messages"): messages,
        ("process", "processes"): processes,
    }
    parts = [
        f"{row[0]} {one if row[0] == 1 else many}"
        for (one, many), row in found.items()
        if row and row[0]
    ]
    if parts:
        latest = max(float(row[1]) for row in found.values() if row and row[0] and row[1])
        yield Finding.of("clock-jump", f"{', '.join(parts)}, dated up to {utc_text(latest)}.")


def _skew(subject: ExaminedStore) -> Iterable[Finding]:
    if subject.server is not None:
        with subject.read() as tx:
            before = subject.clock()
            row = tx.one(subject.server.clock)
            after = subject.clock()
        theirs = float(row[0]) if row else before
        if not before - _SKEW <= theirs <= after + _SKEW:
            ahead = theirs - after
            yield Finding.of(
                "clock-skew",
                f"The server's clock is {abs(ahead):,.0f} s "
                f"{'ahead of' if ahead > 0 else 'behind'} this machine's.",
            )
    with subject.read() as tx:
        ahead_hosts = tx.all(
            "SELECT host, MAX(heartbeat_at) FROM processes WHERE ended_at IS NULL "
            "AND heartbeat_at > ? AND host NOT LIKE ? GROUP BY host ORDER BY host",
            (subject.clock() + _SKEW, f"{socket.gethostname()}%"),
        )
    for host, beat in ahead_hosts:
        name = str(host or "another machine").partition("#")[0]
        seconds = float(beat) - subject.clock()
        yield Finding.of(
            "clock-skew", f"The clock of {name} is {seconds:,.0f} s ahead of this machine's."
        )


CLOCK_CHECKS: Final = (
    Check(("clock-jump",), _jumps),
    Check(("clock-skew",), _skew),
)
