"""Which code answers to our names: another product installs a module and a command of the same."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from hermes_sessions.storage.care.doctor.check_runner import Check
from hermes_sessions.storage.care.doctor.report import Finding
from hermes_sessions.storage.care.doctor.subject import Subject

_MODULE: Final = "hermes_state"
_COMMAND: Final = "hermes"
#: Words that stand in files of ours, and in no others.
_OURS: Final = (b"hermes_sessions", b"hermes_start", b"hermes-sessions")
#: Bytes of a file that are read.
_BEGINNING: Final = 64 * 1024


def _module(_subject: Subject) -> Iterable[Finding]:
    spec = find_spec(_MODULE)
    if spec is not None and spec.origin is not None and not _is_ours(Path(spec.origin)):
        yield Finding.of("shadowed-module", f"import {_MODULE} gives {spec.origin}.")


def _command(subject: Subject) -> Iterable[Finding]:
    found = shutil.which(_COMMAND, path=subject.environ.get("PATH", os.defpath))
    if found is not None and not _is_ours(Path(found)):
        yield Finding.of("shadowed-command", f"{_COMMAND} is {found}.")


def _is_ours(path: Path) -> bool:
    with path.open("rb") as file:
        beginning = file.read(_BEGINNING)
    return any(word in beginning for word in _OURS)


INSTALLATION: Final = (
    Check(("shadowed-module",), _module, needs="nothing"),
    Check(("shadowed-command",), _command, needs="nothing"),
)
