"""Commands that output names, to be copied into a shell."""

from __future__ import annotations

from shlex import quote


def command_line(name: str, *arguments: str) -> str:
    """Return a ``hermes sessions`` command as one types it, quoted where a shell needs it."""
    return " ".join(["hermes sessions", name, *map(quote, arguments)])
