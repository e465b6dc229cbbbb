"""Warnings of the library on standard error, one line each."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from hermes_sessions.cli.render.safe_text import one_line
from hermes_sessions.storage.logs import warnings_shown_by

if TYPE_CHECKING:
    from hermes_sessions.cli.console import Console


def warnings_shown_on(console: Console) -> AbstractContextManager[None]:
    """Show what the package warns of inside the block, without the place it came from."""
    return warnings_shown_by(lambda text: console.tell(f"Warning: {one_line(text)}"))
