"""``hermes-sessions adopt`` and ``hermes-sessions unadopt``.

hermes-agent brings a module ``hermes_state`` and a command ``hermes``, so that the wheel of this
product installs neither under these names. Its drop-in module lies in a directory that comes last
on Python's path: it serves environments without hermes-agent. Adopting makes Python find it first,
by one file that no package owns; hermes-agent's own files stay as they are.
"""

from __future__ import annotations

import os
import shutil
import sysconfig
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

import click

from hermes_sessions.cli.console import Console
from hermes_sessions.cli.options import pass_console
from hermes_sessions.errors import InvalidInput

_OTHER: Final = "hermes-agent"
_PATH_FILE: Final = "hermes_sessions_adopted.pth"
_COMMAND: Final = "hermes"
_OWN_COMMAND: Final = "hermes-sessions"


@click.command(short_help="Let hermes-agent in this environment use this store.")
@pass_console
def adopt(console: Console) -> None:
    """Let hermes-agent in this environment use this store, or add the command hermes.

    With hermes-agent installed, its import of hermes_state loads this product's module from its
    next start on. None of its files changes, and its command hermes stays its own. Without
    hermes-agent, the command hermes is added beside hermes-sessions. Repeating it changes nothing;
    hermes-sessions unadopt takes it back.
    """
    other = _other_version()
    if other is None:
        console.print(_add_command())
        return
    _replace(_packages() / _PATH_FILE, _path_line())
    console.print(
        [
            f"{_OTHER} {other} uses this store from its next start; its files are unchanged.",
            "To see which store that is: hermes-sessions sessiondb status",
            "To take it back: hermes-sessions unadopt",
        ]
    )


@click.command(short_help="Take back hermes-sessions adopt.")
@pass_console
def unadopt(console: Console) -> None:
    """Take back hermes-sessions adopt: hermes-agent uses its own store again.

    Sessions stay where they are. To take them along: hermes-sessions sessiondb export-hermes. The
    command hermes is removed if hermes-sessions adopt added it.
    """
    done = []
    path_file = _packages() / _PATH_FILE
    if path_file.exists():
        _remove(path_file)
        other = _other_version()
        done.append(
            f"{_OTHER} {other} uses its own store from its next start."
            if other is not None
            else f"Removed {path_file}; {_OTHER} is no longer installed."
        )
    command = _scripts() / _COMMAND
    if _is_added(command):
        _remove(command)
        done.append(f"Removed the command {command}.")
    console.print(done or ["Nothing to take back: this environment is not adopted."])


def _other_version() -> str | None:
    try:
        return version(_OTHER)
    except PackageNotFoundError:
        return None


def _packages() -> Path:
    return Path(sysconfig.get_path("purelib"))


def _scripts() -> Path:
    return Path(sysconfig.get_path("scripts"))


def _path_line() -> str:
    """Return a line that Python runs at its start. It does nothing once this product is removed.

    It finds the module before Python's path is searched: the commands of hermes-agent put their own
    directory first on it.
    """
    root = Path(__file__).parents[2]
    # An editable installation has the module beside the package.
    is_editable = root.resolve() != _packages().resolve()
    directory = str(root if is_editable else root / "hermes_sessions_drop_in")
    module = os.path.join(directory, "hermes_state.py")  # noqa: PTH118 - text of a program
    finder = (
        f"type('HermesSessionsFinder', (), {{'find_spec': staticmethod("
        f"lambda name, path=None, target=None, find=PathFinder.find_spec: "
        f"find(name, [{directory!r}]) if name == 'hermes_state' else None)}})"
    )
    return (
        f"import os, sys; from importlib.machinery import PathFinder; "
        f"os.path.isfile({module!r}) and sys.meta_path.insert(0, {finder})\n"
    )


def _add_command() -> list[str]:
    command, own = _scripts() / _COMMAND, _scripts() / _OWN_COMMAND
    if _is_added(command):
        return [f"{command} is already this product's command."]
    if command.exists():
        raise InvalidInput(
            f"{command} belongs to another program. Use {_OWN_COMMAND}, which is the same command."
        )
    if not own.exists():
        raise InvalidInput(
            f"{own} is missing, so hermes-sessions is not installed in this environment. "
            f"Install it: pip install hermes-sessions"
        )
    _replace(command, own.read_text(encoding="utf-8"), mode=own)
    return [f"Added the command {command}."]


def _is_added(command: Path) -> bool:
    own = _scripts() / _OWN_COMMAND
    return command.is_file() and own.is_file() and command.read_bytes() == own.read_bytes()


def _replace(path: Path, text: str, *, mode: Path | None = None) -> None:
    """Write a file as a whole, or not at all."""
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        draft.write_text(text, encoding="utf-8")
        if mode is not None:
            shutil.copymode(mode, draft)
        draft.replace(path)
    except OSError as error:
        # The draft may not exist, in a directory that refuses any change.
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        raise _not_writable(path, error) from error


def _remove(path: Path) -> None:
    try:
        path.unlink()
    except OSError as error:
        raise _not_writable(path, error) from error


def _not_writable(path: Path, error: OSError) -> InvalidInput:
    return InvalidInput(
        f"{path} cannot be changed ({error.strerror}). Run this as the owner of the environment."
    )
