"""Commands shown in output, to be copied into a shell."""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote

from hermes_sessions.cli.render.safe_text import lines


def command_line(name: str, *arguments: str) -> str:
    """Return a ``hermes sessions`` command, quoted for the shell.

    Control characters are replaced, so a command with a name that contains them does not work.
    """
    return " ".join(lines(" ".join(["hermes sessions", name, *map(quote, arguments)])))


def command_on(name: str, *sessions: str, options: Sequence[str] = ()) -> str:
    """Return a command for *sessions*, like `command_line`; names may begin with a dash."""
    if any(session.startswith("-") for session in sessions):
        return command_line(name, *options, "--", *sessions)
    return command_line(name, *sessions, *options)


def resume_line(option: str, session: str) -> str:
    """Return the command that continues a session, quoted like `command_line`."""
    word = f"{option}={session}" if session.startswith("-") else f"{option} {quote(session)}"
    return " ".join(lines(f"hermes {quote(word) if word.startswith(f'{option}=') else word}"))
