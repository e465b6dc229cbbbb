"""Options, descriptions and progress that the backup commands share."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hermes_sessions.cli.render.humanize import counted
from hermes_sessions.config import load_settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hermes_sessions.cli.console import Console
    from hermes_sessions.storage.care.backups import Backup

directory_option = click.option(
    "--in",
    "directory",
    metavar="DIR",
    help="The directory of the backups; default: backups.directory.",
)


def backup_folder(directory: str | None) -> Path:
    """Return the directory given as an option, or the configured one."""
    return Path(directory) if directory is not None else load_settings().backups.directory


def configured_location() -> str:
    """Return the place of the configured store as text."""
    settings = load_settings().sessiondb
    if settings.store_file is not None:
        return str(settings.store_file)
    return f"the configured store ({settings.provider})"


def as_json(backup: Backup) -> dict[str, Any]:
    """Return a backup as a JSON object."""
    facts = backup._asdict()
    return {**facts, "path": str(backup.path), "name": backup.name, "steps": list(backup.steps)}


def contents(backup: Backup) -> str:
    """Return the numbers of sessions and messages in a backup as text."""
    sessions = counted(backup.sessions, "session")
    return f"{sessions}, {counted(backup.messages, 'message')}"


@contextmanager
def progress_callback(console: Console, label: str) -> Iterator[Callable[[str, int, int], None]]:
    """Show a progress bar; yield the callback that advances it."""
    with console.progress(label, 1) as progress:
        yield lambda _what, done, total: progress.reach(done, max(total, 1))
